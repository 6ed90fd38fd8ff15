#pragma once

#include "capture/interpreter/protocol/interpreter.h"

namespace stator::capture {

/// issubclass for an abstract base class, from its caches, its registry and hooks of the library. Guards the counter of
/// registrations; the caller guards `cls`. Breaks if the check would call code of the program.
bool is_abstract_subclass(Interpreter& in, PyTypeObject* cls, PyTypeObject* abstract);

}  // namespace stator::capture
