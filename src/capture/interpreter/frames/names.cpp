// Globals, builtins, closure cells and imports.
#include "capture/interpreter/protocol/names.h"

#include "capture/interpreter/containers/keys.h"
#include "capture/interpreter/protocol/arguments.h"
#include "capture/interpreter/protocol/exceptions.h"
#include "capture/interpreter/state/known_types.h"
#include "capture/pycompat/text.h"

namespace stator::capture {

/// The value of globals that the program got as a dict and changed by its methods; null otherwise.
static DictValue* changed_as_dict(Interpreter& in, PyObject* globals) {
  auto* dict = as<DictValue>(in.objects.find(globals));
  return dict && dict->mutated && !dict->is_globals ? dict : nullptr;
}

std::optional<Value*> written_global(Interpreter& in, PyObject* globals, PyObject* name) {
  if (DictValue* changed = changed_as_dict(in, globals)) return in.dict_get(changed, in.constant(name));
  auto dict = in.effects.globals_written.find(globals);
  if (dict == in.effects.globals_written.end()) return std::nullopt;
  for (auto& [key, value] : dict->second)
    if (key == name || PyUnicode_Compare(key, name) == 0) return value;
  return std::nullopt;
}

void store_global(Interpreter& in, PyObject* globals, PyObject* name, Value* value) {
  ConstantValue* key = in.constant(name);
  if (DictValue* changed = changed_as_dict(in, globals)) {
    if (value)
      in.dict_set(changed, key, value);
    else
      in.dict_delete(changed, key);
    return in.mutated(changed);
  }
  Value* target = in.wrap(globals, in.guards.sources().pinned(globals, "globals"));
  // Code that got the globals as a dict must see what is stored here.
  static_cast<DictValue*>(target)->is_globals = true;
  auto& written = in.effects.globals_written[globals];
  bool known = false;
  for (auto& [other, place] : written)
    if (PyUnicode_Compare(other, name) == 0) {
      place = value;
      known = true;
    }
  if (!known) {
    in.lifetimes.drop_item(target->source, name);
    written.emplace_back(key->object.get(), value);
  }
  in.effects.add({value ? EffectKind::SetGlobal : EffectKind::DelGlobal, target, key, value});
}

Value* Interpreter::load_global(Frame& f, PyObject* name) {
  auto written = written_global(*this, f.globals, name);
  if (written && *written) return *written;
  PyObject* found = written ? nullptr : plain_item(f.globals, name);
  if (found) return wrap(found, guards.sources().child(f.globals_source, SourceKind::DictItem, 0, name, found));
  if (!written) guards.add(f.globals_source, FactKind::Absent, name);
  found = plain_item(f.builtins, name);
  if (!found) {
    guards.add(guards.sources().pinned(f.builtins, "builtins"), FactKind::Absent, name);
    raise(PyExc_NameError, "name '" + exact_text_of(name) + "' is not defined");
  }
  Source* builtins = guards.sources().pinned(f.builtins, "builtins");
  return wrap(found, guards.sources().child(builtins, SourceKind::DictItem, 0, name, found));
}

Value* load_cell(Interpreter& in, CellValue* cell) {
  if (!cell->loaded) {
    PyObject* contents = PyCell_GET(cell->external.get());
    if (contents) {
      cell->contents =
          in.wrap(contents, in.guards.sources().child(cell->source, SourceKind::CellContents, 0, nullptr, contents));
    } else {
      in.guards.add(cell->source, FactKind::CellEmpty);
    }
    cell->loaded = true;
  }
  return cell->contents;
}

void store_cell(Interpreter& in, CellValue* cell, Value* value) {
  in.effects.refuse_frozen(cell);
  if (cell->external && !cell->stored) in.lifetimes.drop_contents(cell);
  cell->contents = value;
  cell->loaded = true;
  cell->stored = true;
  if (cell->external) in.effects.add({EffectKind::SetCell, cell, nullptr, value});
}

/// Whether torch imports a module of its own, which changes nothing that a program sees.
static bool is_own_import(const Frame& frame, PyObject* module) {
  PyObject* importer = PyDict_GetItemString(frame.globals, "__name__");
  if (!importer || !PyUnicode_Check(importer)) return false;
  return name_text(importer).starts_with("torch.") && name_text(module).starts_with("torch.");
}

/// Raises if no finder knows a module of this name, which is not in a package. A guard asks them again in each call.
static void raise_if_absent(Interpreter& in, PyObject* name) {
  static PyObject* const is_absent = known_object("stator.functions.is_absent_module");
  if (PyUnicode_FindChar(name, '.', 0, PyUnicode_GET_LENGTH(name), 1) >= 0) return;
  Ref answer = Ref::steal(PyObject_CallOneArg(is_absent, name)), given = Ref::steal(PyTuple_Pack(1, name));
  PyErr_Clear();
  if (!answer) return;
  in.guards.sources().add_fact(in.guards.sources().pinned(is_absent, "the finders of modules"),
                               Fact{FactKind::Returns, answer, given, 0, in.frames.user_line()});
  if (answer.get() != Py_True) return;
  Value* message = in.constant(Ref::steal(PyUnicode_FromFormat("No module named %R", name)));
  ObjectValue* error = make_exception(in, reinterpret_cast<PyTypeObject*>(PyExc_ModuleNotFoundError), {message});
  const std::pair<const char*, Value*> fields[] = {{"msg", message}, {"name", in.constant(name)}, {"path", in.none()}};
  for (auto& [field, value] : fields)
    error->attributes.push_back({Ref::steal(PyUnicode_InternFromString(field)), value});
  raise_exception(in, error, nullptr);
}

Value* import_name(Interpreter& in, Frame& f, PyObject* name, Value* from_list, Value* level) {
  // Any other module must have been imported before: a first import would run its code.
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
  if (!module && is_own_import(f, full.get())) module = Ref::steal(PyImport_Import(full.get()));
  PyErr_Clear();
  if (!module && relative && full.get() == name) raise_if_absent(in, name);
  PyObject* modules = PyImport_GetModuleDict();
  Source* table = in.guards.sources().pinned(modules, "sys.modules");
  if (!module) {
    in.guards.add(table, FactKind::Absent, full.get());  // once it is imported, a call need not break here
    throw Break{BreakId::unknown_call, "import of " + text_of(full.get())};
  }
  bool is_plain_import = in.is_same(from_list, in.none());
  Py_ssize_t dot = PyUnicode_FindChar(full.get(), '.', 0, PyUnicode_GET_LENGTH(full.get()), 1);
  if (is_plain_import && dot > 0) {
    Ref head = Ref::steal(PyUnicode_Substring(full.get(), 0, dot));
    module = Ref::steal(PyImport_GetModule(head.get()));
    PyErr_Clear();
    if (!module) throw Break{BreakId::unknown_call, "import of a package that is not there"};
  }
  Ref key = Ref::steal(PyObject_GetAttrString(module.get(), "__name__"));
  if (!key || PyDict_GetItemWithError(modules, key.get()) != module.get()) throw Break{BreakId::unknown_call, "import"};
  Value* found =
      in.wrap(module.get(), in.guards.sources().child(table, SourceKind::DictItem, 0, key.get(), module.get()));
  // `from package import name` imports the submodule of that name if the package has no such attribute.
  if (!is_plain_import && PyDict_GetItemString(PyModule_GetDict(module.get()), "__path__"))
    for (Value* part : in.unpack(from_list)) {
      PyObject* text = in.constant_of(part);
      if (!text || !attribute_or_null(in, found, text)) throw Break{BreakId::unknown_call, "import of a submodule"};
    }
  return found;
}

}  // namespace stator::capture
