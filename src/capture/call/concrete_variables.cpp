// Concrete execution of instructions for the stack, variables, attributes and imports.
#include "capture/call/concrete_at.h"

namespace stator::capture {
namespace {

using pycompat::Op;

// ---- the stack

Done pop_top(At& at) {
  at.pop();
  return Done::Next;
}
Done copy(At& at) {
  at.push(Ref::borrow(at.top(at.instr.arg)));
  return Done::Next;
}
Done store_fast(At& at) {
  stator_frame_set_slot(at.frame, at.instr.arg, stator_frame_pop(at.frame));
  return Done::Next;
}
Done swap(At& at) {
  std::vector<Ref> held = at.pop_all(at.instr.arg);
  std::swap(held.front(), held.back());
  for (Ref& value : held) at.push(std::move(value));
  return Done::Next;
}
Done push_null(At& at) {
  at.push(Ref());
  return Done::Next;
}
Done load_const(At& at) {
  at.push(Ref::borrow(PyTuple_GET_ITEM(at.code.consts, at.instr.arg)));
  return Done::Next;
}

// ---- locals and cells

Done raise_unbound(At& at) {
  PyObject* name = PyTuple_GET_ITEM(at.code.localsplus_names, at.instr.arg);
  if (!(at.code.slot_kinds[at.instr.arg] & pycompat::kSlotFree)) {
    PyErr_Format(PyExc_UnboundLocalError, "cannot access local variable '%U' where it is not associated with a value",
                 name);
    return Done::Raised;
  }
  return Done::Cannot;
}
Done make_cell(At& at) {
  Ref cell = Ref::steal(PyCell_New(stator_frame_slot(at.frame, at.instr.arg)));
  if (!cell) return Done::Raised;
  stator_frame_set_slot(at.frame, at.instr.arg, cell.release());
  return Done::Next;
}
Done copy_free_vars(At& at) {
  PyObject* closure = PyFunction_GET_CLOSURE(stator_frame_function(at.frame));
  int first = at.code.nlocalsplus - at.instr.arg;
  for (int i = 0; i < at.instr.arg; ++i)
    stator_frame_set_slot(at.frame, first + i, Py_NewRef(PyTuple_GET_ITEM(closure, i)));
  return Done::Next;
}
Done load_fast(At& at) {
  PyObject* value = stator_frame_slot(at.frame, at.instr.arg);
  if (!value) return raise_unbound(at);
  at.push(Ref::borrow(value));
  return Done::Next;
}
Done load_fast_and_clear(At& at) {
  at.push(Ref::borrow(stator_frame_slot(at.frame, at.instr.arg)));
  stator_frame_set_slot(at.frame, at.instr.arg, nullptr);
  return Done::Next;
}
Done delete_fast(At& at) {
  if (!stator_frame_slot(at.frame, at.instr.arg)) return raise_unbound(at);
  stator_frame_set_slot(at.frame, at.instr.arg, nullptr);
  return Done::Next;
}
/// The cell in the instruction's slot; null if it was not created yet.
PyObject* cell_of(At& at) {
  PyObject* cell = stator_frame_slot(at.frame, at.instr.arg);
  return cell && PyCell_Check(cell) ? cell : nullptr;
}
Done load_closure(At& at) {
  PyObject* cell = cell_of(at);
  if (!cell) return Done::Cannot;
  at.push(Ref::borrow(cell));
  return Done::Next;
}
Done load_deref(At& at) {
  PyObject* cell = cell_of(at);
  if (!cell) return Done::Cannot;
  Ref value = Ref::steal(PyCell_Get(cell));
  if (!value) return raise_unbound(at);
  at.push(std::move(value));
  return Done::Next;
}
Done store_deref(At& at) {
  PyObject* cell = cell_of(at);
  if (!cell) return Done::Cannot;
  Ref value = at.pop();
  return status(PyCell_Set(cell, value.get()));
}
Done delete_deref(At& at) {
  PyObject* cell = cell_of(at);
  if (!cell) return Done::Cannot;
  if (!PyCell_GET(cell)) return raise_unbound(at);
  return status(PyCell_Set(cell, nullptr));
}

// ---- names and attributes

Done load_attr(At& at) {
  Ref owner = at.pop();
  return at.push_or_raise(PyObject_GetAttr(owner.get(), at.name()));
}
Done load_method(At& at) {
  Ref owner = at.pop();
  Ref found = Ref::steal(PyObject_GetAttr(owner.get(), at.name()));
  if (!found) return Done::Raised;
  if (!pycompat::kCallableBeforeNull) at.push(Ref());
  at.push(std::move(found));
  if (pycompat::kCallableBeforeNull) at.push(Ref());
  return Done::Next;
}
Done store_attr(At& at) {
  Ref owner = at.pop(), value = at.pop();
  return status(PyObject_SetAttr(owner.get(), at.name(), value.get()));
}
Done delete_attr(At& at) {
  Ref owner = at.pop();
  return status(PyObject_SetAttr(owner.get(), at.name(), nullptr));
}
Done store_global(At& at) {
  Ref value = at.pop();
  return status(PyDict_SetItem(stator_frame_globals(at.frame), at.name(), value.get()));
}
Done import_name(At& at) {
  PyObject* builtins = stator_frame_builtins(at.frame);
  if (!PyDict_CheckExact(builtins)) return Done::Cannot;
  Ref import = Ref::borrow(PyDict_GetItemString(builtins, "__import__"));
  if (!import) return Done::Cannot;
  Ref from_list = at.pop(), level = at.pop();
  PyObject* arguments[] = {at.name(), stator_frame_globals(at.frame), Py_None, from_list.get(), level.get()};
  return at.push_or_raise(PyObject_Vectorcall(import.get(), arguments, 5, nullptr));
}

Done import_from(At& at) {
  PyObject* module = at.top();
  static PyObject* const getattr_name = PyUnicode_InternFromString("__getattr__");
  // If the name is not found, CPython runs the instruction again. So the lookup here must not call a module's
  // __getattr__: it would be called twice.
  bool plain = PyModule_CheckExact(module) && !PyDict_GetItemWithError(PyModule_GetDict(module), getattr_name);
  if (!plain) return Done::Cannot;
  Ref found = Ref::steal(PyObject_GetAttr(module, at.name()));
  if (found) {
    at.push(std::move(found));
    return Done::Next;
  }
  PyErr_Clear();
  return Done::Cannot;
}
Done delete_global(At& at) {
  PyObject* globals = stator_frame_globals(at.frame);
  if (!PyDict_GetItemWithError(globals, at.name())) return PyErr_Occurred() ? Done::Raised : Done::Cannot;
  return status(PyDict_DelItem(globals, at.name()));
}
Done load_global(At& at) {
  PyObject* const places[] = {stator_frame_globals(at.frame), stator_frame_builtins(at.frame)};
  for (PyObject* place : places) {
    if (!PyDict_CheckExact(place)) return Done::Cannot;
    PyObject* found = PyDict_GetItemWithError(place, at.name());
    if (PyErr_Occurred()) return Done::Raised;
    if (!found) continue;
    Ref held = Ref::borrow(found);
    if (at.instr.arg2 && !pycompat::kCallableBeforeNull) at.push(Ref());
    at.push(std::move(held));
    if (at.instr.arg2 && pycompat::kCallableBeforeNull) at.push(Ref());
    return Done::Next;
  }
  return Done::Cannot;
}
Done load_super_attr(At& at) {
  if (at.top(3) != reinterpret_cast<PyObject*>(&PySuper_Type)) return Done::Cannot;
  Ref self = at.pop(), start = at.pop(), type = at.pop();
  PyObject* arguments[] = {start.get(), self.get()};
  Ref super = Ref::steal(PyObject_Vectorcall(type.get(), arguments, 2, nullptr));
  Ref found = super ? Ref::steal(PyObject_GetAttr(super.get(), at.name())) : Ref();
  if (!found) return Done::Raised;
  bool method = at.instr.arg2 & 1;
  if (method && !pycompat::kCallableBeforeNull) at.push(Ref());
  at.push(std::move(found));
  if (method && pycompat::kCallableBeforeNull) at.push(Ref());
  return Done::Next;
}

constexpr ConcreteRow kRows[] = {
    {Op::POP_TOP, pop_top},
    {Op::PUSH_NULL, push_null},
    {Op::COPY, copy},
    {Op::SWAP, swap},
    {Op::LOAD_CONST, load_const},
    {Op::LOAD_FAST, load_fast},
    {Op::LOAD_FAST_AND_CLEAR, load_fast_and_clear},
    {Op::STORE_FAST, store_fast},
    {Op::DELETE_FAST, delete_fast},
    {Op::MAKE_CELL, make_cell},
    {Op::COPY_FREE_VARS, copy_free_vars},
    {Op::LOAD_CLOSURE, load_closure},
    {Op::LOAD_DEREF, load_deref},
    {Op::STORE_DEREF, store_deref},
    {Op::DELETE_DEREF, delete_deref},
    {Op::LOAD_GLOBAL, load_global},
    {Op::STORE_GLOBAL, store_global},
    {Op::DELETE_GLOBAL, delete_global},
    {Op::LOAD_ATTR, load_attr},
    {Op::LOAD_METHOD, load_method},
    {Op::LOAD_SUPER_ATTR, load_super_attr},
    {Op::STORE_ATTR, store_attr},
    {Op::DELETE_ATTR, delete_attr},
    {Op::IMPORT_NAME, import_name},
    {Op::IMPORT_FROM, import_from},
};

}  // namespace

std::span<const ConcreteRow> concrete_variable_rows() { return kRows; }

}  // namespace stator::capture
