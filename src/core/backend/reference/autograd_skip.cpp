#include "core/backend/reference/autograd_skip.h"

#include <c10/core/AutogradState.h>
#include <c10/core/impl/LocalDispatchKeySet.h>
#include <torch/csrc/autograd/forward_grad.h>
#include <torch/csrc/autograd/variable.h>

#include <algorithm>
#include <string_view>

#include "core/ops/operator_table.h"
#include "core/shapes/number_ops.h"

namespace stator::backend {
namespace {

// With one of these keys, skipping autograd would decompose an operator differently.
constexpr c10::DispatchKeySet kUnusual({
    c10::DispatchKey::Python,
    c10::DispatchKey::PythonTLSSnapshot,
    c10::DispatchKey::Fake,
    c10::DispatchKey::Functionalize,
    c10::DispatchKey::FuncTorchBatched,
    c10::DispatchKey::FuncTorchGradWrapper,
    c10::DispatchKey::NestedTensor,
});

bool usual_thread() {
  auto keys = c10::impl::tls_local_dispatch_key_set();
  if (!(keys.included_ - c10::default_included_set).empty()) return false;
  // A tensor that does not require grad may have a forward-mode tangent.
  return !torch::autograd::ForwardADLevel::try_get_by_idx(0);
}

}  // namespace

bool autograd_is_passive(const graph::Graph& graph) {
  return std::all_of(graph.nodes.begin(), graph.nodes.end(), [](const graph::Node& node) {
    std::string_view name = node.op.operator_name().name;
    if (shapes::is_number_op(node.op)) return true;
    return name.starts_with("aten::") && !ops::has_trait(node.op, ops::ChangesAutograd);
  });
}

AutogradNeed autograd_need(at::ArrayRef<at::Tensor> inputs) {
  if (!usual_thread()) return AutogradNeed::Always;
  bool requires_grad = false;
  for (const auto& tensor : inputs) {
    const auto* impl = tensor.unsafeGetTensorImpl();
    if (impl->key_set().has_any(kUnusual)) return AutogradNeed::Always;
    requires_grad = requires_grad || impl->requires_grad();
  }
  return requires_grad ? AutogradNeed::InGradMode : AutogradNeed::Never;
}

void forget_inner_base(const at::Tensor& result) {
  const auto* view = torch::autograd::impl::get_view_autograd_meta(result);
  if (!view || !view->has_bw_view() || !view->shared_view_info()) return;
  const bool is_plain = !result.requires_grad() && !view->grad_fn_ && view->hooks_.empty();
  if (is_plain && view->get_backward_view().base_.use_count() == 1)
    result.unsafeGetTensorImpl()->set_autograd_meta(nullptr);
}

}  // namespace stator::backend
