// Classes, exceptions and `with`.
#include "capture/call/concrete_at.h"

namespace stator::capture {
using pycompat::Op;

namespace {

Done load_build_class(At& at) {
  PyObject* builtins = stator_frame_builtins(at.frame);
  PyObject* build = PyDict_CheckExact(builtins) ? PyDict_GetItemString(builtins, "__build_class__") : nullptr;
  if (!build) return Done::Cannot;
  at.push(Ref::borrow(build));
  return Done::Next;
}

Done load_assertion_error(At& at) {
  at.push(Ref::borrow(PyExc_AssertionError));
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

/// Sets the exception as the current error, with its own traceback.
void restore(Ref exception) {
  PyObject* trace = PyException_GetTraceback(exception.get());
  PyObject* type = Py_NewRef(reinterpret_cast<PyObject*>(Py_TYPE(exception.get())));
  PyErr_Restore(type, exception.release(), trace);
}
/// The exception of `raise X` or `from X`: X, or the result of calling X if it is a class. Null with an error set.
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
Done raise_again() {
  Ref handled = Ref::steal(PyErr_GetHandledException());
  if (!handled) {
    PyErr_SetString(PyExc_RuntimeError, "No active exception to reraise");
    return Done::Raised;
  }
  restore(std::move(handled));
  return Done::Reraised;
}
Done raise_varargs(At& at) {
  if (at.instr.arg == 0) return raise_again();
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
Done reraise(At& at) {
  restore(at.pop());
  return Done::Reraised;
}

// ---- except*

bool are_star_classes(PyObject* classes) {
  auto is_group = [](PyObject* type) {
    return PyType_IsSubtype(reinterpret_cast<PyTypeObject*>(type),
                            reinterpret_cast<PyTypeObject*>(PyExc_BaseExceptionGroup));
  };
  if (!are_exception_classes(classes)) return false;
  if (!PyTuple_Check(classes)) return !is_group(classes);
  for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(classes); ++i)
    if (is_group(PyTuple_GET_ITEM(classes, i))) return false;
  return true;
}
/// Splits an exception into the part that `except*` handles and the rest; None for an empty part. False: an error is
/// set.
bool split_group(PyObject* exception, PyObject* classes, Ref& match, Ref& rest) {
  bool is_group = PyObject_TypeCheck(exception, reinterpret_cast<PyTypeObject*>(PyExc_BaseExceptionGroup));
  match = rest = Ref::borrow(Py_None);
  if (exception == Py_None) return true;
  if (PyErr_GivenExceptionMatches(exception, classes)) {
    match = is_group ? Ref::borrow(exception)
                     : Ref::steal(PyObject_CallFunction(PyExc_BaseExceptionGroup, "s(O)", "", exception));
    return static_cast<bool>(match);
  }
  if (!is_group) {
    rest = Ref::borrow(exception);
    return true;
  }
  Ref pair = Ref::steal(PyObject_CallMethod(exception, "split", "(O)", classes));
  if (!pair) return false;
  if (!PyTuple_CheckExact(pair.get()) || PyTuple_GET_SIZE(pair.get()) != 2) {
    PyErr_Format(PyExc_TypeError, "%.200s.split must return a 2-tuple", Py_TYPE(exception)->tp_name);
    return false;
  }
  match = Ref::borrow(PyTuple_GET_ITEM(pair.get(), 0));
  rest = Ref::borrow(PyTuple_GET_ITEM(pair.get(), 1));
  return true;
}
Done check_eg_match(At& at) {
  if (!are_star_classes(at.top())) return Done::Cannot;
  Ref classes = at.pop(), match, rest;
  if (!split_group(at.top(), classes.get(), match, rest)) return Done::Raised;
  if (match.get() != Py_None) {
    PyErr_SetHandledException(match.get());
    at.pop();
    at.push(std::move(rest));
  }
  at.push(std::move(match));
  return Done::Next;
}
constexpr ConcreteRow kRows[] = {
    {Op::LOAD_BUILD_CLASS, load_build_class},
    {Op::LOAD_ASSERTION_ERROR, load_assertion_error},
    {Op::BEFORE_WITH, before_with},
    {Op::WITH_EXCEPT_START, with_except_start},
    {Op::PUSH_EXC_INFO, push_exc_info},
    {Op::POP_EXCEPT, pop_except},
    {Op::CHECK_EXC_MATCH, check_exc_match},
    {Op::CHECK_EG_MATCH, check_eg_match},
    {Op::RERAISE, reraise},
    {Op::RAISE_VARARGS, raise_varargs},
};

}  // namespace

std::span<const ConcreteRow> concrete_exception_rows() { return kRows; }

}  // namespace stator::capture
