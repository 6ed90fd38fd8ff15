#include "capture/guards/global_state.h"

#include <ATen/Context.h>
#include <ATen/PythonTorchFunctionTLS.h>
#include <ATen/SavedTensorHooks.h>
#include <ATen/autocast_mode.h>
#include <ATen/core/grad_mode.h>
#include <c10/core/AutogradState.h>
#include <c10/core/DefaultDtype.h>
#include <c10/core/impl/LocalDispatchKeySet.h>
#include <c10/core/impl/TorchDispatchModeTLS.h>
#include <torch/csrc/autograd/anomaly_mode.h>

#include <sstream>

#include "capture/guards/break_policy.h"
#include "capture/guards/transforms.h"

namespace stator::capture {
namespace {

/// Process-wide flags that change which kernel an operator uses, or its metadata, packed into one number. Lowest are
/// the attention flags, which a captured program may set; from bit `kOrderShift` on the priority order of attention
/// kernels.
constexpr uint32_t kAttentionFlags = 5, kOrderShift = 10, kBitsOfKernel = 3;
constexpr uint32_t kSettable = ((1u << kAttentionFlags) - 1) | ~((1u << kOrderShift) - 1);

uint32_t context_flags() {
  auto& context = at::globalContext();
  uint32_t flags = 0;
  flags |= context.userEnabledFlashSDP() << 0;
  flags |= context.userEnabledMathSDP() << 1;
  flags |= context.userEnabledMemEfficientSDP() << 2;
  flags |= context.userEnabledCuDNNSDP() << 3;
  flags |= context.userEnabledOverrideableSDP() << 4;
  flags |= context.deterministicAlgorithms() << 5;
  flags |= context.deterministicAlgorithmsWarnOnly() << 6;
  flags |= context.userEnabledMkldnn() << 7;
  flags |= context.userEnabledCuDNN() << 8;
  flags |= context.deterministicFillUninitializedMemory() << 9;
  uint32_t shift = kOrderShift;
  for (at::SDPBackend kernel : context.sDPPriorityOrder()) {
    flags |= static_cast<uint32_t>(kernel) << shift;
    shift += kBitsOfKernel;
  }
  return flags;
}

void set_attention_flags(uint32_t flags) {
  auto& context = at::globalContext();
  context.setSDPUseFlash((flags >> 0 & 1) != 0);
  context.setSDPUseMath((flags >> 1 & 1) != 0);
  context.setSDPUseMemEfficient((flags >> 2 & 1) != 0);
  context.setSDPUseCuDNN((flags >> 3 & 1) != 0);
  context.setSDPUseOverrideable((flags >> 4 & 1) != 0);
  std::vector<int64_t> order;
  for (uint32_t rest = flags >> kOrderShift; order.size() < at::num_sdp_backends; rest >>= kBitsOfKernel)
    order.push_back(rest & ((1u << kBitsOfKernel) - 1));
  context.setSDPPriorityOrder(order);
}

/// How many `autocast` blocks are open. The number can only be read by changing it.
int autocast_depth() {
  at::autocast::increment_nesting();
  return at::autocast::decrement_nesting();
}

class Snapshot final : public GlobalState {
 public:
  Snapshot() {
    auto keys = c10::impl::tls_local_dispatch_key_set();
    included_ = keys.included_.raw_repr();
    excluded_ = keys.excluded_.raw_repr();
    default_dtype_ = c10::get_default_dtype();
    flags_ = context_flags();
    autocast_cpu_ = at::autocast::get_autocast_dtype(at::kCPU);
    autocast_cuda_ = at::autocast::get_autocast_dtype(at::kCUDA);
    autocast_cache_ = at::autocast::is_autocast_cache_enabled();
    autocast_nesting_ = autocast_depth();
    function_modes_ = at::impl::PythonTorchFunctionTLS::stack_len();
    function_state_ = at::impl::PythonTorchFunctionTLS::get_disabled_state();
  }

  bool matches() const override {
    return is_same_but_modes() && at::impl::PythonTorchFunctionTLS::stack_len() == function_modes_ &&
           at::impl::PythonTorchFunctionTLS::get_disabled_state() == function_state_;
  }

  bool matches_but_modes() const override { return is_same_but_modes(); }

  std::string mismatch() const override {
    auto keys = c10::impl::tls_local_dispatch_key_set();
    auto& autograd = c10::AutogradState::get_tls_state();
    std::ostringstream out;
    if (autograd.get_grad_mode() != autograd_.get_grad_mode())
      out << "grad mode: expected " << autograd_.get_grad_mode() << ", saw " << autograd.get_grad_mode();
    else if (autograd.get_inference_mode() != autograd_.get_inference_mode())
      out << "inference mode: expected " << autograd_.get_inference_mode() << ", saw " << autograd.get_inference_mode();
    else if (c10::get_default_dtype() != default_dtype_)
      out << "default dtype: expected " << default_dtype_ << ", saw " << c10::get_default_dtype();
    else if (context_flags() != flags_)
      out << "global flags (deterministic, sdp, mkldnn): expected " << flags_ << ", saw " << context_flags();
    else if (at::impl::PythonTorchFunctionTLS::stack_len() != function_modes_)
      out << "torch-function modes: expected " << function_modes_ << ", saw "
          << at::impl::PythonTorchFunctionTLS::stack_len();
    else if (at::impl::PythonTorchFunctionTLS::get_disabled_state() != function_state_)
      out << "__torch_function__ was enabled or disabled";
    else if (break_policy() != break_policy_)
      out << "error_on_graph_break has another value";
    else if (keys.included_.raw_repr() != included_ || keys.excluded_.raw_repr() != excluded_)
      out << "autocast or dispatcher state changed";
    else
      out << "autocast settings or dispatch modes changed";
    return out.str();
  }

  bool has_same_levels() const override { return TransformState::current() == transforms_; }

  bool has_same_autocast_depth() const override { return autocast_depth() == autocast_nesting_; }

  bool can_be_restored() const override { return has_same_levels() && ((context_flags() ^ flags_) & ~kSettable) == 0; }

  void restore() const override {
    transforms_.restore();
    break_policy() = break_policy_;
    c10::AutogradState::set_tls_state(autograd_);
    if (c10::get_default_dtype() != default_dtype_) c10::set_default_dtype(default_dtype_);
    if (((context_flags() ^ flags_) & kSettable) != 0) set_attention_flags(flags_);
    c10::impl::PODLocalDispatchKeySet keys;
    keys.set_included(c10::DispatchKeySet(c10::DispatchKeySet::RAW, included_));
    keys.set_excluded(c10::DispatchKeySet(c10::DispatchKeySet::RAW, excluded_));
    c10::impl::_force_tls_local_dispatch_key_set(c10::impl::LocalDispatchKeySet(keys));
    at::autocast::set_autocast_dtype(at::kCPU, autocast_cpu_);
    at::autocast::set_autocast_dtype(at::kCUDA, autocast_cuda_);
    at::autocast::set_autocast_cache_enabled(autocast_cache_);
    // The nesting level can only be changed by one at a time.
    const int before = autocast_depth();
    int nesting = before;
    while (nesting > autocast_nesting_) nesting = at::autocast::decrement_nesting();
    while (nesting < autocast_nesting_) nesting = at::autocast::increment_nesting();
    // As the end of the outermost block does.
    if (nesting == 0 && before > 0) at::autocast::clear_cache();
  }

 private:
  bool is_same_but_modes() const {
    auto keys = c10::impl::tls_local_dispatch_key_set();
    auto& autograd = c10::AutogradState::get_tls_state();
    const auto& hooks = at::SavedTensorDefaultHooks::get_tls_state();
    return keys.included_.raw_repr() == included_ && keys.excluded_.raw_repr() == excluded_ &&
           autograd.get_grad_mode() == autograd_.get_grad_mode() &&
           autograd.get_inference_mode() == autograd_.get_inference_mode() && break_policy() == break_policy_ &&
           c10::get_default_dtype() == default_dtype_ && context_flags() == flags_ &&
           at::autocast::get_autocast_dtype(at::kCPU) == autocast_cpu_ &&
           at::autocast::get_autocast_dtype(at::kCUDA) == autocast_cuda_ &&
           at::autocast::is_autocast_cache_enabled() == autocast_cache_ &&
           c10::impl::TorchDispatchModeTLS::stack_len() == 0 && hooks.stack.empty() &&
           hooks.disabled_error_message == transforms_.hooks_disabled && !torch::autograd::AnomalyMode::is_enabled();
  }

  uint64_t included_, excluded_;
  c10::AutogradState autograd_ = c10::AutogradState::get_tls_state();
  bool autocast_cache_;
  caffe2::TypeMeta default_dtype_;
  uint32_t flags_;
  at::ScalarType autocast_cpu_, autocast_cuda_;
  int autocast_nesting_;
  std::optional<bool> break_policy_ = break_policy();
  TransformState transforms_ = TransformState::current();
  int64_t function_modes_;
  at::impl::TorchFunctionDisabledState function_state_;
};

}  // namespace

std::shared_ptr<const GlobalState> GlobalState::current() { return std::make_shared<Snapshot>(); }

const char* GlobalState::unsupported_mode() {
  if (c10::impl::TorchDispatchModeTLS::stack_len() > 0) return "a torch-dispatch mode is active";
  // The hooks are called for each tensor that an operator saves; a graph may save others, in another order.
  if (!at::SavedTensorDefaultHooks::get_tls_state().stack.empty()) return "saved-tensor hooks are active";
  // It names the Python line that called an operator.
  if (torch::autograd::AnomalyMode::is_enabled()) return "anomaly detection is on";
  auto included = c10::impl::tls_local_dispatch_key_set().included_;
  if (included.has(c10::DispatchKey::FuncTorchDynamicLayerFrontMode)) return "a functorch transform is active";
  if (included.has(c10::DispatchKey::Tracer)) return "torch.jit.trace is active";
  if (included.has(c10::DispatchKey::Fake)) return "a capture is already running on this thread";
  return nullptr;
}

}  // namespace stator::capture
