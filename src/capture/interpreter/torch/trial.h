#pragma once

#include <span>

#include "capture/interpreter/interpreter.h"

namespace stator::capture {

/// How calls of operators that are no bindings are named: they may be anybody's, and are not to be tried.
inline constexpr char kOperator[] = "torch";

/// What a call of torch's gives for these fakes and other objects. One that fails is tried on small zeros in place of
/// the fakes, which tells a mistake of the program's from what is not known here: where both complain in the same
/// words, the program is told so. Nothing of that is recorded, and random numbers are as before.
Value* tried_result(Interpreter& in, std::span<PyObject* const> objects, const char* what, const TorchCall& call);

}  // namespace stator::capture
