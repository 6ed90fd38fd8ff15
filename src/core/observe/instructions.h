#pragma once

#include <cstdint>
#include <optional>

#include "core/base/export.h"

/// Instructions that the processor retired: how much work something was, whatever else the machine does.
namespace stator::observe {

/// The count of the calling thread in user space, since it first called this. Empty where nothing counts.
STATOR_API std::optional<int64_t> retired_instructions();

/// RAII: counts the instructions of a scope on its thread. Scopes nest: the outermost one adds its sum to the count
/// `instructions.compile`.
class STATOR_API InstructionScope {
 public:
  using Source = std::optional<int64_t> (*)();
  explicit InstructionScope(Source source = retired_instructions);
  ~InstructionScope();
  InstructionScope(const InstructionScope&) = delete;
  InstructionScope& operator=(const InstructionScope&) = delete;

  /// The instructions of this scope so far; empty where nothing counts.
  std::optional<int64_t> so_far() const;

 private:
  Source source_;
  std::optional<int64_t> start_;
};

}  // namespace stator::observe
