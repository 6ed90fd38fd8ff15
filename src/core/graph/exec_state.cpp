#include "core/graph/exec_state.h"

#include <ATen/autocast_mode.h>
#include <c10/core/AutogradState.h>

#include <algorithm>

namespace stator::graph {
namespace {

// Autocast is on for a device exactly if its key is not excluded; one mask covers all devices.
bool any_autocast() {
  auto excluded = c10::impl::tls_local_dispatch_key_set().excluded_;
  return !(c10::autocast_dispatch_keyset - excluded).empty();
}

void read_autocast(ExecState& state, uint32_t region) {
  for (auto device : at::autocast::_AUTOCAST_SUPPORTED_DEVICES) {
    if (at::autocast::is_autocast_enabled(device)) {
      state.autocast.emplace_back(device, at::autocast::get_autocast_dtype(device));
    }
  }
  if (state.autocast.empty()) return;
  state.autocast_cache = at::autocast::is_autocast_cache_enabled();
  state.autocast_region = region;
}

}  // namespace

ExecState current_state(uint32_t region) {
  ExecState state;
  const auto& autograd = c10::AutogradState::get_tls_state();
  state.grad_mode = autograd.get_grad_mode();
  state.inference_mode = autograd.get_inference_mode();
  if (any_autocast()) read_autocast(state, region);
  return state;
}

bool is_current(const ExecState& state) {
  const auto& autograd = c10::AutogradState::get_tls_state();
  if (state.grad_mode != autograd.get_grad_mode()) return false;
  if (state.inference_mode != autograd.get_inference_mode()) return false;
  if (!any_autocast()) return state.autocast.empty();
  return current_state(state.autocast_region) == state;
}

bool in_autocast_block() {
  // The depth can only be read by changing it.
  at::autocast::increment_nesting();
  return at::autocast::decrement_nesting() > 0;
}

void StateSwitcher::enter(const ExecState& state, bool below_autograd) {
  auto& autograd = c10::AutogradState::get_tls_state();
  if (!state.autocast.empty()) {
    enter_region(state.autocast_region);
    may_hold_casts_ = true;
  }
  if (!saved_) {
    if (!below_autograd && is_current(state)) return;
    saved_ = Saved{current_state(state.autocast_region),    autograd.get_fw_grad_mode(),
                   autograd.get_multithreading_enabled(),   at::autocast::is_autocast_cache_enabled(),
                   c10::impl::tls_local_dispatch_key_set(), {}};
  }
  bool same_inference = state.inference_mode == saved_->state.inference_mode;
  autograd.set_grad_mode(state.grad_mode);
  autograd.set_inference_mode(state.inference_mode);
  autograd.set_fw_grad_mode(same_inference ? saved_->forward_grad : !state.inference_mode);
  autograd.set_multithreading_enabled(same_inference ? saved_->multithreading : !state.inference_mode);

  auto keys = saved_->keys;
  if (!same_inference && state.inference_mode) {
    keys.included_ = keys.included_.remove(c10::DispatchKey::ADInplaceOrView);
    keys.excluded_ = keys.excluded_ | c10::autograd_dispatch_keyset;
  } else if (!same_inference) {
    keys.included_ = keys.included_.add(c10::DispatchKey::ADInplaceOrView);
    keys.excluded_ = keys.excluded_ - c10::autograd_dispatch_keyset;
  }
  if (below_autograd) keys.excluded_ = keys.excluded_ | c10::autograd_dispatch_keyset;
  bool same_autocast = state.autocast.empty() && saved_->state.autocast.empty();
  if (!same_autocast) keys.excluded_ = keys.excluded_ | c10::autocast_dispatch_keyset;
  c10::impl::_force_tls_local_dispatch_key_set(keys);
  if (!same_autocast) switch_autocast(state);
}

void StateSwitcher::switch_autocast(const ExecState& state) {
  if (state.autocast.empty()) return;
  for (auto [device, dtype] : state.autocast) {
    auto before = at::autocast::get_autocast_dtype(device);
    auto is_device = [device = device](const auto& entry) { return entry.first == device; };
    auto& dtypes = saved_->dtypes;
    if (std::none_of(dtypes.begin(), dtypes.end(), is_device)) dtypes.emplace_back(device, before);
    if (before != dtype) at::autocast::set_autocast_dtype(device, dtype);
    at::autocast::set_autocast_enabled(device, true);
  }
  at::autocast::set_autocast_cache_enabled(state.autocast_cache);
}

void StateSwitcher::enter_region(uint32_t region) noexcept {
  if (region == region_) return;
  at::autocast::clear_cache();
  region_ = region;
}

void StateSwitcher::end(uint32_t region) noexcept {
  enter_region(region);
  may_hold_casts_ = false;
}

StateSwitcher::~StateSwitcher() {
  if (may_hold_casts_ && (region_ != 0 || !in_autocast_block())) at::autocast::clear_cache();
  if (!saved_) return;
  for (auto [device, dtype] : saved_->dtypes) at::autocast::set_autocast_dtype(device, dtype);
  if (!saved_->dtypes.empty()) at::autocast::set_autocast_cache_enabled(saved_->cache);
  auto& autograd = c10::AutogradState::get_tls_state();
  autograd.set_grad_mode(saved_->state.grad_mode);
  autograd.set_inference_mode(saved_->state.inference_mode);
  autograd.set_fw_grad_mode(saved_->forward_grad);
  autograd.set_multithreading_enabled(saved_->multithreading);
  c10::impl::_force_tls_local_dispatch_key_set(saved_->keys);
}

}  // namespace stator::graph
