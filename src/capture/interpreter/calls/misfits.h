#pragma once

#include "capture/interpreter/models/model.h"

/// Calls whose arguments do not fit: CPython looks at how many there are, and at their names, before anything else, so
/// that stand-ins in their place are refused with the same words.
namespace stator::capture {

/// Raises what a method of a built-in container says of the call. Returns where it is no such method, or where the
/// real one has nothing against the call.
void raise_misfit(Interpreter& in, PyObject* method, const CallArgs& args);
/// Raises what binding the arguments to the function's parameters gives; it is known to fail. `defaults`: how many
/// positional parameters have one; `keyword_defaults`: names of the keyword-only ones that have.
[[noreturn]] void raise_unbound(Interpreter& in, const pycompat::Code& code, PyObject* qualified_name, size_t defaults,
                                const std::vector<PyObject*>& keyword_defaults, const CallArgs& args);

}  // namespace stator::capture
