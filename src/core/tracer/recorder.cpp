#include "core/tracer/recorder.h"

#include <ATen/core/List.h>

#include <algorithm>
#include <cmath>

#include "core/base/check.h"
#include "core/fake/fake_tensor.h"
#include "core/fake/rule.h"
#include "core/graph/aliasing.h"
#include "core/ops/operator_table.h"
#include "core/shapes/float_markers.h"
#include "core/shapes/sym_node.h"

namespace stator::tracer {

using graph::Argument;
using graph::kNoValue;
using graph::ValueId;

namespace {

const auto clone_op = c10::Dispatcher::singleton().findSchemaOrThrow("aten::clone", "");

bool is_plain_constant(const c10::IValue& v) {
  return v.isInt() || v.isNone() || v.isBool() || v.isDouble() || v.isIntList() || v.isString() || v.isDevice() ||
         v.isComplexDouble() || v.isDoubleList() || v.isBoolList() || v.isComplexDoubleList() || v.isPyObject();
}

bool is_plain_number(const c10::IValue& v) { return v.isInt() || v.isDouble() || v.isBool(); }

/// The expression of a symbolic number; null for anything else.
shapes::Expr expression_of(const c10::IValue& v) {
  if (v.isSymInt()) return shapes::expression_of(v.toSymInt());
  if (v.isSymFloat()) return shapes::expression_of(v.toSymFloat().toSymNodeImplUnowned());
  if (v.isSymBool()) return shapes::expression_of(v.toSymBool().toSymNodeImplUnowned());
  return nullptr;
}

/// The value that torch's bindings pass for a symbolic integer in a tensor's place; for a float they pass NaN.
constexpr int64_t kPlaceholder = 7777777;

bool is_placeholder(const at::Tensor& number) {
  return number.scalar_type() == at::kLong     ? *number.const_data_ptr<int64_t>() == kPlaceholder
         : number.scalar_type() == at::kDouble ? std::isnan(*number.const_data_ptr<double>())
                                               : false;
}

const char* why_unknown(const at::Tensor& tensor) {
  auto keys = tensor.key_set();
  if (keys.has(c10::DispatchKey::FuncTorchBatched) || keys.has(c10::DispatchKey::FuncTorchGradWrapper) ||
      keys.has(c10::DispatchKey::Functionalize)) {
    return "a functorch or functionalization wrapper as argument";
  }
  if (fake::is_fake(tensor)) return "a fake tensor that no recorded op made";
  return "a tensor that is not an input of the graph";
}

}  // namespace

void refuse(const c10::OperatorHandle& op, const std::string& why) {
  auto reason = c10::toString(op.operator_name()) + ": " + why;
  fake::poison(reason);
  throw fake::Unsupported(reason);
}

Recorder::Recorder(std::string graph_name, shapes::ShapeEnv* symbols) : env_(symbols) {
  graph_->name = std::move(graph_name);
}

ValueId Recorder::find(const at::Tensor& tensor) const {
  const ValueId* found = ids_.find(tensor.unsafeGetTensorImpl());
  return found ? *found : kNoValue;
}

ValueId Recorder::add_input(std::string name, const at::Tensor& fake) {
  auto id = static_cast<ValueId>(graph_->values.size());
  auto info = describe(id, fake);
  info.name = std::move(name);
  info.definition = graph_->definitions.add(id, fake);
  graph_->values.push_back(std::move(info));
  graph_->inputs.push_back(id);
  know(fake, id);
  learn_sizes(id, fake);
  if (fake.unsafeGetTensorImpl()->has_symbolic_sizes_strides()) symbols_.learn_strides(id, fake);
  return id;
}

void Recorder::add_constant(const at::Tensor& data, const at::Tensor& fake) {
  auto index = static_cast<uint32_t>(graph_->nodes.size());
  add_node(clone_op, {Argument::of_constant(data), Argument::of_constant({})});
  auto id = add_value(index, fake);
  graph_->nodes[index].results.push_back({false, {id}});
}

graph::Node& Recorder::add_node(const c10::OperatorHandle& op, std::vector<Argument> args) {
  auto& node = graph_->add_node(op);
  node.args = std::move(args);
  node.state = place_.state;
  node.location = place_.location;
  node.range = place_.range;
  node.region = place_.region;
  return node;
}

ValueId Recorder::add_value(uint32_t node, const at::Tensor& fake, graph::ValueType type) {
  auto id = static_cast<ValueId>(graph_->values.size());
  graph_->values.push_back(describe(id, fake));
  graph_->values.back().producer = node;
  graph_->values.back().type = type;
  if (type == graph::ValueType::Tensor) graph_->define(node, id, fake);
  know(fake, id);
  return id;
}

Argument Recorder::tensor_argument(const c10::OperatorHandle& op, const at::Tensor& tensor) {
  if (!tensor.defined()) return Argument::of_constant(tensor);
  if (auto id = current(tensor); id != kNoValue) return Argument::of_value(id);
  // A Python number in a tensor's place is passed as a new tensor that type promotion treats as a number.
  if (tensor.unsafeGetTensorImpl()->is_wrapped_number() && !fake::is_fake(tensor)) {
    if (!env_->symbols().empty() && is_placeholder(tensor)) {
      if (auto expr = number_in_place_of(tensor)) return number_argument(op, expr);
      refuse(op, kNumberAsTensor);
    }
    return Argument::of_constant(numbers_.shared(tensor));
  }
  if (auto id = resolve(op, tensor); id != kNoValue) return Argument::of_value(id);
  refuse(op, why_unknown(tensor));
}

Argument Recorder::argument(const c10::OperatorHandle& op, const c10::IValue& value) {
  if (value.isTensor()) return tensor_argument(op, value.toTensor());
  if (auto* markers = value.isDouble() ? shapes::FloatMarkers::current() : nullptr) {
    if (auto expr = markers->take(value.toDouble())) {
      if (!ops::has_trait(op, ops::FloatsKeepLayout)) refuse(op, "its results may depend on a float that changes");
      return number_argument(op, expr);
    }
  }
  if (is_plain_constant(value)) return Argument::of_constant(value);
  if (value.isTensorList()) {
    std::vector<Argument> items;
    auto list = value.toTensorList();
    items.reserve(list.size());
    for (size_t i = 0; i < list.size(); ++i) items.push_back(tensor_argument(op, list.get(i)));
    return Argument::of_list(std::move(items));
  }
  if (value.isOptionalTensorList()) {
    std::vector<Argument> items;
    for (const c10::IValue& item : value.toListRef()) {
      items.push_back(item.isNone() ? Argument::of_constant(item) : tensor_argument(op, item.toTensor()));
    }
    return Argument::of_list(std::move(items));
  }
  if (value.isList()) {
    auto items = value.toListRef();
    if (std::all_of(items.begin(), items.end(), is_plain_constant)) return Argument::of_constant(value);
    std::vector<Argument> numbers;
    for (const c10::IValue& item : items) {
      if (is_plain_number(item)) {
        numbers.push_back(Argument::of_constant(item));
      } else if (auto expr = expression_of(item)) {
        numbers.push_back(number_argument(op, expr));
      }
    }
    if (numbers.size() == items.size()) return Argument::of_list(std::move(numbers));
  }
  if (auto expr = expression_of(value)) return number_argument(op, expr);
  if (accepts(value)) return Argument::of_constant(value);
  refuse(op, "an argument of kind " + value.tagKind());
}

std::vector<Argument> Recorder::arguments(const c10::OperatorHandle& op, const torch::jit::Stack& stack) {
  std::vector<Argument> args;
  auto given = torch::jit::last(stack, op.schema().arguments().size());
  args.reserve(given.size());
  for (const auto& value : given) args.push_back(argument(op, value));
  return args;
}

void Recorder::learn_sizes(ValueId id, const at::Tensor& fake) {
  if (fake.defined() && fake.unsafeGetTensorImpl()->has_symbolic_sizes_strides()) symbols_.learn_sizes(id, fake);
}

std::vector<ValueId> Recorder::keep_sizes(const c10::OperatorHandle& op, const std::vector<Argument>& args) {
  std::vector<ValueId> changed;
  if (symbols_.empty() || !op.schema().is_mutable()) return changed;
  if (!op.hasTag(at::Tag::inplace_view) && op.operator_name().name != "aten::set_data") return changed;
  const auto& declared = op.schema().arguments();
  for (size_t i = 0; i < args.size(); ++i) {
    const bool is_written = declared[i].alias_info() != nullptr && declared[i].alias_info()->isWrite();
    if (!is_written && op.operator_name().name != "aten::set_data") continue;
    if (args[i].kind != Argument::Kind::Value) continue;
    for (shapes::Ex size : symbols_.sizes_of(args[i].value)) number_value(op, size);
    symbols_.forget_sizes(args[i].value);
    changed.push_back(args[i].value);
  }
  return changed;
}

bool Recorder::record(const c10::OperatorHandle& op, std::vector<Argument> args, const torch::jit::Stack& stack) {
  const auto& schema = op.schema();
  auto returns = torch::jit::last(stack, schema.returns().size());
  auto is_tensors = [](const c10::IValue& v) { return v.isTensor() || v.isTensorList(); };
  // The schemas of collectives name no writes.
  const bool may_write = schema.is_mutable() || std::string_view(schema.name()).starts_with("c10d::");
  if (!returns.empty() && std::none_of(returns.begin(), returns.end(), is_tensors) && !may_write) return false;
  const std::vector<ValueId> reshaped = keep_sizes(op, args);
  auto index = static_cast<uint32_t>(graph_->nodes.size());
  add_node(op, std::move(args));
  for (ValueId id : reshaped) learn_sizes(id, graph_->values[id].fake);
  try {
    record_results(op, index, returns);
  } catch (...) {
    rollback(index);
    throw;
  }
  return true;
}

void Recorder::record_results(const c10::OperatorHandle& op, uint32_t node, at::ArrayRef<c10::IValue> returns) {
  auto& results = graph_->nodes[node].results;
  results.reserve(returns.size());
  for (const auto& value : returns) {
    auto& result = results.emplace_back();
    if (value.isTensor()) {
      result.values.push_back(result_value(op, node, value.toTensor()));
    } else if (value.isTensorList()) {
      result.is_list = true;
      for (const at::Tensor& tensor : value.toTensorVector()) {
        result.values.push_back(result_value(op, node, tensor));
      }
    } else {
      result.values.push_back(kNoValue);
    }
  }
  if (op.schema().is_mutable()) define_written(node);
}

void Recorder::define_written(uint32_t node) {
  graph::for_each_written(graph_->nodes[node], [&](ValueId id) {
    const at::Tensor& fake = graph_->values[id].fake;
    if (const void* memory = graph::memory_of(fake)) written_.insert(memory);
    if (fake.defined() && graph_->definition_of(node, id) == graph::kNoDefinition) graph_->define(node, id, fake);
  });
}

ValueId Recorder::result_value(const c10::OperatorHandle& op, uint32_t node, const at::Tensor& tensor) {
  if (!tensor.defined()) return kNoValue;
  if (auto id = find(tensor); id != kNoValue) {
    returned(id, tensor);
    if (graph_->values[id].type == graph::ValueType::Tensor) graph_->define(node, id, tensor);
    return id;
  }
  if (!fake::is_fake(tensor) && !accepts(tensor)) refuse(op, "a result that is not a fake tensor");
  const auto id = add_value(node, tensor);
  learn_sizes(id, tensor);
  return id;
}

void Recorder::rollback(size_t mark) {
  auto& nodes = graph_->nodes;
  auto& values = graph_->values;
  STATOR_CHECK(mark <= nodes.size(), "cannot roll back to node ", mark);
  if (!symbols_.empty()) {
    symbols_.forget([&](ValueId id) { return values[id].producer != UINT32_MAX && values[id].producer >= mark; });
  }
  for (size_t n = mark; n < nodes.size(); ++n) {
    for (const auto& result : nodes[n].results) {
      for (ValueId id : result.values) {
        // An in-place result is an older value, which is kept.
        if (id == kNoValue || values[id].producer != n) continue;
        forget(id);
        // Inputs that were added later keep their ids, so this id becomes a hole.
        values[id] = {};
      }
    }
  }
  nodes.erase(nodes.begin() + static_cast<ptrdiff_t>(mark), nodes.end());
  auto is_hole = [&] {
    auto last = static_cast<ValueId>(values.size() - 1);
    return values[last].producer == UINT32_MAX && (graph_->inputs.empty() || graph_->inputs.back() != last);
  };
  while (!values.empty() && is_hole()) values.pop_back();
}

void AboveRecorder::adopt(const at::Tensor& fake, ValueId id) {
  kept_.push_back(fake);
  know(fake, id);
}

ValueId AboveRecorder::resolve(const c10::OperatorHandle&, const at::Tensor&) { return kNoValue; }

graph::ValueInfo AboveRecorder::describe(ValueId, const at::Tensor& fake) { return {{}, fake}; }

void AboveRecorder::forget(ValueId id) {
  auto& fake = graph().values[id].fake;
  unknow(fake.unsafeGetTensorImpl());
  kept_.push_back(std::move(fake));
}

}  // namespace stator::tracer
