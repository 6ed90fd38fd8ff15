#pragma once

#include <vector>

#include "capture/interpreter/state/call_args.h"
#include "capture/pycompat/code.h"

/// Calls whose arguments do not fit. CPython checks their number and names before anything else, so a call with sample
/// arguments fails with the same message.
namespace stator::capture {

/// Raises the TypeError of a method of a built-in container for a call of this shape. Returns if it is not such a
/// method, or accepts the shape.
void raise_argument_error(Interpreter& in, PyObject* method, const CallArgs& args);
/// Raises the TypeError of binding the arguments to the function's parameters, which is known to fail. `defaults`: how
/// many positional parameters have a default; `keyword_defaults`: which keyword-only ones have.
[[noreturn]] void raise_unbound(Interpreter& in, const pycompat::Code& code, PyObject* qualified_name, size_t defaults,
                                const std::vector<PyObject*>& keyword_defaults, const CallArgs& args);

}  // namespace stator::capture
