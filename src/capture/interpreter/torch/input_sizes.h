#pragma once

#include "capture/interpreter/protocol/interpreter.h"
#include "core/shapes/input_layout.h"

/// Symbolic sizes of input tensors.
namespace stator::capture {

/// Which sizes of an external tensor are symbols: those that vary from call to call, those that the user marked, or
/// all. Empty vectors if none is.
shapes::InputLayout symbolic_layout(Interpreter& in, const TensorValue* tensor);

/// Stores the guards on symbolic sizes that the attempt relied on in `TorchSession::size_guards`. Call it once, when
/// the attempt has ended.
void find_size_guards(Interpreter& in);
/// Records the guards that `find_size_guards` stored, as a fact about the inputs' sources.
void guard_sizes(Interpreter& in);

/// Adds what was asked since to these guards, also if checks were built from them: a backend asked while it compiled.
void renew_size_guards(Interpreter& in);

}  // namespace stator::capture
