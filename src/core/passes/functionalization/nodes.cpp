#include "core/passes/functionalization/functionalizer.h"

#include <algorithm>

#include "core/graph/control_ops.h"
#include "core/graph/uses.h"
#include "core/shapes/number_ops.h"

namespace stator::passes {

using graph::Argument;
using graph::Node;
using graph::ValueId;

std::string name_of(const c10::OperatorHandle& op) { return c10::toString(op.operator_name()); }

Functionalizer::Functionalizer(const graph::Graph& from, WriteBack write_back)
    : Replay(from), regions_(builder_), views_(from.values.size()), write_back_(write_back), groups_(from) {
  for (const Node& node : from.nodes)
    graph::for_each_written(node, [&](ValueId id) { written_groups_.insert(groups_.of(id)); });
}

// ---- inputs

void Functionalizer::visit_input(uint32_t position) {
  const ValueId id = from_.inputs[position];
  now_[id] = builder_.add_input(from_, position);
  if (!now_[id].isTensor()) return;
  const at::Tensor fake = now_[id].toTensor();
  input_fakes_.emplace(id, fake);
  const uint32_t group = groups_.of(id);
  const auto shares = std::count_if(from_.inputs.begin(), from_.inputs.end(),
                                    [&](ValueId other) { return groups_.of(other) == group; });
  const bool is_written = written_groups_.contains(group);
  if (is_written && (shares > 1 || Geometry::of(fake).overlaps()) && fake.has_storage()) {
    add_flat_input(position, fake);
    return;
  }
  View* root = regions_.add_root(fake);
  root->region->input = position;
  root->region->at_start = fake;
  views_[id] = root;
}

/// Inputs in one memory, or whose elements overlap, are views of a tensor that has each element of the memory once.
void Functionalizer::add_flat_input(uint32_t position, const at::Tensor& fake) {
  const ValueId id = from_.inputs[position];
  View*& flat = flat_[groups_.of(id)];
  if (flat == nullptr) {
    const auto bytes = fake.storage().sym_nbytes().maybe_as_int();
    TORCH_CHECK(bytes, "a write to inputs that share memory and have symbolic sizes");
    const auto count = static_cast<int64_t>(static_cast<size_t>(*bytes) / fake.dtype().itemsize());
    const auto as_strided = operator_named("aten::as_strided");
    flat = regions_.add_root(builder_.call(
        as_strided, {fake, std::vector<int64_t>{count}, std::vector<int64_t>{1}, c10::IValue(int64_t{0})}));
    flat->region->input = position;
    flat->region->at_start = flat->current;
  }
  views_[id] = regions_.add_view(flat, by_geometry(flat->geometry, Geometry::of(fake)), fake);
}

// ---- nodes

void Functionalizer::visit(const Node& node) {
  node_ = &node;
  called_ = &node.op;
  operands_.clear();
  num_tensors_ = 0;
  if (graph::is_control_op(node.op)) return control(node);
  if (node.op == shapes::distinct_op()) return keep_distinct(node);
  if (shapes::is_number_op(node.op)) return copy(node);
  for (const auto& declared : node.op.schema().arguments())
    TORCH_CHECK(declared.type()->kind() != c10::TypeKind::AnyType, name_of(node.op), " calls Python code");
  for (size_t i = 0; i < node.args.size(); ++i)
    graph::for_each_value(node.args[i], [&](ValueId id) { num_tensors_ += views_[id] != nullptr; });
  if (is_metadata_change(node)) return change_metadata(node);
  bool writes = false;
  graph::for_each_written(node, [&](ValueId) { writes = true; });
  writes ? write(node) : read_only(node);
}

/// The check is about the memory of inputs, not about their contents.
void Functionalizer::keep_distinct(const Node& node) {
  std::vector<Argument> items;
  graph::for_each_value(node.args[0], [&](ValueId id) {
    auto input = input_fakes_.find(id);
    items.push_back(builder_.operand(input != input_fakes_.end() ? input->second : tensor(id)));
  });
  builder_.record(node.op, {Argument::of_list(std::move(items))}, {});
}

void Functionalizer::read_only(const Node& node) {
  for (size_t i = 0; i < node.args.size(); ++i)
    graph::for_each_value(node.args[i], [&](ValueId id) {
      if (views_[id] == nullptr) return;
      if (const void* memory = graph::memory_of(tensor(id)))
        operands_.try_emplace(memory, Operand{views_[id], i, node.args[i].kind == Argument::Kind::List});
    });
  const bool is_data = node.op.operator_name().name == "aten::clone" && node.args[0].kind == Argument::Kind::Constant &&
                       node.args[0].constant.isTensor();
  if (is_data) return copy(node);
  args_ = operands(node);
  torch::jit::Stack stack = args_;
  builder_.run(node.op, stack);
  bind_results(node, stack);
}

void Functionalizer::control(const Node& node) {
  TORCH_CHECK(!graph::may_write(node.op), name_of(node.op), " writes to operands");
  const bool is_checkpoint = node.op == graph::control_op(graph::ControlOp::Checkpoint);
  TORCH_CHECK(!is_checkpoint || written_groups_.empty(), name_of(node.op), " in a graph that writes");
  Node copied = node;
  for (Argument& argument : copied.args) {
    if (argument.kind != Argument::Kind::Graph) continue;
    Functionalized part = functionalize(*argument.graph());
    TORCH_CHECK(part.mutations.empty(), name_of(node.op), " has a sub-graph that writes to its operands");
    result_.on_copies.insert(result_.on_copies.end(), part.on_copies.begin(), part.on_copies.end());
    argument = Argument::of_graph(std::move(part.graph));
  }
  copy(copied);
}

}  // namespace stator::passes
