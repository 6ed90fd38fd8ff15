#include "capture/guards/function_modes.h"

#include <ATen/PythonTorchFunctionTLS.h>
#include <torch/csrc/PyInterpreter.h>

namespace stator::capture {

using Stack = at::impl::PythonTorchFunctionTLS;

PyObject* function_mode_at(int64_t index) {
  return index < Stack::stack_len() ? Stack::get_stack_at(index)->ptr(getPyInterpreter()) : nullptr;
}

Overriding overriding() { return static_cast<Overriding>(Stack::get_disabled_state()); }

void set_overriding(Overriding state) {
  Stack::set_disabled_state(static_cast<at::impl::TorchFunctionDisabledState>(state));
}

void change_function_modes(int64_t kept, std::span<PyObject* const> pushed) {
  while (Stack::stack_len() > kept) Stack::pop_stack();
  for (PyObject* mode : pushed)
    Stack::push_onto_stack(std::make_shared<c10::SafePyObject>(Ref::borrow(mode).release(), getPyInterpreter()));
}

WithoutFunctionModes::WithoutFunctionModes() : state_(overriding()) {
  int64_t count = Stack::stack_len();
  for (int64_t i = 0; i < count; ++i) modes_.push_back(Ref::borrow(function_mode_at(i)));
  if (count > 0) change_function_modes(0, {});
  if (state_ != Overriding::Enabled) set_overriding(Overriding::Enabled);
}

WithoutFunctionModes::~WithoutFunctionModes() {
  if (state_ != Overriding::Enabled) set_overriding(state_);
  if (modes_.empty()) return;
  std::vector<PyObject*> modes;
  for (const Ref& mode : modes_) modes.push_back(mode.get());
  change_function_modes(0, modes);
}

}  // namespace stator::capture
