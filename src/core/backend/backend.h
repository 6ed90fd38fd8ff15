#pragma once

#include <ATen/core/Tensor.h>

#include <memory>
#include <optional>
#include <vector>

#include "core/base/export.h"
#include "core/graph/graph.h"

namespace stator::backend {

/// A graph made runnable. `run` is thread-safe, needs no GIL and may throw what the operators throw.
class STATOR_API Executable {
 public:
  virtual ~Executable() = default;
  /// `inputs`: one per graph input, consumed (moved from as soon as they are dead). Returns one per graph output.
  virtual std::vector<at::Tensor> run(std::vector<at::Tensor> inputs) const = 0;
};

/// The node that was running when the latest `Executable::run` on this thread that threw did so; kNoNode if it was
/// none of them (wrong number of inputs) or none has thrown yet.
inline constexpr uint32_t kNoNode = UINT32_MAX;
STATOR_API uint32_t failed_node();

/// The operator that raised, and the line of the program that called it.
struct FailedOp {
  uint32_t node = kNoNode;
  c10::OperatorName op;
  /// From the outermost caller, whose frame was captured, to the line of the call itself; each with its file, function
  /// and line. Empty for nodes that no program made.
  std::vector<graph::Location> lines;
};
/// What was running when the latest run on this thread that threw did so. None if that was a run of another graph, or
/// no operator had started. To be asked before the next run on this thread.
STATOR_API std::optional<FailedOp> failed_op(const graph::Graph& graph);

/// Replays the above-autograd list through cached operator handles: the slow, obviously right one.
STATOR_API std::unique_ptr<Executable> compile_reference(std::shared_ptr<const graph::Graph> graph);

}  // namespace stator::backend
