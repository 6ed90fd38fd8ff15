#pragma once

#include <span>

#include "capture/interpreter/protocol/interpreter.h"

namespace stator::capture {

/// The `what` of calls whose callable is neither a C function, a C method nor a Python function, such as the
/// operators in `torch.ops`. They may be the user's own, so they are not tried. Compared by address.
inline constexpr char kOperator[] = "torch";

/// Raises the error of a torch call that fails for every tensor of this metadata: of zeros and of ones, with the same
/// message. Returns if there is no such error. For calls that are known not to fail because of data.
void raise_on_trial(Interpreter& in, std::span<PyObject* const> objects, const TorchCall& call);

/// The result of a torch call on fakes and other objects. A call that fails is tried on small zeros in place of the
/// fakes: if it raises the same error there, it is an error of the program and is raised; so it is if the failing
/// operator does not raise depending on data. Otherwise it is a break. The trial records nothing and leaves the random
/// generators as they were.
Value* tried_result(Interpreter& in, std::span<PyObject* const> objects, const RunningCall& what,
                    const TorchCall& call);

}  // namespace stator::capture
