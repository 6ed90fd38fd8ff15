#pragma once

#include <memory>

#include "capture/cache/code_cache.h"
#include "compile/pipeline.h"

namespace stator {

/// The Python object that `stator.compile` returns for a function: a callable with the settings it was compiled with.
struct CompiledFunction {
  PyObject_HEAD vectorcallfunc vectorcall;
  PyObject* fn;
  PyObject* dict;
  PyObject* weakrefs;
  CompileRequest* request;
  std::shared_ptr<capture::CodeCache>* cache;  // that of the function's current code; may be null or out of date
  PyObject* name;                              // the backend's
};

/// The Python type `CompiledFunction`; null with an error set if it could not be made.
PyTypeObject* compiled_function_type();

/// Makes calls of a class's instances go straight to the class's own `__call__`, if that is a compiled function. False
/// if it is not: then nothing is changed.
bool answer_calls(PyTypeObject* cls);

/// From here to `leave_block`, frames that this thread starts are captured with the settings of a compiled function.
/// False with a Python error set if they cannot be.
bool enter_block(PyObject* compiled);
/// Ends the innermost block. False with a Python error set if the thread is in none.
bool leave_block();

}  // namespace stator
