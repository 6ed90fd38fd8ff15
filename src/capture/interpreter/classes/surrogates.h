#pragma once

#include "capture/interpreter/protocol/interpreter.h"

namespace stator::capture {

/// The real object that represents a value inside of prototypes: of the same class, with surrogates as its parts.
/// Breaks if there can be none.
Ref surrogate(Interpreter& in, Value* value);
/// Gives all surrogates in the prototype's dict the attributes and items that their values have now.
void refresh_surrogates(Interpreter& in, PyTypeObject* prototype);

}  // namespace stator::capture
