#include "core/backend/reference/reentrant_checkpoint.h"

#include <c10/core/GradMode.h>
#include <torch/csrc/autograd/autograd.h>
#include <torch/csrc/autograd/engine.h>
#include <torch/csrc/autograd/functions/utils.h>
#include <torch/csrc/autograd/variable.h>

#include <mutex>
#include <utility>

#include "core/backend/autograd_nodes.h"

namespace stator::backend {

using Tensors = std::vector<at::Tensor>;

torch::autograd::variable_list CheckpointBackward::apply(torch::autograd::variable_list&& gradients) {
  TORCH_CHECK(torch::autograd::Engine::get_default_engine().is_checkpoint_valid(),
              "When use_reentrant=True, torch.utils.checkpoint is incompatible with .grad() or passing an `inputs` "
              "parameter to .backward(). To resolve this error, you can either set use_reentrant=False, or call "
              ".backward() without passing the `inputs` argument.");
  Tensors detached;
  {
    std::lock_guard lock(mutex_);
    for (const auto& argument : arguments) {
      const at::Tensor saved = argument.unpack();
      detached.push_back(saved.detach().set_requires_grad(saved.requires_grad()));
    }
  }
  Tensors made;
  {
    RandomStates::Scope same_numbers(random ? &*random : nullptr);
    c10::AutoGradMode with_gradients(true);
    Tensors inputs = detached;
    inputs.insert(inputs.end(), operands.begin(), operands.end());
    made = part->run(std::move(inputs));
  }
  Tensors roots, root_gradients;
  for (size_t i = 0; i < made.size(); ++i) {
    if (!made[i].requires_grad()) continue;
    roots.push_back(std::move(made[i]));
    root_gradients.push_back(gradients[i].defined() ? std::move(gradients[i]) : input_metadata(i).zeros_like());
  }
  TORCH_CHECK(!roots.empty(), "none of output has requires_grad=True, this checkpoint() is not necessary");
  torch::autograd::backward(roots, root_gradients);
  torch::autograd::variable_list results;
  for (const at::Tensor& argument : detached) results.push_back(argument.grad());
  return results;
}

void CheckpointBackward::release_variables() {
  std::lock_guard lock(mutex_);
  for (auto& argument : arguments) argument.reset_data();
}

void attach_checkpoint(const Tensors& made, const Tensors& arguments, Tensors operands,
                       std::shared_ptr<const Executable> part, std::optional<RandomStates> random) {
  auto node = make_autograd_node<CheckpointBackward>();
  node->part = std::move(part);
  node->operands = std::move(operands);
  node->random = std::move(random);
  node->set_next_edges(torch::autograd::collect_next_edges(arguments));
  if (node->part)
    for (const at::Tensor& argument : arguments) node->arguments.emplace_back(argument, /*is_output=*/false);
  for (const at::Tensor& tensor : made) {
    const uint32_t index = node->add_input_metadata(tensor);
    if (!torch::autograd::isDifferentiableType(tensor.scalar_type())) continue;
    torch::autograd::impl::set_gradient_edge(tensor, {node, index});
    if (!tensor.is_view()) continue;
    auto* view = torch::autograd::impl::get_view_autograd_meta(tensor);
    if (view->has_bw_view()) view->set_creation_meta(torch::autograd::CreationMeta::IN_CUSTOM_FUNCTION);
  }
}

Tensors run_reentrant_checkpoint(const Executable& first, const std::shared_ptr<const Executable>& again,
                                 Tensors arguments, Tensors operands, bool preserve_rng_state) {
  std::optional<RandomStates> random;
  if (preserve_rng_state) random.emplace(arguments);
  Tensors inputs = arguments;
  inputs.insert(inputs.end(), operands.begin(), operands.end());
  Tensors made = first.run(std::move(inputs));
  attach_checkpoint(made, arguments, std::move(operands), again, std::move(random));
  return made;
}

}  // namespace stator::backend
