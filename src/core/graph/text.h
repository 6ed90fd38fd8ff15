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
///   graph "name" (%x: float32[2, 3], %w: float32[3, 4]{1, 3} cuda:0 grad) {
///     state 0 grad
///     state 1 no_grad autocast(cpu=bfloat16)
///     location 1 "model.py":12 in "forward"
///     %mm: float32[2, 4] = aten::mm(%x, %w) state 1 at 1
///     %mm = aten::add_.Tensor(%mm, number(0.5))
///     [%a, %b] = aten::split.Tensor(%mm, 2, dim=-1)
///     _, %index = aten::max.dim(%a, 0)
///     return (%mm, %index)
///   }
///
/// - `%name` is a value; names that are no identifiers stand in quotes. Left of `=`: a new one, or one known already
///   (the op gave that very tensor back); `_` is a return that is no value.
/// - After a colon: dtype, sizes, strides unless row-major, device unless cpu, whether it requires grad.
/// - Arguments equal to the schema's defaults are left out at the end and by keyword.
/// - Tensor constants carry their data, or `tensor(@n)` names the n-th of a list kept beside the text.
/// - `state 0` and `at 0` (no location known) are not written on nodes. `#` begins a comment.
namespace stator::graph {

/// With `tensors`, constants of more than 16 elements go there instead of into the text.
STATOR_API std::string to_text(const Graph& graph, std::vector<at::Tensor>* tensors = nullptr);

/// What is wrong with a text, with line and column.
class STATOR_API TextError : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

/// Throws TextError for text that does not say a well-formed graph over operators of this process.
STATOR_API std::shared_ptr<Graph> from_text(std::string_view text, const std::vector<at::Tensor>& tensors = {});

}  // namespace stator::graph
