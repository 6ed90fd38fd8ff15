#include "core/passes/decompose.h"

#include "core/graph/uses.h"
#include "core/graph/verify.h"
#include "core/passes/decompositions/table.h"
#include "core/passes/replay.h"

namespace stator::passes {

using graph::Node;
using graph::ValueId;

namespace {

class Decomposer final : public Replay {
 public:
  Decomposer(const graph::Graph& from, const DecomposeOptions& options) : Replay(from), options_(options) {}

  Decomposed take(std::shared_ptr<graph::Graph> made) {
    result_.graph = std::move(made);
    return std::move(result_);
  }

 private:
  bool is_named(const Node& node) const {
    if (!options_.names) return true;
    const auto& name = node.op.operator_name();
    return options_.names->contains(name.name) || options_.names->contains(c10::toString(name));
  }

  bool is_plain(const Node& node) const {
    const auto& state = from_.states.at(node.state);
    if (!state.autocast.empty()) return false;
    bool needs_grad = false;
    for (const graph::Argument& argument : node.args)
      graph::for_each_value(argument, [&](ValueId id) {
        needs_grad = needs_grad || (now_[id].isTensor() && now_[id].toTensor().requires_grad());
      });
    return !state.grad_mode || !needs_grad;
  }

  /// Whether the results have the dtypes and sizes that the node's have. The decomposition is not used otherwise.
  bool gives_same(const Node& node, const torch::jit::Stack& results) const {
    for (size_t r = 0; r < node.results.size(); ++r) {
      const graph::Result& result = node.results[r];
      if (result.is_list || result.values[0] == graph::kNoValue) continue;
      const auto definition = from_.values[result.values[0]].definition;
      if (definition == graph::kNoDefinition || !results[r].isTensor()) continue;
      const graph::TensorMeta wanted = from_.definitions.meta(definition);
      const at::Tensor& made = results[r].toTensor();
      if (!made.defined() || made.scalar_type() != wanted.dtype) return false;
      if (static_cast<size_t>(made.dim()) != wanted.sizes.size()) return false;
    }
    return true;
  }

  void visit(const Node& node) override {
    if (!is_named(node) || !is_plain(node)) return copy(node);
    const Decomposition* decomposition = find_decomposition(node.op);
    if (decomposition == nullptr) {
      if (options_.names) ++result_.left[c10::toString(node.op.operator_name())];
      return copy(node);
    }
    torch::jit::Stack stack = operands(node);
    const size_t mark = builder_.mark();
    bool done = false;
    try {
      builder_.observe([&] { done = (*decomposition)(node.op, stack); });
    } catch (const std::exception&) {
      done = false;  // a composite that looks at data, or sizes that the decomposition does not take
    }
    if (!done || !gives_same(node, stack)) {
      builder_.rollback(mark);
      return copy(node);
    }
    ++result_.replaced[c10::toString(node.op.operator_name())];
    bind_results(node, stack);
  }

  const DecomposeOptions& options_;
  Decomposed result_;
};

}  // namespace

Decomposed decompose(const graph::Graph& graph, const DecomposeOptions& options) {
  constexpr int kMaxRounds = 8;  // a decomposition may call operators that have one
  Decomposed result;
  const graph::Graph* from = &graph;
  for (int round = 0; round < kMaxRounds; ++round) {
    Decomposer pass(*from, options);
    auto made = pass.run();
    Decomposed next = pass.take(std::move(made));
    size_t replaced = 0;
    for (const auto& [name, count] : next.replaced) {
      result.replaced[name] += count;
      replaced += count;
    }
    result.left = next.left;
    result.graph = std::move(next.graph);
    from = result.graph.get();
    if (replaced == 0) break;
  }
  graph::verify(*result.graph);
  return result;
}

}  // namespace stator::passes
