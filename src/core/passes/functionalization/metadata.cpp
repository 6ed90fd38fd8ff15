#include "core/passes/functionalization/functionalizer.h"

#include <string_view>

#include "core/passes/functionalization/twins.h"

namespace stator::passes {

using graph::Node;
using graph::ValueId;

/// From now on the value is another tensor.
void Functionalizer::replace_tensor(ValueId id, View* view) {
  views_[id] = view;
  if (input_fakes_.contains(id)) metadata_changes_.emplace_back(node_, id);
}

namespace {

enum class Change : uint8_t { Tensor, Storage, Size, View };  // to another tensor, storage, size, or view of itself

Change change_by(const Node& node) {
  const std::string_view name = node.op.operator_name().name;
  if (name == "aten::set_data") return Change::Tensor;
  if (name == "aten::set_") return node.args.size() == 2 ? Change::Tensor : Change::Storage;
  return name.starts_with("aten::resize") ? Change::Size : Change::View;
}

}  // namespace

bool Functionalizer::is_metadata_change(const Node& node) {
  return graph::changes_metadata(node) || node.op.operator_name().name == "aten::set_data";
}

void Functionalizer::change_metadata(const Node& node) {
  const ValueId self = node.args[0].value;
  switch (change_by(node)) {
    case Change::Storage:
      TORCH_CHECK(false, name_of(node.op), " gives a tensor a storage");
    case Change::Tensor: {
      View* source = views_.at(node.args[1].value);
      return replace_tensor(self, regions_.add_view(source, {}, regions_.read(source)));
    }
    case Change::Size:
      return change_size(node);
    case Change::View:
      return change_view(node);
  }
}

void Functionalizer::change_size(const Node& node) {
  const ValueId self = node.args[0].value;
  const View* view = views_.at(self);
  torch::jit::Stack stack = operands(node);
  const size_t mark = builder_.mark();
  const at::Tensor copy = builder_.call(operator_named("aten::clone"), {stack[0], c10::IValue()});
  stack[0] = copy;
  builder_.run(node.op, stack);
  if (Geometry::of(copy).same_layout(view->geometry)) return builder_.rollback(mark);
  TORCH_CHECK(view->parent == nullptr, name_of(node.op), " of a view");
  for (const View* other : views_)
    TORCH_CHECK(other == nullptr || other == view || other->region != view->region, name_of(node.op),
                " of a tensor that has views");
  result_.on_copies.push_back(name_of(node.op));
  replace_tensor(self, regions_.add_root(copy));
}

/// `t_` is `t`, and so on.
void Functionalizer::change_view(const Node& node) {
  const ValueId self = node.args[0].value;
  View* view = views_.at(self);
  const Twin* twin = find_twin(node.op);
  TORCH_CHECK(twin != nullptr, name_of(node.op), " has no form as a view");
  torch::jit::Stack stack = operands(node);
  const at::Tensor now = stack[0].toTensor();
  operands_.try_emplace(graph::memory_of(now), Operand{view, 0, false});
  called_ = &twin->op;
  args_ = stack;
  builder_.run(twin->op, stack);
  const at::Tensor made = stack[0].toTensor();
  replace_tensor(self, regions_.add_view(view, recipe_for(view, made), made));
}

void Functionalizer::change_inputs_metadata() {
  const auto resize = operator_named("aten::resize_");
  const auto copy_in_place = operator_named("aten::copy_");
  for (const auto& [node, self] : metadata_changes_) {
    builder_.enter(*node);
    const at::Tensor& input = input_fakes_.at(self);
    if (is_metadata_change(*node) && change_by(*node) != Change::Size) {
      torch::jit::Stack stack = operands(*node);
      stack[0] = input;
      builder_.run(node->op, stack);
      continue;
    }
    const at::Tensor now = regions_.read(views_[self]);
    builder_.call(resize, {input, c10::IValue(now.sym_sizes())});
    builder_.call(copy_in_place, {input, now, false});
  }
}

}  // namespace stator::passes
