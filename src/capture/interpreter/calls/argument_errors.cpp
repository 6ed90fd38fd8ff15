#include "capture/interpreter/calls/argument_errors.h"

#include "capture/interpreter/protocol/arguments.h"
#include "capture/interpreter/protocol/exceptions.h"
#include "capture/interpreter/state/known_types.h"
#include "capture/pycompat/keep_first.h"

namespace stator::capture {
namespace {

/// Sample arguments for a call of the same shape: one sample for each argument, without the first `first` positional
/// ones.
LiteralArgs sample_arguments(const CallArgs& args, size_t first, PyObject* sample = Py_None) {
  LiteralArgs made{Ref::steal(PyTuple_New(static_cast<Py_ssize_t>(args.positional.size() - first))), Ref()};
  for (size_t i = first; i < args.positional.size(); ++i)
    PyTuple_SET_ITEM(made.positional.get(), static_cast<Py_ssize_t>(i - first), Ref::borrow(sample).release());
  if (args.keywords.empty()) return made;
  made.keywords = Ref::steal(PyDict_New());
  for (auto& [name, unused] : args.keywords) PyDict_SetItem(made.keywords.get(), name.get(), sample);
  return made;
}

/// An empty container of a built-in class; null for other classes.
Ref empty_container(PyTypeObject* type) {
  PyTypeObject* const known[] = {&PyList_Type, &PyTuple_Type,     &PyDict_Type, &PyODict_Type,
                                 &PySet_Type,  &PyFrozenSet_Type, deque_type(), default_dict_type()};
  if (std::find(std::begin(known), std::end(known), type) == std::end(known)) return {};
  Ref made = Ref::steal(PyObject_CallNoArgs(reinterpret_cast<PyObject*>(type)));
  if (!made) PyErr_Clear();
  return made;
}

}  // namespace

/// Whether it is a function or class of C code whose calls have no effect.
static bool is_harmless(PyObject* callable) {
  static PyObject* const modules[] = {known_object("builtins.len"), known_object("_operator.add"),
                                      known_object("math.sin"), known_object("_functools.reduce")};
  if (PyCFunction_Check(callable)) {
    for (PyObject* known : modules)
      if (PyCFunction_GET_SELF(callable) == PyCFunction_GET_SELF(known)) return true;
    return false;
  }
  return PyType_Check(callable) && Py_TYPE(callable) == &PyType_Type &&
         (reinterpret_cast<PyTypeObject*>(callable)->tp_flags & Py_TPFLAGS_IMMUTABLETYPE);
}

/// The error of a call that does not fit is that of a call with samples, if it is the same for different samples.
static void raise_error_of_samples(Interpreter& in, PyObject* callable, const CallArgs& args) {
  Ref number = Ref::steal(PyLong_FromLong(0));
  std::string first;
  for (PyObject* sample : {Py_None, number.get()}) {
    LiteralArgs given = sample_arguments(args, 0, sample);
    Ref result = Ref::steal(PyObject_Call(callable, given.positional.get(), given.keywords.get()));
    if (result || !PyErr_ExceptionMatches(PyExc_TypeError)) return PyErr_Clear();
    if (sample == Py_None) {
      first = take_error_text();
      continue;
    }
    PyObject *type, *value, *trace;
    PyErr_Fetch(&type, &value, &trace);
    PyErr_NormalizeException(&type, &value, &trace);
    Ref owned_type = Ref::steal(type), owned = Ref::steal(value), owned_trace = Ref::steal(trace);
    PyErr_SetObject(owned_type.get(), owned.get());
    if (take_error_text() != first) return;
    PyErr_SetObject(owned_type.get(), owned.get());
    raise_current(in);
  }
}

void raise_argument_error(Interpreter& in, PyObject* method, const CallArgs& args) {
  bool is_method = Py_TYPE(method) == &PyMethodDescr_Type || Py_TYPE(method) == &PyWrapperDescr_Type;
  if (!is_method && is_harmless(method)) raise_error_of_samples(in, method, args);
  if (!is_method || args.positional.empty()) return;
  PyTypeObject* owner = reinterpret_cast<PyDescrObject*>(method)->d_type;
  Ref self = PyType_IsSubtype(in.type_of(args.positional[0]), owner) ? empty_container(owner) : Ref();
  if (!self) return;
  Ref bound = Ref::steal(Py_TYPE(method)->tp_descr_get(method, self.get(), reinterpret_cast<PyObject*>(owner)));
  LiteralArgs given = sample_arguments(args, 1);
  if (!bound) return PyErr_Clear();
  Ref result = Ref::steal(PyObject_Call(bound.get(), given.positional.get(), given.keywords.get()));
  if (!result && PyErr_ExceptionMatches(PyExc_TypeError)) raise_current(in);
  PyErr_Clear();
}

void raise_unbound(Interpreter& in, const pycompat::Code& code, PyObject* qualified_name, size_t defaults,
                   const std::vector<PyObject*>& keyword_defaults, const CallArgs& args) {
  // A real function with the same parameters and names, and an empty body, makes the message.
  static PyObject* nothing = nullptr;
  keep_first(nothing, [] {
    Ref scope = Ref::steal(PyDict_New());
    return Ref::steal(PyRun_String("(lambda: None).__code__", Py_eval_input, scope.get(), scope.get()));
  });
  const Py_ssize_t total = code.parameter_slots();
  Ref names = Ref::steal(PyTuple_GetSlice(code.localsplus_names, 0, total));
  Ref replace = Ref::steal(PyObject_GetAttrString(nothing, "replace")), none = Ref::steal(PyTuple_New(0));
  const int flags = CO_OPTIMIZED | CO_NEWLOCALS | (code.flags & (CO_VARARGS | CO_VARKEYWORDS));
  Ref shape = Ref::steal(Py_BuildValue("{sisisisnsisOsOsO}", "co_argcount", code.argcount, "co_posonlyargcount",
                                       code.posonlyargcount, "co_kwonlyargcount", code.kwonlyargcount, "co_nlocals",
                                       total, "co_flags", flags, "co_varnames", names.get(), "co_name",
                                       code.code->co_name, "co_qualname", qualified_name));
  Ref scope = Ref::steal(PyDict_New());
  Ref alike = Ref::steal(PyObject_Call(replace.get(), none.get(), shape.get()));
  Ref function = alike ? Ref::steal(PyFunction_New(alike.get(), scope.get())) : Ref();
  if (!function) {
    PyErr_Clear();
    throw Break{BreakId::internal, "a function with the same parameters could not be made"};
  }
  if (defaults) {
    Ref values = Ref::steal(PyTuple_New(static_cast<Py_ssize_t>(defaults)));
    for (size_t i = 0; i < defaults; ++i)
      PyTuple_SET_ITEM(values.get(), static_cast<Py_ssize_t>(i), Ref::borrow(Py_None).release());
    PyFunction_SetDefaults(function.get(), values.get());
  }
  Ref values = Ref::steal(PyDict_New());
  for (PyObject* name : keyword_defaults) PyDict_SetItem(values.get(), name, Py_None);
  PyFunction_SetKwDefaults(function.get(), values.get());
  LiteralArgs given = sample_arguments(args, 0);
  Ref result = Ref::steal(PyObject_Call(function.get(), given.positional.get(), given.keywords.get()));
  if (result) throw Break{BreakId::internal, "a function accepts arguments that could not be bound"};
  raise_current(in);
}

}  // namespace stator::capture
