#pragma once

#include <span>

#include "capture/interpreter/interpreter.h"

namespace stator::capture {

/// How calls of operators that are no bindings are named: they may be anybody's, and are not to be tried.
inline constexpr char kOperator[] = "torch";

/// Whether a call of torch's that no shape function answers is a mistake of the program's: it raises for small zeros in
/// place of its fakes, too. Nothing is recorded, and random numbers are as before.
bool raises_on_zeros(std::span<PyObject* const> objects, const TorchCall& call);

}  // namespace stator::capture
