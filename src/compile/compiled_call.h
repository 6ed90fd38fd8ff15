#pragma once

#include "compile/compiled_function.h"

/// Calls of compiled functions, from the arguments to the result.
namespace stator {

/// Vectorcall of a CompiledFunction.
PyObject* call_compiled(PyObject* object, PyObject* const* args, size_t nargsf, PyObject* names);

/// tp_call of a class whose `__call__` is a compiled function. A hit needs neither a bound method nor a copy of the
/// arguments.
PyObject* call_instance(PyObject* instance, PyObject* args, PyObject* kwargs);

/// `caller(compiled, args, kwargs)` calls a compiled function so that backward passes inside the call are captured,
/// too. Set once at import; used while `config().compiled_autograd` is set, for the outermost call of a thread.
Ref& backward_caller();

}  // namespace stator
