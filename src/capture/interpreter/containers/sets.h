#pragma once

#include "capture/interpreter/containers/keys.h"

/// Sets that other values are, or have as a part.
namespace stator::capture {

/// The set that an outside one, or an instance of a subclass, is; its elements are guarded.
SetValue* outside_set(Interpreter& in, PyObject* object, Source* source);
/// The set part of a value: itself, or the base of an instance of a subclass. Null for anything else.
SetValue* set_part(Interpreter& in, Value* value);
/// What set operators take: sets, frozensets and the set-like views of dicts. Null for anything else.
SetValue* set_operand(Interpreter& in, Value* value);

}  // namespace stator::capture
