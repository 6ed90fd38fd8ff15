#pragma once

#include "capture/interpreter/protocol/interpreter.h"
#include "core/shapes/input_layout.h"

/// Symbolic sizes of input tensors.
namespace stator::capture {

/// Which sizes and strides of an external tensor are symbols: those that vary from call to call, those that the user
/// marked, or all. Empty vectors if none is.
shapes::InputLayout symbolic_layout(Interpreter& in, const TensorValue* tensor);

/// Assumes what the user's marks state of the unbacked sizes of an input: bounds, and sizes that are equal. The graph
/// verifies it.
void assume_marks(Interpreter& in, TensorValue* tensor);

/// Assumes what the user's spec states of the tensor or int at the source, which is used now. `symbols`: the symbolic
/// number of an int, or of each dimension of a tensor; null for constants.
void assume_spec(Interpreter& in, const Source& source, const std::vector<Value*>& symbols);
/// The same for an input, which has its fake.
void assume_spec(Interpreter& in, TensorValue* tensor);

/// Stores the guards on symbolic sizes that the attempt relied on in `TorchSession::size_guards`. Call it once, when
/// the attempt has ended.
void find_size_guards(Interpreter& in);
/// Records the guards that `find_size_guards` stored, as a fact about the inputs' sources.
void guard_sizes(Interpreter& in);

/// Adds to the fact that `guard_sizes` recorded the size questions that a backend asked while it compiled. Checks that
/// were built from the fact see them as well.
void renew_size_guards(Interpreter& in);

}  // namespace stator::capture
