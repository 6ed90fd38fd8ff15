#include "compile/errors.h"

#include "compile/reports.h"

namespace stator {
using namespace capture;

ErrorTypes& error_types() {
  static auto* types = new ErrorTypes;
  return *types;
}

void raise_unsupported(const BreakReason& reason) {
  Ref record = describe_break(reason);
  Ref error = Ref::steal(PyObject_CallOneArg(error_types().unsupported.get(), record.get()));
  if (error) PyErr_SetObject(error_types().unsupported.get(), error.get());
}

void raise_constraint(const std::string& cause, const std::string& hint, const std::string& where) {
  PyObject* type = error_types().constraint.get();
  const Ref arguments = Ref::steal(Py_BuildValue("(s)", cause.c_str()));
  const Ref options =
      Ref::steal(Py_BuildValue("{s:s,s:z}", "hint", hint.c_str(), "where", where.empty() ? nullptr : where.c_str()));
  const Ref error = arguments && options ? Ref::steal(PyObject_Call(type, arguments.get(), options.get())) : Ref();
  if (error) PyErr_SetObject(type, error.get());
}

bool is_capture_error() {
  const ErrorTypes& types = error_types();
  for (const Ref* type : {&types.unsupported, &types.internal, &types.backend_failed, &types.oracle, &types.constraint})
    if (PyErr_ExceptionMatches(type->get())) return true;
  return false;
}

std::string name_of(PyCodeObject* code) {
  return text_of(code->co_qualname) + " (" + text_of(code->co_filename) + ":" + std::to_string(code->co_firstlineno) +
         ")";
}

}  // namespace stator
