#pragma once

#include <span>

#include "capture/interpreter/interpreter.h"

namespace stator::capture {

/// Whether a call of torch's that no shape function answers is a mistake of the program's: it raises for small zeros in
/// place of its fakes, too. Nothing is recorded, and random numbers are as before.
bool raises_on_zeros(std::span<PyObject* const> objects, const TorchCall& call);

}  // namespace stator::capture
