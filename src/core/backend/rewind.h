#pragma once

#include <ATen/core/Tensor.h>

#include <set>
#include <string>
#include <utility>
#include <vector>

#include "core/base/export.h"
#include "core/graph/graph.h"

namespace stator::backend {

/// Undoes what a graph did to the world before one of its operators raised, so that the program itself can run the same
/// lines again. Random draws are undone, and writes to small tensors; a write to a large one would cost a copy on every
/// call, so that from there on there is no way back.
class STATOR_API Rewind {
 public:
  /// Looks at the graph's fakes, so before they are dropped.
  explicit Rewind(const graph::Graph& graph);

  /// What one run may have to put back. Empty for most graphs.
  struct Saved {
    std::vector<std::pair<c10::Storage, std::string>> storages;  // and their bytes
    at::Tensor random_state;
    bool is_whole = false;
  };
  Saved save(const std::vector<at::Tensor>& inputs) const;
  /// After the run raised in `failed_node`. False if something stays that the program would do twice.
  bool restore(const Saved& saved, uint32_t failed_node) const;

  /// The first node that raises, or may for the data it gets, on a way from which there is none back: after `effect`,
  /// or
  /// (`effect` is the node itself) half-way through a write of its own. Nodes past the last: there is none.
  struct Hazard {
    uint32_t node, effect;
  };
  Hazard hazard() const { return hazard_; }
  /// Whether a number or an assumption may fail where there is no way back.
  bool checks_late() const { return checks_late_; }

  /// Numbers that were found to fit a dtype.
  using Fitting = std::set<std::pair<graph::ValueId, at::ScalarType>>;

 private:
  void look_at(const graph::Graph& graph, uint32_t index);
  void writes(const graph::Graph& graph, const at::Tensor& target, uint32_t index);

  std::vector<std::pair<uint32_t, uint32_t>> written_;  // inputs, and the nodes that write to them first
  Fitting fitting_;
  bool checks_late_ = false;
  bool random_ = false;
  // Node indices, past the last node if there is none: of the first effect, and of the first that cannot be undone.
  uint32_t first_effect_, first_lasting_;
  Hazard hazard_;
  size_t bytes_ = 0;                // of the storages written so far
  std::vector<bool> fails_inside_;  // by node: it writes, and may raise for its data
  bool saves_;
};

}  // namespace stator::backend
