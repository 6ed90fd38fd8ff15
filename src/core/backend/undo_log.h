#pragma once

#include <ATen/core/Tensor.h>

#include <set>
#include <string>
#include <utility>
#include <vector>

#include "core/backend/backend.h"
#include "core/base/export.h"
#include "core/graph/graph.h"

namespace stator::graph {
class Aliasing;
}

namespace stator::backend {

/// Undoes the side effects of a graph run in which an operator raised, so that the program itself can run the same
/// lines again. Random draws and writes to small tensors are undone. A write to a large tensor is not, because saving
/// it would cost a copy in every call: it is an unrecoverable write.
class STATOR_API UndoLog {
 public:
  /// Reads the graph's fakes, so it must be made before they are dropped. `keeps_order`: the backend runs the nodes in
  /// their order, so that the last effect needs no undo. `checked`: so many nodes, the first ones, have been found not
  /// to raise before the graph runs.
  explicit UndoLog(const graph::Graph& graph, bool keeps_order = true, uint32_t checked = 0);

  /// The state that one run may have to restore. Empty for most graphs.
  struct Saved {
    std::vector<std::pair<c10::Storage, std::string>> storages;  // and their bytes
    at::Tensor random_state;
    bool is_complete = false;
  };
  Saved save(const std::vector<at::Tensor>& inputs) const;
  /// Whether `save` saves anything.
  bool saves() const { return saves_; }
  /// Whether the graph has no unrecoverable write.
  bool undoes_everything() const { return first_lasting_ >= fails_inside_.size() && !may_be_large_; }
  /// Undoes what a failed run wrote. False if a write remains that the program would do a second time.
  bool restore(const Saved& saved, const Failure& failure) const;

  /// The first node that raises, or may raise depending on its data, after the unrecoverable write `effect`. If
  /// `effect` is the node itself, it may raise during its own write. Both are past the last node if there is none.
  struct Hazard {
    uint32_t node, effect;
  };
  Hazard hazard() const { return hazard_; }
  /// The first unrecoverable write after the node `effect` that may raise. For backends that change the order.
  Hazard early_hazard() const { return early_hazard_; }
  /// Whether a number or an assumption may fail after an unrecoverable write.
  bool checks_late() const { return checks_late_; }
  /// Whether a number or an assumption may fail at all.
  bool checks() const { return checks_; }
  /// Whether the node may raise depending on its data.
  bool may_raise(uint32_t node) const { return raises_[node]; }

  /// Numbers that an earlier check has found to fit a dtype.
  using Fitting = std::set<std::pair<graph::ValueId, at::ScalarType>>;
  using Numbers = std::set<graph::ValueId>;

 private:
  void look_at(const graph::Graph& graph, const graph::Aliasing& aliasing, uint32_t index);
  /// The effect of this node is never undone.
  void lasts(uint32_t index);
  /// The node writes to memory of these inputs.
  void writes(const graph::Graph& graph, const std::vector<uint32_t>& inputs, uint32_t index);

  std::vector<std::pair<uint32_t, uint32_t>> written_;  // inputs, and the nodes that write to them first
  Fitting fitting_;
  Numbers from_sizes_;  // computed from backed sizes alone
  bool keeps_order_;
  uint32_t checked_;
  bool may_be_large_ = false;  // a written tensor has a symbolic size
  bool checks_ = false, checks_late_ = false;
  bool random_ = false;
  // Node indices of the first effect, of the first one that a plan must take for unrecoverable, and of the first one
  // that is never undone; past the last node if there is none. A write to a tensor of symbolic size is undone if the
  // tensor is small in that run, which no plan can rely on.
  uint32_t first_effect_, first_lasting_, first_unsaved_;
  Hazard hazard_, early_hazard_;
  uint32_t first_fallible_;
  size_t bytes_ = 0;                // total size of the storages written so far
  std::vector<bool> raises_;        // by node: it may raise depending on its data
  std::vector<bool> fails_inside_;  // by node: it writes, and may raise depending on its data
  bool saves_;
};

}  // namespace stator::backend
