#include "core/backend/join_gradients.h"

#include <ATen/ops/zeros.h>
#include <c10/core/GradMode.h>
#include <torch/csrc/autograd/functions/utils.h>
#include <torch/csrc/autograd/variable.h>

#include <algorithm>

#include "core/backend/autograd_nodes.h"

namespace stator::backend {
namespace {

using torch::autograd::variable_list;

bool has_tangent(const at::Tensor& tensor) { return tensor._fw_grad(/*level=*/0).defined(); }

variable_list copies_of(const variable_list& tensors) {
  // Copies: what autograd has saved of `made` must not change when the results are written to.
  at::NoGradGuard no_grad;
  variable_list copies;
  copies.reserve(tensors.size());
  for (const at::Tensor& tensor : tensors) copies.push_back(tensor.clone());
  return copies;
}

}  // namespace

variable_list JoinBackward::apply(variable_list&& gradients) {
  variable_list result(num_results + operands.size());
  for (size_t i = 0; i < num_results; ++i)
    result[i] = gradients[i].defined() ? std::move(gradients[i]) : input_metadata(i).zeros_like();
  for (size_t i = 0; i < operands.size(); ++i) {
    if (!task_should_compute_output(num_results + i)) continue;
    result[num_results + i] = at::zeros_symint(operands[i].sizes, operands[i].options);
  }
  return result;
}

std::vector<at::Tensor> join_gradients(graph::ControlOp op, const variable_list& made, const variable_list& operands) {
  for (const variable_list* tensors : {&made, &operands})
    TORCH_CHECK_NOT_IMPLEMENTED(std::none_of(tensors->begin(), tensors->end(), has_tangent),
                                "forward-mode gradients of control flow");
  variable_list results = copies_of(made);
  if (!c10::GradMode::is_enabled()) return results;
  variable_list all = made;
  all.insert(all.end(), operands.begin(), operands.end());
  auto requires_grad = [](const at::Tensor& tensor) { return tensor.requires_grad(); };
  if (std::none_of(all.begin(), all.end(), requires_grad)) return results;
  auto node = op == graph::ControlOp::Cond ? make_autograd_node<CondBackward, JoinBackward>()
                                           : make_autograd_node<ScanBackward, JoinBackward>();
  node->num_results = made.size();
  for (const at::Tensor& operand : operands)
    node->operands.push_back({operand.sym_sizes().vec(), operand.options().requires_grad(std::nullopt)});
  node->set_next_edges(torch::autograd::collect_next_edges(all));
  for (at::Tensor& result : results) torch::autograd::set_history(result, node);
  return results;
}

}  // namespace stator::backend
