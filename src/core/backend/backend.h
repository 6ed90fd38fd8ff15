#pragma once

#include <ATen/core/Tensor.h>

#include <memory>
#include <optional>
#include <vector>

#include "core/base/export.h"
#include "core/graph/graph.h"

/// What a backend makes of a graph, and what it must say when a run fails. registry.h lists the backends.
namespace stator::backend {

inline constexpr uint32_t kNoNode = UINT32_MAX;

/// What a run had written when it threw. The caller undoes those writes, or learns that it cannot.
struct Failure {
  enum class Wrote : uint8_t {
    Nothing,     // no input was written and no random number drawn
    BeforeNode,  // what the nodes before `node` write, and perhaps a part of what `node` itself writes
    CannotTell,  // any write of the graph may have happened, in whole or in part
  };
  Wrote wrote = Wrote::CannotTell;
  uint32_t node = kNoNode;  // BeforeNode: the node of the graph that raised
};

/// A graph made runnable. Immutable: `run` is thread-safe and needs no GIL.
class STATOR_API Executable {
 public:
  virtual ~Executable() = default;
  /// `inputs`: one per graph input, consumed (moved from as soon as they are dead). Returns one tensor per graph
  /// output. Throws what the operators throw.
  virtual std::vector<at::Tensor> run(std::vector<at::Tensor> inputs) const = 0;
  /// What the latest failed `run` of this executable on the calling thread had written. Must be called before the next
  /// run on that thread.
  virtual Failure failure() const = 0;
};

/// The node that was running when the latest run of the reference executor on this thread threw; kNoNode if no node
/// was running (wrong number of inputs), or no run has thrown yet.
STATOR_API uint32_t failed_node();

/// The operator that raised, and the line of the program that called it.
struct FailedOp {
  uint32_t node = kNoNode;
  c10::OperatorName op;
  /// From the outermost caller, whose frame was captured, to the line of the call itself. Empty for nodes that were not
  /// captured from a program.
  std::vector<graph::Location> lines;
};
/// The operator that raised in the latest run of the reference executor that threw on this thread. None if that was a
/// run of another graph, or no operator had started. Valid until the next run on this thread.
STATOR_API std::optional<FailedOp> failed_op(const graph::Graph& graph);

/// Makes the reference executor of a graph that was recorded above autograd. It calls the nodes in order through cached
/// operator handles. Registered as "reference"; other backends are tested against it.
STATOR_API std::unique_ptr<Executable> compile_reference(std::shared_ptr<const graph::Graph> graph);

}  // namespace stator::backend
