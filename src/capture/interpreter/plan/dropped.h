#pragma once

#include "capture/interpreter/interpreter.h"

namespace stator::capture {

/// Whether a change of the program up to here may have taken the last reference to an outside object, which is still
/// there because changes are made when the plan ends. Runs no code of the program.
bool may_have_dropped(const Interpreter& in, PyObject* object);

}  // namespace stator::capture
