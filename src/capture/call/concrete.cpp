#include "capture/call/concrete.h"

#include <vector>

#include "capture/pycompat/ref.h"

namespace stator::capture {
using pycompat::Instr;
using pycompat::Op;

namespace {

struct At {
  StatorFrame* frame;
  const pycompat::Code& code;
  const Instr& instr;

  Ref pop() { return Ref::steal(stator_frame_pop(frame)); }
  void push(Ref value) { stator_frame_push(frame, value.release()); }
  /// Borrowed; 1 is the top.
  PyObject* top(int depth = 1) const { return stator_frame_stack(frame, stator_frame_stack_depth(frame) - depth); }
  PyObject* name() const { return PyTuple_GET_ITEM(code.names, instr.arg); }
  Done push_or_raise(PyObject* result) {
    if (!result) return Done::Raised;
    stator_frame_push(frame, result);
    return Done::Next;
  }
};
using Execute = Done (*)(At&);

Done status(int failed) { return failed < 0 ? Done::Raised : Done::Next; }

// ---- calls

Done call(At& at) {
  PyObject* names = at.instr.arg2 >= 0 ? PyTuple_GET_ITEM(at.code.consts, at.instr.arg2) : nullptr;
  size_t keywords = names ? PyTuple_GET_SIZE(names) : 0, count = static_cast<size_t>(at.instr.arg);
  std::vector<Ref> held(count + 2);
  for (size_t i = held.size(); i-- > 0;) held[i] = at.pop();
  if (pycompat::kCallableBeforeNull) std::swap(held[0], held[1]);
  // NULL and the callable, or a method and its self: either way the arguments follow.
  std::vector<PyObject*> row;
  for (Ref& value : held) row.push_back(value.get());
  bool has_self = row[0] != nullptr;
  PyObject* callee = has_self ? row[0] : row[1];
  PyObject** arguments = row.data() + (has_self ? 1 : 2);
  size_t positional = count - keywords + has_self;
  return at.push_or_raise(
      PyObject_Vectorcall(callee, arguments, positional | (has_self ? 0 : PY_VECTORCALL_ARGUMENTS_OFFSET), names));
}

Done call_function_ex(At& at) {
  bool with_keywords = at.instr.arg & 1;
  // What CPython says about other kinds of arguments is its own.
  if (!PyTuple_CheckExact(at.top(with_keywords ? 2 : 1))) return Done::Cannot;
  if (with_keywords && !PyDict_CheckExact(at.top())) return Done::Cannot;
  Ref keywords = with_keywords ? at.pop() : Ref();
  Ref arguments = at.pop();
  Ref callee = at.pop();
  at.pop();
  return at.push_or_raise(PyObject_Call(callee.get(), arguments.get(), keywords.get()));
}

// ---- control flow

Done jump_if(At& at, bool wanted) {
  Ref value = at.pop();
  int truth = PyObject_IsTrue(value.get());
  if (truth < 0) return Done::Raised;
  return (truth != 0) == wanted ? Done::Jump : Done::Next;
}
Done pop_jump_if_true(At& at) { return jump_if(at, true); }
Done pop_jump_if_false(At& at) { return jump_if(at, false); }

Done jump_or_pop(At& at, bool wanted) {
  int truth = PyObject_IsTrue(at.top());
  if (truth < 0) return Done::Raised;
  if ((truth != 0) == wanted) return Done::Jump;
  at.pop();
  return Done::Next;
}
Done jump_if_true_or_pop(At& at) { return jump_or_pop(at, true); }
Done jump_if_false_or_pop(At& at) { return jump_or_pop(at, false); }

Done pop_jump_if_none(At& at) { return at.pop().get() == Py_None ? Done::Jump : Done::Next; }
Done pop_jump_if_not_none(At& at) { return at.pop().get() == Py_None ? Done::Next : Done::Jump; }

Done get_iter(At& at) {
  Ref iterable = at.pop();
  return at.push_or_raise(PyObject_GetIter(iterable.get()));
}

Done for_iter(At& at) {
  PyObject* iterator = at.top();
  PyObject* item = Py_TYPE(iterator)->tp_iternext(iterator);
  if (item) return at.push_or_raise(item);
  if (PyErr_Occurred()) {
    if (!PyErr_ExceptionMatches(PyExc_StopIteration)) return Done::Raised;
    PyErr_Clear();
  }
  at.pop();
  return Done::Jump;
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
  PyObject* import = PyDict_GetItemString(builtins, "__import__");
  if (!import) return Done::Cannot;
  Ref from_list = at.pop(), level = at.pop();
  PyObject* arguments[] = {at.name(), stator_frame_globals(at.frame), Py_None, from_list.get(), level.get()};
  return at.push_or_raise(PyObject_Vectorcall(import, arguments, 5, nullptr));
}

// ---- operators

using Binary = PyObject* (*)(PyObject*, PyObject*);
PyObject* power(PyObject* a, PyObject* b) { return PyNumber_Power(a, b, Py_None); }
PyObject* power_in_place(PyObject* a, PyObject* b) { return PyNumber_InPlacePower(a, b, Py_None); }
// By NB_* number.
constexpr Binary kBinary[] = {
    PyNumber_Add,
    PyNumber_And,
    PyNumber_FloorDivide,
    PyNumber_Lshift,
    PyNumber_MatrixMultiply,
    PyNumber_Multiply,
    PyNumber_Remainder,
    PyNumber_Or,
    power,
    PyNumber_Rshift,
    PyNumber_Subtract,
    PyNumber_TrueDivide,
    PyNumber_Xor,
    PyNumber_InPlaceAdd,
    PyNumber_InPlaceAnd,
    PyNumber_InPlaceFloorDivide,
    PyNumber_InPlaceLshift,
    PyNumber_InPlaceMatrixMultiply,
    PyNumber_InPlaceMultiply,
    PyNumber_InPlaceRemainder,
    PyNumber_InPlaceOr,
    power_in_place,
    PyNumber_InPlaceRshift,
    PyNumber_InPlaceSubtract,
    PyNumber_InPlaceTrueDivide,
    PyNumber_InPlaceXor,
};

Done binary_op(At& at) {
  if (static_cast<size_t>(at.instr.arg) >= std::size(kBinary)) return Done::Cannot;
  Ref b = at.pop(), a = at.pop();
  return at.push_or_raise(kBinary[at.instr.arg](a.get(), b.get()));
}
Done binary_subscr(At& at) {
  Ref key = at.pop(), owner = at.pop();
  return at.push_or_raise(PyObject_GetItem(owner.get(), key.get()));
}
Done binary_slice(At& at) {
  Ref stop = at.pop(), start = at.pop(), owner = at.pop();
  Ref slice = Ref::steal(PySlice_New(start.get(), stop.get(), nullptr));
  return slice ? at.push_or_raise(PyObject_GetItem(owner.get(), slice.get())) : Done::Raised;
}
Done store_subscr(At& at) {
  Ref key = at.pop(), owner = at.pop(), value = at.pop();
  return status(PyObject_SetItem(owner.get(), key.get(), value.get()));
}
Done store_slice(At& at) {
  Ref stop = at.pop(), start = at.pop(), owner = at.pop(), value = at.pop();
  Ref slice = Ref::steal(PySlice_New(start.get(), stop.get(), nullptr));
  return slice ? status(PyObject_SetItem(owner.get(), slice.get(), value.get())) : Done::Raised;
}
Done delete_subscr(At& at) {
  Ref key = at.pop(), owner = at.pop();
  return status(PyObject_DelItem(owner.get(), key.get()));
}
Done compare_op(At& at) {
  Ref b = at.pop(), a = at.pop();
  Ref result = Ref::steal(PyObject_RichCompare(a.get(), b.get(), at.instr.arg));
  if (!result || !at.instr.arg2) return at.push_or_raise(result.release());
  int truth = PyObject_IsTrue(result.get());
  return truth < 0 ? Done::Raised : at.push_or_raise(PyBool_FromLong(truth));
}
Done is_op(At& at) {
  Ref b = at.pop(), a = at.pop();
  return at.push_or_raise(PyBool_FromLong((a.get() == b.get()) != (at.instr.arg == 1)));
}
Done contains_op(At& at) {
  Ref container = at.pop(), item = at.pop();
  int found = PySequence_Contains(container.get(), item.get());
  return found < 0 ? Done::Raised : at.push_or_raise(PyBool_FromLong((found != 0) != (at.instr.arg == 1)));
}
template <PyObject* (*kOperation)(PyObject*)>
Done unary(At& at) {
  Ref value = at.pop();
  return at.push_or_raise(kOperation(value.get()));
}
PyObject* invert_truth(PyObject* value) {
  int truth = PyObject_IsTrue(value);
  return truth < 0 ? nullptr : PyBool_FromLong(!truth);
}
PyObject* as_bool(PyObject* value) {
  int truth = PyObject_IsTrue(value);
  return truth < 0 ? nullptr : PyBool_FromLong(truth);
}

// ---- values on the stack

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
Done load_fast(At& at) {
  PyObject* value = stator_frame_slot(at.frame, at.instr.arg);
  if (!value) return Done::Cannot;
  at.push(Ref::borrow(value));
  return Done::Next;
}

// ---- containers and strings

Done unpack_sequence(At& at) {
  PyObject* sequence = at.top();
  bool is_tuple = PyTuple_CheckExact(sequence), is_list = PyList_CheckExact(sequence);
  if ((!is_tuple && !is_list) || PySequence_Fast_GET_SIZE(sequence) != at.instr.arg) return Done::Cannot;
  Ref held = at.pop();
  for (int i = at.instr.arg; i-- > 0;) at.push(Ref::borrow(PySequence_Fast_GET_ITEM(held.get(), i)));
  return Done::Next;
}
Done list_extend(At& at) {
  PyObject* more = at.top();
  // A message about what cannot be iterated is CPython's own.
  if (!Py_TYPE(more)->tp_iter && !PySequence_Check(more)) return Done::Cannot;
  Ref held = at.pop();
  PyObject* list = at.top(at.instr.arg);
  return status(PyList_SetSlice(list, PyList_GET_SIZE(list), PyList_GET_SIZE(list), held.get()));
}
Done list_append(At& at) {
  Ref item = at.pop();
  return status(PyList_Append(at.top(at.instr.arg), item.get()));
}
Done set_add(At& at) {
  Ref item = at.pop();
  return status(PySet_Add(at.top(at.instr.arg), item.get()));
}
Done map_add(At& at) {
  Ref value = at.pop(), key = at.pop();
  return status(PyDict_SetItem(at.top(at.instr.arg), key.get(), value.get()));
}
Done dict_update(At& at) {
  if (!PyDict_Check(at.top())) return Done::Cannot;
  Ref from = at.pop();
  return status(PyDict_Update(at.top(at.instr.arg), from.get()));
}
Done format_value(At& at) {
  Ref spec = (at.instr.arg & 4) ? at.pop() : Ref();
  Ref value = at.pop();
  switch (at.instr.arg & 3) {
    case 1:
      value = Ref::steal(PyObject_Str(value.get()));
      break;
    case 2:
      value = Ref::steal(PyObject_Repr(value.get()));
      break;
    case 3:
      value = Ref::steal(PyObject_ASCII(value.get()));
      break;
  }
  if (!value) return Done::Raised;
  if (PyUnicode_CheckExact(value.get()) && !spec) {
    at.push(std::move(value));
    return Done::Next;
  }
  return at.push_or_raise(PyObject_Format(value.get(), spec.get()));
}
Done build_string(At& at) {
  std::vector<Ref> held(at.instr.arg);
  for (size_t i = held.size(); i-- > 0;) held[i] = at.pop();
  Ref list = Ref::steal(PyList_New(at.instr.arg)), empty = Ref::steal(PyUnicode_FromString(""));
  if (!list || !empty) return Done::Raised;
  for (size_t i = 0; i < held.size(); ++i) PyList_SET_ITEM(list.get(), i, held[i].release());
  return at.push_or_raise(PyUnicode_Join(empty.get(), list.get()));
}
Done build_tuple(At& at) {
  Ref tuple = Ref::steal(PyTuple_New(at.instr.arg));
  if (!tuple) return Done::Raised;
  for (int i = at.instr.arg; i-- > 0;) PyTuple_SET_ITEM(tuple.get(), i, at.pop().release());
  at.push(std::move(tuple));
  return Done::Next;
}
Done build_list(At& at) {
  Ref list = Ref::steal(PyList_New(at.instr.arg));
  if (!list) return Done::Raised;
  for (int i = at.instr.arg; i-- > 0;) PyList_SET_ITEM(list.get(), i, at.pop().release());
  at.push(std::move(list));
  return Done::Next;
}
Done build_set(At& at) {
  std::vector<Ref> held(at.instr.arg);
  for (size_t i = held.size(); i-- > 0;) held[i] = at.pop();
  Ref set = Ref::steal(PySet_New(nullptr));
  for (size_t i = 0; set && i < held.size(); ++i)
    if (PySet_Add(set.get(), held[i].get()) < 0) return Done::Raised;
  return at.push_or_raise(set.release());
}
Done build_map(At& at) {
  std::vector<Ref> held(2 * at.instr.arg);
  for (size_t i = held.size(); i-- > 0;) held[i] = at.pop();
  Ref dict = Ref::steal(PyDict_New());
  for (size_t i = 0; dict && i + 1 < held.size(); i += 2)
    if (PyDict_SetItem(dict.get(), held[i].get(), held[i + 1].get()) < 0) return Done::Raised;
  return at.push_or_raise(dict.release());
}
Done get_len(At& at) {
  Py_ssize_t length = PyObject_Length(at.top());
  return length < 0 ? Done::Raised : at.push_or_raise(PyLong_FromSsize_t(length));
}

// ---- classes, exceptions and `with`

Done load_build_class(At& at) {
  PyObject* builtins = stator_frame_builtins(at.frame);
  PyObject* build = PyDict_CheckExact(builtins) ? PyDict_GetItemString(builtins, "__build_class__") : nullptr;
  if (!build) return Done::Cannot;
  at.push(Ref::borrow(build));
  return Done::Next;
}

Ref special(PyObject* self, PyObject* name) {
  PyObject* found = _PyType_Lookup(Py_TYPE(self), name);
  if (!found) return {};
  descrgetfunc get = Py_TYPE(found)->tp_descr_get;
  return get ? Ref::steal(get(found, self, reinterpret_cast<PyObject*>(Py_TYPE(self)))) : Ref::borrow(found);
}
Done before_with(At& at) {
  static PyObject* const enter_name = PyUnicode_InternFromString("__enter__");
  static PyObject* const exit_name = PyUnicode_InternFromString("__exit__");
  PyObject* manager = at.top();
  if (!_PyType_Lookup(Py_TYPE(manager), enter_name) || !_PyType_Lookup(Py_TYPE(manager), exit_name))
    return Done::Cannot;
  Ref held = at.pop();
  Ref enter = special(held.get(), enter_name);
  Ref exit = enter ? special(held.get(), exit_name) : Ref();
  if (!exit) return Done::Raised;
  at.push(std::move(exit));
  held = Ref();
  return at.push_or_raise(PyObject_CallNoArgs(enter.get()));
}
Done with_except_start(At& at) {
  PyObject* exception = at.top();
  Ref trace = Ref::steal(PyException_GetTraceback(exception));
  PyObject* arguments[] = {nullptr, reinterpret_cast<PyObject*>(Py_TYPE(exception)), exception,
                           trace ? trace.get() : Py_None};
  return at.push_or_raise(PyObject_Vectorcall(at.top(4), arguments + 1, 3 | PY_VECTORCALL_ARGUMENTS_OFFSET, nullptr));
}
Done push_exc_info(At& at) {
  Ref exception = at.pop();
  Ref before = Ref::steal(PyErr_GetHandledException());
  at.push(before ? std::move(before) : Ref::borrow(Py_None));
  PyErr_SetHandledException(exception.get());
  at.push(std::move(exception));
  return Done::Next;
}
Done pop_except(At& at) {
  Ref before = at.pop();
  PyErr_SetHandledException(before.get() == Py_None ? nullptr : before.get());
  return Done::Next;
}
bool are_exception_classes(PyObject* classes) {
  if (!PyTuple_Check(classes)) return PyExceptionClass_Check(classes);
  for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(classes); ++i)
    if (!PyExceptionClass_Check(PyTuple_GET_ITEM(classes, i))) return false;
  return true;
}
Done check_exc_match(At& at) {
  if (!are_exception_classes(at.top())) return Done::Cannot;
  Ref classes = at.pop();
  return at.push_or_raise(PyBool_FromLong(PyErr_GivenExceptionMatches(at.top(), classes.get())));
}

/// An instance for `raise X` or `from X`: X itself, or what calling the class gives. Null with the error set.
Ref exception_instance(Ref given, const char* otherwise) {
  if (PyExceptionInstance_Check(given.get())) return given;
  if (!PyExceptionClass_Check(given.get())) {
    PyErr_SetString(PyExc_TypeError, otherwise);
    return {};
  }
  Ref made = Ref::steal(PyObject_CallNoArgs(given.get()));
  if (made && !PyExceptionInstance_Check(made.get())) {
    PyErr_Format(PyExc_TypeError, "calling %R should have returned an instance of BaseException, not %R", given.get(),
                 Py_TYPE(made.get()));
    return {};
  }
  return made;
}
Done raise_varargs(At& at) {
  if (at.instr.arg == 0) return Done::Cannot;
  Ref cause = at.instr.arg == 2 ? at.pop() : Ref();
  Ref exception = exception_instance(at.pop(), "exceptions must derive from BaseException");
  if (!exception) return Done::Raised;
  if (cause) {
    if (cause.get() == Py_None)
      cause = Ref();
    else if (cause = exception_instance(std::move(cause), "exception causes must derive from BaseException"); !cause)
      return Done::Raised;
    PyException_SetCause(exception.get(), cause.release());
  }
  PyErr_SetObject(reinterpret_cast<PyObject*>(Py_TYPE(exception.get())), exception.get());
  return Done::Raised;
}

struct Row {
  Op op;
  Execute execute;
};
constexpr Row kRows[] = {
    {Op::POP_TOP, pop_top},
    {Op::COPY, copy},
    {Op::LOAD_FAST, load_fast},
    {Op::STORE_FAST, store_fast},
    {Op::LOAD_ATTR, load_attr},
    {Op::LOAD_METHOD, load_method},
    {Op::STORE_ATTR, store_attr},
    {Op::DELETE_ATTR, delete_attr},
    {Op::STORE_GLOBAL, store_global},
    {Op::IMPORT_NAME, import_name},
    {Op::BINARY_OP, binary_op},
    {Op::BINARY_SUBSCR, binary_subscr},
    {Op::BINARY_SLICE, binary_slice},
    {Op::STORE_SUBSCR, store_subscr},
    {Op::STORE_SLICE, store_slice},
    {Op::DELETE_SUBSCR, delete_subscr},
    {Op::UNARY_POSITIVE, unary<PyNumber_Positive>},
    {Op::UNARY_NEGATIVE, unary<PyNumber_Negative>},
    {Op::UNARY_NOT, unary<invert_truth>},
    {Op::UNARY_INVERT, unary<PyNumber_Invert>},
    {Op::TO_BOOL, unary<as_bool>},
    {Op::COMPARE_OP, compare_op},
    {Op::IS_OP, is_op},
    {Op::CONTAINS_OP, contains_op},
    {Op::BUILD_TUPLE, build_tuple},
    {Op::BUILD_LIST, build_list},
    {Op::BUILD_SET, build_set},
    {Op::BUILD_MAP, build_map},
    {Op::BUILD_STRING, build_string},
    {Op::LIST_APPEND, list_append},
    {Op::LIST_EXTEND, list_extend},
    {Op::SET_ADD, set_add},
    {Op::MAP_ADD, map_add},
    {Op::DICT_UPDATE, dict_update},
    {Op::UNPACK_SEQUENCE, unpack_sequence},
    {Op::FORMAT_VALUE, format_value},
    {Op::GET_LEN, get_len},
    {Op::CALL, call},
    {Op::CALL_FUNCTION_EX, call_function_ex},
    {Op::LOAD_BUILD_CLASS, load_build_class},
    {Op::POP_JUMP_IF_TRUE, pop_jump_if_true},
    {Op::POP_JUMP_IF_FALSE, pop_jump_if_false},
    {Op::POP_JUMP_IF_NONE, pop_jump_if_none},
    {Op::POP_JUMP_IF_NOT_NONE, pop_jump_if_not_none},
    {Op::JUMP_IF_TRUE_OR_POP, jump_if_true_or_pop},
    {Op::JUMP_IF_FALSE_OR_POP, jump_if_false_or_pop},
    {Op::GET_ITER, get_iter},
    {Op::FOR_ITER, for_iter},
    {Op::BEFORE_WITH, before_with},
    {Op::WITH_EXCEPT_START, with_except_start},
    {Op::PUSH_EXC_INFO, push_exc_info},
    {Op::POP_EXCEPT, pop_except},
    {Op::CHECK_EXC_MATCH, check_exc_match},
    {Op::RAISE_VARARGS, raise_varargs},
};

struct Table {
  Execute by_op[static_cast<size_t>(Op::kCount)] = {};
  constexpr Table() {
    for (const Row& row : kRows) by_op[static_cast<size_t>(row.op)] = row.execute;
  }
};
constexpr Table kTable;

}  // namespace

Done execute(PyThreadState* tstate, StatorFrame* frame, const pycompat::Code& code, const Instr& instr) {
  Execute found = kTable.by_op[static_cast<size_t>(instr.op)];
  if (!found) return Done::Cannot;
  pycompat::LinkedFrame linked(tstate, frame, instr.unit);
  At at{frame, code, instr};
  return found(at);
}

}  // namespace stator::capture
