#pragma once

#include "capture/interpreter/protocol/interpreter.h"

/// Weak references and proxies, external or made by the program. Whether the referent is alive depends on who else
/// holds it; if that is not certain, it is a break.
namespace stator::capture {

/// Whether it is a weakref.ref or weakref.proxy.
bool is_weak(Value* value);
/// The referent of a reference that the program made; breaks if it may be dead.
Value* made_referent(const Interpreter& in, Value* referent);
/// The referent of an external weak reference or proxy. A guard checks on each call whether it is alive.
Value* external_referent(Interpreter& in, ObjectValue* reference);
/// The referent of a weakref.proxy; any other value as it is.
Value* unproxied(Interpreter& in, Value* value);
[[noreturn]] void refuse_weak(const char* what);

}  // namespace stator::capture
