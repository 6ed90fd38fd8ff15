#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "capture/pycompat/ref.h"

/// Torch's overriding of functions on this thread: the stack of torch-function modes, and what is switched off.
namespace stator::capture {

/// As torch numbers them.
enum class Overriding : uint8_t { Enabled, SubclassesDisabled, AllDisabled };

/// The outermost is the 0th. Borrowed; null if there are fewer.
PyObject* function_mode_at(int64_t index);
Overriding overriding();
void set_overriding(Overriding state);
/// Pops all but the first `kept` modes, then pushes others.
void change_function_modes(int64_t kept, std::span<PyObject* const> pushed);

/// While it lives torch's functions are what they are without modes, and nothing is switched off.
class WithoutFunctionModes {
 public:
  WithoutFunctionModes();
  ~WithoutFunctionModes();
  WithoutFunctionModes(const WithoutFunctionModes&) = delete;

  /// What is hidden, outermost first.
  const std::vector<Ref>& modes() const { return modes_; }
  Overriding state() const { return state_; }

 private:
  std::vector<Ref> modes_;
  Overriding state_;
};

}  // namespace stator::capture
