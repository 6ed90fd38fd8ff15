#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "capture/pycompat/ref.h"

/// The state of `__torch_function__` on this thread: the stack of torch-function modes, and whether overriding is
/// disabled.
namespace stator::capture {

/// The numbers are those of at::impl::TorchFunctionDisabledState.
enum class Overriding : uint8_t { Enabled, SubclassesDisabled, AllDisabled };

/// Mode number `index`, 0 being the outermost. Borrowed; null if there are fewer modes.
PyObject* function_mode_at(int64_t index);
Overriding overriding();
void set_overriding(Overriding state);
/// Pops all but the first `kept` modes, then pushes others.
void change_function_modes(int64_t kept, std::span<PyObject* const> pushed);

/// While it exists, no torch-function mode is active and overriding is enabled. Restores both when it is destroyed.
class WithoutFunctionModes {
 public:
  WithoutFunctionModes();
  ~WithoutFunctionModes();
  WithoutFunctionModes(const WithoutFunctionModes&) = delete;

  /// The hidden modes, outermost first.
  const std::vector<Ref>& modes() const { return modes_; }
  Overriding state() const { return state_; }

 private:
  std::vector<Ref> modes_;
  Overriding state_;
};

}  // namespace stator::capture
