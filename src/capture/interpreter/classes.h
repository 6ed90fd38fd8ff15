#pragma once

#include "capture/interpreter/interpreter.h"

namespace stator::capture {

/// type.__instancecheck__: no metaclass is asked.
bool is_plain_instance(Interpreter& in, Value* value, PyTypeObject* cls);

}  // namespace stator::capture
