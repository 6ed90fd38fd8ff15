#pragma once

#include "capture/interpreter/interpreter.h"

/// Weak references and proxies, from outside or made by the program. Whether what they refer to is still there depends
/// on who else holds it: where that is not plain to see, it is a break.
namespace stator::capture {

/// Whether it is a weakref.ref or weakref.proxy.
bool is_weak(Value* value);
/// Whether it is one that the program made; its `base` is what it refers to.
bool is_made_weak(const ObjectValue* object);
/// What a reference that the program made refers to.
Value* made_referent(const Interpreter& in, Value* referent);
/// What a weak reference or proxy from outside refers to; whether it is gone is looked at again on each call.
Value* outside_referent(Interpreter& in, ObjectValue* reference);
/// What a weakref.proxy stands for; any other value as it is.
Value* unproxied(Interpreter& in, Value* value);
[[noreturn]] void refuse_weak(const char* what);

}  // namespace stator::capture
