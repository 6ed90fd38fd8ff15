#pragma once

#include "capture/pycompat/ref.h"
#include "compile/pipeline.h"

namespace stator {

/// The Python types of Stator's errors; set once at import.
struct ErrorTypes {
  Ref unsupported, internal, recompile_limit, backend_failed, skip_frame, recompile_forbidden;
};
ErrorTypes& error_types();

/// The Python type `CompiledFunction`; null with an error set if it could not be made.
PyTypeObject* compiled_function_type();

/// `caller(compiled, args, kwargs)` calls a compiled function so that backward passes inside of the call are captured,
/// too. Set once at import; asked while `config().compiled_autograd` is set, for the outermost call of a thread.
Ref& backward_caller();

/// Makes calls of the instances of a class whose own `__call__` is a compiled function reach that at once. False if the
/// class is none.
bool answer_calls(PyTypeObject* cls);

/// From here to `leave_block` the frames that this thread starts are captured with the settings of a compiled function.
/// False with a Python error set if they cannot be.
bool enter_block(PyObject* compiled);
/// Ends the innermost one. False with a Python error set if the thread is in none.
bool leave_block();

}  // namespace stator
