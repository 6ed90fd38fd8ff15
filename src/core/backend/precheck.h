#pragma once

#include <ATen/core/Tensor.h>

#include <memory>
#include <span>
#include <vector>

#include "core/backend/backend.h"
#include "core/backend/early_checks.h"
#include "core/base/export.h"

namespace stator::backend {

/// Runs the computations of a graph that may fail (`EarlyPart`) before a run of the whole graph, on copies of what they
/// write to. If they pass, they pass in the run too, in whichever order the backend computes. Immutable; `passes` is
/// thread-safe and needs no GIL.
class STATOR_API Precheck {
 public:
  explicit Precheck(EarlyPart part);
  /// `inputs`: those of the whole graph. Writes to none of them.
  bool passes(std::span<const at::Tensor> inputs) const;

 private:
  struct Input {
    uint32_t position;
    bool written, is_number;
  };
  std::vector<uint32_t> distinct_;  // inputs that must not share memory
  std::vector<Input> inputs_;
  std::unique_ptr<Executable> executable_;
};

/// Null for a graph without such a part.
STATOR_API std::unique_ptr<Precheck> make_precheck(const graph::Graph& graph);

}  // namespace stator::backend
