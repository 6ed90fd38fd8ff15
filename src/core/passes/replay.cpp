#include "core/passes/replay.h"

#include <ATen/core/List.h>

#include <algorithm>

#include "core/fake/composite.h"
#include "core/graph/control_ops.h"
#include "core/graph/uses.h"
#include "core/graph/verify.h"
#include "core/shapes/number_ops.h"

namespace stator::passes {

using graph::Argument;
using graph::kNoValue;
using graph::ValueId;

namespace {

const c10::Type& plain_type(const c10::Type& type) {
  if (type.kind() != c10::TypeKind::OptionalType) return type;
  return plain_type(*type.expectRef<c10::OptionalType>().getElementType());
}

bool is_tensor_type(const c10::Type& type) { return plain_type(type).kind() == c10::TypeKind::TensorType; }

bool is_symbolic(const c10::IValue& value) { return value.isSymInt() || value.isSymFloat() || value.isSymBool(); }

template <class T>
c10::IValue list_of(const std::vector<c10::IValue>& items) {
  c10::List<T> list;
  list.reserve(items.size());
  for (const c10::IValue& item : items) list.push_back(item.to<T>());
  return list;
}

c10::IValue number_list(const c10::Type& element, const std::vector<c10::IValue>& items) {
  switch (plain_type(element).kind()) {
    case c10::TypeKind::FloatType:
      return list_of<double>(items);
    case c10::TypeKind::NumberType:
      return list_of<at::Scalar>(items);
    case c10::TypeKind::BoolType:
      return list_of<bool>(items);
    default:
      if (std::none_of(items.begin(), items.end(), is_symbolic)) return list_of<int64_t>(items);
      break;
  }
  std::vector<c10::SymInt> numbers;
  for (const c10::IValue& item : items) numbers.push_back(item.toSymInt());
  return c10::SymIntArrayRef(numbers);
}

/// Whether the dispatcher cannot run the operator on fakes: it runs sub-graphs, or a Python callable.
bool is_opaque(const graph::Node& node) {
  const auto& declared = node.op.schema().arguments();
  return std::any_of(declared.begin(), declared.end(),
                     [](const auto& argument) { return argument.type()->kind() == c10::TypeKind::AnyType; });
}

}  // namespace

std::shared_ptr<graph::Graph> Replay::run() {
  for (uint32_t i = 0; i < from_.inputs.size(); ++i) visit_input(i);
  for (const graph::Node& node : from_.nodes) {
    builder_.enter(node);
    visit(node);
  }
  return builder_.finish(outputs());
}

void Replay::visit_input(uint32_t position) { now_[from_.inputs[position]] = builder_.add_input(from_, position); }

std::vector<ValueId> Replay::outputs() {
  std::vector<ValueId> made;
  for (ValueId id : from_.outputs) {
    const c10::IValue& now = now_.at(id);
    made.push_back(now.isTensor() ? builder_.operand(tensor(id)).value : builder_.number_value(now));
  }
  return made;
}

c10::IValue Replay::value(ValueId id, const c10::Type& type) {
  const c10::IValue& now = now_.at(id);
  TORCH_CHECK(!now.isNone(), "value ", id, " of ", from_.name, " is neither a tensor nor a number");
  if (is_tensor_type(type)) return now.isTensor() ? tensor(id) : builder_.boxed(now);
  return now.isTensor() ? builder_.item(tensor(id)) : now;
}

c10::IValue Replay::operand(const Argument& argument, const c10::Type& type) {
  if (argument.kind == Argument::Kind::Value) return value(argument.value, type);
  if (argument.kind == Argument::Kind::Constant) {
    const bool is_data = argument.constant.isTensor() && argument.constant.toTensor().defined();
    return is_data ? c10::IValue(builder_.constant(argument.constant.toTensor())) : argument.constant;
  }
  const auto& element = *plain_type(type).expectRef<c10::ListType>().getElementType();
  std::vector<c10::IValue> items;
  for (const Argument& item : argument.items) items.push_back(operand(item, element));
  if (!is_tensor_type(element)) return number_list(element, items);
  if (element.kind() == c10::TypeKind::OptionalType) {
    c10::List<std::optional<at::Tensor>> tensors;
    for (const c10::IValue& item : items)
      tensors.push_back(item.isNone() ? std::nullopt : std::optional(item.toTensor()));
    return tensors;
  }
  return list_of<at::Tensor>(items);
}

torch::jit::Stack Replay::operands(const graph::Node& node) {
  torch::jit::Stack stack;
  stack.reserve(node.args.size());
  for (size_t i = 0; i < node.args.size(); ++i)
    stack.push_back(operand(node.args[i], *node.op.schema().arguments()[i].type()));
  return stack;
}

void Replay::bind_results(const graph::Node& node, const torch::jit::Stack& results) {
  for (size_t i = 0; i < node.results.size(); ++i) {
    const graph::Result& result = node.results[i];
    if (!result.is_list) {
      if (result.values[0] == kNoValue) continue;
      if (results[i].isTensor())
        bind(result.values[0], results[i].toTensor());
      else
        now_[result.values[0]] = results[i];
      continue;
    }
    const auto tensors = results[i].toTensorVector();
    TORCH_CHECK(tensors.size() == result.values.size(), node.op.operator_name(), " gives ", tensors.size(),
                " tensors here, and gave ", result.values.size());
    for (size_t k = 0; k < tensors.size(); ++k)
      if (result.values[k] != kNoValue) bind(result.values[k], tensors[k]);
  }
}

void Replay::copy(const graph::Node& node) {
  if (shapes::is_number_op(node.op) && copy_number(node)) return;
  if (is_opaque(node) || shapes::is_number_op(node.op)) return copy_opaque(node);
  const bool is_data = node.op.operator_name().name == "aten::clone" && node.args[0].kind == Argument::Kind::Constant &&
                       node.args[0].constant.isTensor();
  if (is_data) return bind(node.results[0].values[0], builder_.add_constant(node.args[0].constant.toTensor()));
  torch::jit::Stack stack = operands(node);
  builder_.run(node.op, stack);
  bind_results(node, stack);
}

bool Replay::copy_number(const graph::Node& node) {
  const auto& element = *c10::NumberType::get();
  auto number = [&](size_t i) { return builder_.expression(operand(node.args[i], element)); };
  c10::IValue made;
  if (node.op == shapes::item_op()) {
    made = builder_.item(tensor(node.args[0].value));
  } else if (node.op == shapes::size_op()) {
    made = tensor(node.args[0].value).sym_size(node.args[1].constant.toInt());
  } else if (node.op == shapes::stride_op()) {
    made = tensor(node.args[0].value).sym_stride(node.args[1].constant.toInt());
  } else if (node.op == shapes::choose_op()) {
    shapes::Ex expr = builder_.symbols().apply(shapes::Op::Ite, number(0), number(1), number(2));
    TORCH_CHECK(expr != nullptr, "a choice that has no symbolic form");
    made = Builder::number(expr);
  } else if (node.op == shapes::number_op()) {
    const auto op = shapes::find_op(node.args[0].constant.toStringRef());
    TORCH_CHECK(op, "stator::number has no such operator");
    shapes::Ex expr = builder_.symbols().apply(*op, number(1), shapes::is_unary(*op) ? nullptr : number(2));
    TORCH_CHECK(expr != nullptr, "an expression that has no symbolic form");
    made = Builder::number(expr);
  } else {
    return false;
  }
  now_[node.results[0].values[0]] = made.isSymInt() && !made.toSymInt().is_symbolic()
                                        ? c10::IValue(made.toSymInt().guard_int(__FILE__, __LINE__))
                                        : made;
  return true;
}

Argument Replay::mapped(const c10::OperatorHandle& op, const Argument& argument) {
  if (argument.kind == Argument::Kind::Value) {
    const c10::IValue& now = now_.at(argument.value);
    return now.isTensor() ? builder_.operand(tensor(argument.value)) : builder_.number_operand(op, now);
  }
  if (argument.kind != Argument::Kind::List) return argument;
  std::vector<Argument> items;
  for (const Argument& item : argument.items) items.push_back(mapped(op, item));
  return Argument::of_list(std::move(items));
}

void Replay::copy_opaque(const graph::Node& node) {
  std::vector<Argument> args;
  for (const Argument& argument : node.args) args.push_back(mapped(node.op, argument));
  auto made = [&](ValueId id) -> at::Tensor {
    if (id == kNoValue) return {};
    const graph::ValueInfo& info = from_.values[id];
    TORCH_CHECK(info.type == graph::ValueType::Tensor && info.definition != graph::kNoDefinition, "a result of ",
                node.op.operator_name(), " that is not a tensor, or has no metadata");
    return fake_of(from_.definitions.meta(info.definition));
  };
  torch::jit::Stack results;
  for (const graph::Result& result : node.results) {
    if (!result.is_list) {
      results.emplace_back(made(result.values[0]));
      continue;
    }
    c10::List<at::Tensor> tensors;
    for (ValueId id : result.values) tensors.push_back(made(id));
    results.emplace_back(std::move(tensors));
  }
  builder_.record(node.op, std::move(args), results);
  bind_results(node, results);
}

namespace {

class Lowering final : public Replay {
 public:
  using Replay::Replay;

 private:
  void visit(const graph::Node& node) override {
    const bool is_data = std::any_of(node.args.begin(), node.args.end(), [](const Argument& argument) {
      return argument.kind == Argument::Kind::Constant && argument.constant.isTensor();
    });
    if (is_opaque(node) || shapes::is_number_op(node.op) || (is_data && node.op.operator_name().name == "aten::clone"))
      return copy(node);
    torch::jit::Stack stack = operands(node);
    const size_t mark = builder_.mark();
    try {
      builder_.observe([&] { fake::call_composite(node.op, &stack); }, /*with_casts=*/true);
    } catch (const std::exception&) {
      // A composite operator that looks at data stays one node.
      builder_.rollback(mark);
      return copy(node);
    }
    bind_results(node, stack);
  }
};

}  // namespace

std::shared_ptr<graph::Graph> lower(const graph::Graph& graph) {
  auto made = Lowering(graph).run();
  graph::ExecState plain;
  plain.grad_mode = false;
  made->states = {plain};
  for (graph::Node& node : made->nodes) node.state = 0;
  made->autocast_region_at_end = 0;
  graph::verify(*made);
  return made;
}

std::shared_ptr<graph::Graph> retrace(const graph::Graph& graph) {
  auto made = Replay(graph).run();
  if (graph.below) made->below = Replay(*graph.below).run();
  graph::verify(*made);
  return made;
}

}  // namespace stator::passes
