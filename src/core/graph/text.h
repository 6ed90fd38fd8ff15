#pragma once

#include <memory>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

#include "core/base/export.h"
#include "core/graph/graph.h"

/// The text form of graphs. Printing and parsing are inverse: a parsed graph runs the same and prints the same.
///
///   graph "name" (%x: float32[2, 3], %w: float32[3, 4]{1, 3} cuda:0 grad, %p: bool[]) {
///     state 0 grad
///     state 1 no_grad autocast(cpu=bfloat16)
///     location 1 "model.py":12 in "forward" module "self.fc" of "torch.nn.modules.linear.Linear"
///     %mm: float32[2, 4] = aten::mm(%x, %w) state 1 at 1
///     %mm: float32[4, 2]{1, 4} = aten::t_(%mm)
///     [%a: float32[2, 2], %b: float32[2, 2]] = aten::split.Tensor(%mm, 2, dim=-1)
///     _, %index: int64[2] = aten::max.dim(%a, 0)
///     %n: int = stator::item(%index)
///     [%c: float32[2, 2]] = stator::cond(%p, graph "yes" (%t: float32[2, 2]) { ... }, graph "no" ..., [%a], False)
///     return (%mm, %index)
///   }
///
/// - `%name` is a value; names that are not identifiers are quoted. Left of `=`: a new value, or one known already (the
///   operator returned that very tensor); `_` is a return that is not a value.
/// - After a colon stands the type of a value (`int`, `float`, `bool`, `list`, `object`), or the metadata of a tensor's
///   definition: dtype, sizes, strides unless row-major, device unless cpu, whether it requires grad. It is written for
///   the first definition, and for later ones that differ from the one before. After `then`, in brackets, stand
///   values that it changes and does not return. Symbolic sizes are written as expressions over u0, u1, ...
/// - Arguments equal to the schema's defaults are left out at the end and by keyword.
/// - A sub-graph is written where it is an argument. Its values, states and locations are its own.
/// - Tensor constants carry their data, or `tensor(@n)` names the n-th of a list kept beside the text.
/// - `state 0` and `at 0` (no location known) are not written on nodes. `#` begins a comment.
namespace stator::graph {

/// With `tensors`, constants of more than 16 elements go there instead of into the text.
STATOR_API std::string to_text(const Graph& graph, std::vector<at::Tensor>* tensors = nullptr);

/// An error in a text, with line and column.
class STATOR_API TextError : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

/// Throws TextError if the text is not a well-formed graph over operators of this process.
STATOR_API std::shared_ptr<Graph> from_text(std::string_view text, const std::vector<at::Tensor>& tensors = {});

}  // namespace stator::graph
