#pragma once

#include "capture/interpreter/interpreter.h"

namespace stator::capture {

/// What an abstract base class says of another class: from its caches, its registry and the hooks of the library. The
/// answer is guarded by the counter of registrations; that of `cls` is for the caller to guard. Breaks where code of
/// the program would be asked, which is to run when the program does.
bool is_abstract_subclass(Interpreter& in, PyTypeObject* cls, PyTypeObject* abstract);

}  // namespace stator::capture
