// Globals, builtins, closure cells and imports.
#include "capture/interpreter/names.h"

#include "capture/interpreter/containers/keys.h"

namespace stator::capture {

std::optional<Value*> written_global(Interpreter& in, PyObject* globals, PyObject* name) {
  auto dict = in.globals_written.find(globals);
  if (dict == in.globals_written.end()) return std::nullopt;
  for (auto& [key, value] : dict->second)
    if (key == name || PyUnicode_Compare(key, name) == 0) return value;
  return std::nullopt;
}

void store_global(Interpreter& in, PyObject* globals, PyObject* name, Value* value) {
  Value* target = in.wrap(globals, in.sources().pinned(globals, "globals"));
  ConstantValue* key = in.constant(name);
  auto& written = in.globals_written[globals];
  bool known = false;
  for (auto& [other, place] : written)
    if (PyUnicode_Compare(other, name) == 0) {
      place = value;
      known = true;
    }
  if (!known) {
    in.let_go(plain_item(globals, name));
    written.emplace_back(key->object.get(), value);
  }
  in.effects.push_back({value ? EffectKind::SetGlobal : EffectKind::DelGlobal, target, key, value});
}

Value* Interpreter::load_global(Frame& f, PyObject* name) {
  auto written = written_global(*this, f.globals, name);
  if (written && *written) return *written;
  PyObject* found = written ? nullptr : plain_item(f.globals, name);
  if (found) return wrap(found, sources_->child(f.globals_source, SourceKind::DictItem, 0, name, found));
  if (!written) guard(f.globals_source, FactKind::Absent, name);
  found = plain_item(f.builtins, name);
  if (!found) {
    guard(sources_->pinned(f.builtins, "builtins"), FactKind::Absent, name);
    const char* text = PyUnicode_AsUTF8(name);
    raise(PyExc_NameError, std::string("name '") + (text ? text : "?") + "' is not defined");
  }
  Source* builtins = sources_->pinned(f.builtins, "builtins");
  return wrap(found, sources_->child(builtins, SourceKind::DictItem, 0, name, found));
}

Value* load_cell(Interpreter& in, CellValue* cell) {
  if (!cell->loaded) {
    PyObject* contents = PyCell_GET(cell->outside.get());
    if (contents) {
      cell->contents =
          in.wrap(contents, in.sources().child(cell->source, SourceKind::CellContents, 0, nullptr, contents));
    } else {
      in.guard(cell->source, FactKind::CellEmpty);
    }
    cell->loaded = true;
  }
  return cell->contents;
}

void store_cell(Interpreter& in, CellValue* cell, Value* value) {
  in.refuse_frozen(cell);
  if (cell->outside && !cell->stored) in.let_go(PyCell_GET(cell->outside.get()));
  cell->contents = value;
  cell->loaded = true;
  cell->stored = true;
  if (cell->outside) in.effects.push_back({EffectKind::SetCell, cell, nullptr, value});
}

Value* import_name(Interpreter& in, Frame& f, PyObject* name, Value* from_list, Value* level) {
  // A module that is already imported is just read; a first import would run its code.
  PyObject* relative = in.constant_of(level);
  Ref full = Ref::borrow(name);
  if (relative && PyLong_AsLong(relative) > 0) {
    PyObject* package = PyDict_GetItemString(f.globals, "__package__");
    if (!package || !PyUnicode_Check(package)) throw Break{BreakId::unknown_call, "a relative import"};
    long up = PyLong_AsLong(relative) - 1;
    Ref base = Ref::borrow(package);
    for (; up > 0; --up) {
      Py_ssize_t dot = PyUnicode_FindChar(base.get(), '.', 0, PyUnicode_GET_LENGTH(base.get()), -1);
      if (dot < 0) throw Break{BreakId::unknown_call, "a relative import"};
      base = Ref::steal(PyUnicode_Substring(base.get(), 0, dot));
    }
    full = PyUnicode_GET_LENGTH(name) ? Ref::steal(PyUnicode_FromFormat("%U.%U", base.get(), name)) : base;
  }
  Ref module = Ref::steal(PyImport_GetModule(full.get()));
  PyErr_Clear();
  if (!module) throw Break{BreakId::unknown_call, std::string("import of ") + PyUnicode_AsUTF8(full.get())};
  bool whole = in.is_same(from_list, in.none());
  Py_ssize_t dot = PyUnicode_FindChar(full.get(), '.', 0, PyUnicode_GET_LENGTH(full.get()), 1);
  if (whole && dot > 0) {
    Ref head = Ref::steal(PyUnicode_Substring(full.get(), 0, dot));
    module = Ref::steal(PyImport_GetModule(head.get()));
    PyErr_Clear();
    if (!module) throw Break{BreakId::unknown_call, "import of a package that is not there"};
  }
  PyObject* modules = PyImport_GetModuleDict();
  Ref key = Ref::steal(PyObject_GetAttrString(module.get(), "__name__"));
  Source* table = in.sources().pinned(modules, "sys.modules");
  if (!key || PyDict_GetItemWithError(modules, key.get()) != module.get()) throw Break{BreakId::unknown_call, "import"};
  Value* found = in.wrap(module.get(), in.sources().child(table, SourceKind::DictItem, 0, key.get(), module.get()));
  // Importing a name from a package imports the part of that name, if there is no other thing.
  if (!whole && PyDict_GetItemString(PyModule_GetDict(module.get()), "__path__"))
    for (Value* part : in.unpack(from_list)) {
      PyObject* text = in.constant_of(part);
      if (!text || !in.find_attr(found, text)) throw Break{BreakId::unknown_call, "import of a submodule"};
    }
  return found;
}

}  // namespace stator::capture
