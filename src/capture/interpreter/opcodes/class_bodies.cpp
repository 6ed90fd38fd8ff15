#include "capture/interpreter/opcodes/class_bodies.h"

#include "capture/interpreter/containers/keys.h"
#include "capture/interpreter/protocol/names.h"
#include "capture/pycompat/text.h"

namespace stator::capture {
namespace {

using pycompat::Instr;

PyObject* name_at(const Frame& f, const Instr& i) { return PyTuple_GET_ITEM(f.code->names, i.arg); }

DictValue* names_of(const Frame& f) {
  if (!f.names) throw Break{BreakId::opcode, "names of a frame that is not the body of a class"};
  return f.names;
}

/// Pops the mapping in which the instruction looks names up.
DictValue* popped_names(Frame& f) {
  auto* names = as<DictValue>(f.pop());
  if (!names) throw Break{BreakId::opcode, "names in a mapping of another class"};
  return names;
}

/// A name in code that `eval` runs: looked up in the frame that called it.
Value* around(Interpreter& in, Frame& f, PyObject* name) {
  Frame& outer = *f.caller;
  for (int slot = 0; slot < outer.code->nlocalsplus; ++slot) {
    if (PyUnicode_Compare(PyTuple_GET_ITEM(outer.code->localsplus_names, slot), name) != 0) continue;
    Value* found = in.local(outer, slot);
    if (auto* cell = as<CellValue>(found)) found = load_cell(in, cell);
    if (found) return found;
  }
  return outer.names ? in.dict_get(outer.names, in.constant(name)) : nullptr;
}

}  // namespace

void on_load_build_class(Interpreter& in, Frame& f, const Instr&) {
  static PyObject* const name = PyUnicode_InternFromString("__build_class__");
  PyObject* found = plain_item(f.builtins, name);
  if (!found) throw Break{BreakId::raises, "there is no __build_class__"};
  Source* builtins = in.guards.sources().pinned(f.builtins, "builtins");
  f.push(in.wrap(found, in.guards.sources().child(builtins, SourceKind::DictItem, 0, name, found)));
}

void on_load_name(Interpreter& in, Frame& f, const Instr& i) {
  PyObject* name = name_at(f, i);
  Value* found = f.names ? in.dict_get(f.names, in.constant(name)) : around(in, f, name);
  f.push(found ? found : in.load_global(f, name));
}

void on_store_name(Interpreter& in, Frame& f, const Instr& i) {
  DictValue* names = names_of(f);
  in.dict_set(names, in.constant(name_at(f, i)), f.pop());
}

void on_delete_name(Interpreter& in, Frame& f, const Instr& i) {
  PyObject* name = name_at(f, i);
  if (in.dict_delete(names_of(f), in.constant(name))) return;
  in.raise(PyExc_NameError, "name '" + exact_text_of(name) + "' is not defined");
}

void on_load_locals(Interpreter&, Frame& f, const Instr&) { f.push(names_of(f)); }

void on_load_class_deref(Interpreter& in, Frame& f, const Instr& i) {
  DictValue* names = i.arg2 == 1 ? popped_names(f) : names_of(f);
  PyObject* name = PyTuple_GET_ITEM(f.code->localsplus_names, i.arg);
  Value* found = in.dict_get(names, in.constant(name));
  auto* cell = as<CellValue>(f.locals[i.arg]);
  if (!found && cell) found = load_cell(in, cell);
  if (!found) throw Break{BreakId::raises, "a free variable is unbound"};
  f.push(found);
}

void on_load_from_dict_or_globals(Interpreter& in, Frame& f, const Instr& i) {
  PyObject* name = name_at(f, i);
  Value* found = in.dict_get(popped_names(f), in.constant(name));
  f.push(found ? found : in.load_global(f, name));
}

void on_setup_annotations(Interpreter& in, Frame& f, const Instr&) {
  static PyObject* const name = PyUnicode_InternFromString("__annotations__");
  DictValue* names = names_of(f);
  if (!in.dict_get(names, in.constant(name))) in.dict_set(names, in.constant(name), in.dict());
}

}  // namespace stator::capture
