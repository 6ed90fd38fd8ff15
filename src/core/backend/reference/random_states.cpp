#include "core/backend/reference/random_states.h"

#include <ATen/CPUGeneratorImpl.h>
#include <ATen/Context.h>

#include <mutex>
#include <optional>

namespace stator::backend {
namespace {

at::Tensor state_of(at::Generator generator) {
  std::lock_guard lock(generator.mutex());
  return generator.get_state();
}

void set_state(at::Generator generator, const at::Tensor& state) {
  std::lock_guard lock(generator.mutex());
  generator.set_state(state);
}

std::optional<at::DeviceType> device_type_of(const std::vector<at::Tensor>& tensors) {
  std::optional<at::DeviceType> found;
  for (const at::Tensor& tensor : tensors) {
    const at::DeviceType type = tensor.device().type();
    if (type == at::kCUDA) return type;
    if (type != at::kCPU && type != at::kMeta && !found) found = type;
  }
  return found;
}

}  // namespace

RandomStates::RandomStates(const std::vector<at::Tensor>& tensors) {
  const at::Generator& cpu = at::detail::getDefaultCPUGenerator();
  states_.emplace_back(cpu, state_of(cpu));
  const auto type = device_type_of(tensors);
  if (!type) return;
  for (const at::Tensor& tensor : tensors) {
    if (tensor.device().type() != *type) continue;
    const at::Generator& generator = at::globalContext().defaultGenerator(tensor.device());
    states_.emplace_back(generator, state_of(generator));
  }
}

RandomStates::Scope::Scope(const RandomStates* states) {
  if (!states) return;
  for (const auto& [generator, state] : states->states_) before_.emplace_back(generator, state_of(generator));
  for (size_t i = 0; i < before_.size(); ++i) set_state(before_[i].first, states->states_[i].second);
}

RandomStates::Scope::~Scope() {
  for (const auto& [generator, state] : before_) set_state(generator, state);
}

}  // namespace stator::backend
