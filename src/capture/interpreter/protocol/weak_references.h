#pragma once

#include "capture/interpreter/protocol/interpreter.h"

/// Weak references and proxies, external or made by the program. Whether the referent is alive depends on who else
/// holds it; if that is not certain, it is a break.
namespace stator::capture {

/// Whether it is a weakref.ref or weakref.proxy.
bool is_weak(Value* value);
/// The referent of a weak reference that is a key: it decides hash and equality. It need not be alive for other uses.
/// Null if it is gone, or if its class hashes or compares in its own way.
Value* weak_key(Interpreter& in, ObjectValue* reference);
/// Breaks if the program may have dropped an object for which it made a weak reference with a callback: the callback
/// would have run then. To be called when the capture ends.
void require_no_callback(Interpreter& in);
/// The referent of a reference that the program made; breaks if it may be dead.
Value* made_referent(Interpreter& in, Value* referent);
/// The referent of an external weak reference or proxy. A guard checks on each call whether it is alive.
Value* external_referent(Interpreter& in, ObjectValue* reference);
/// The referent of a weakref.proxy; any other value as it is.
Value* unproxied(Interpreter& in, Value* value);
[[noreturn]] void refuse_weak(const char* what);

}  // namespace stator::capture
