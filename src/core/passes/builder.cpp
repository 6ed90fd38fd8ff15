#include "core/passes/builder.h"

#include <ATen/core/LegacyTypeDispatch.h>
#include <c10/core/InferenceMode.h>

#include <algorithm>

#include "core/base/check.h"
#include "core/fake/construct.h"
#include "core/fake/rule.h"
#include "core/fake/symbolic.h"
#include "core/ops/operator_table.h"
#include "core/shapes/current.h"
#include "core/shapes/number_ops.h"
#include "core/shapes/sym_node.h"
#include "core/tracer/tracer.h"

namespace stator::passes {

using graph::Argument;
using graph::Dim;
using graph::kNoValue;
using graph::ValueId;

namespace {

/// Ids from here on stand for constants while a call is recorded.
constexpr ValueId kConstants = UINT32_MAX / 2;

shapes::EnvPtr environment_of(const graph::Graph& graph) {
  for (graph::DefinitionId id = 0; id < graph.definitions.size(); ++id) {
    if (!graph.definitions.has_symbols(id)) continue;
    const graph::TensorMeta meta = graph.definitions.meta(id);
    for (const auto* dims : {&meta.sizes, &meta.strides})
      for (const Dim& dim : *dims)
        if (dim.symbol) return shapes::EnvPtr(dim.symbol->env);
  }
  return shapes::ShapeEnv::make();
}

fake::Dims dims_of(const std::vector<Dim>& dims) {
  fake::Dims result;
  for (const Dim& dim : dims) result.push_back(dim.symbol ? shapes::to_sym_int(dim.symbol) : c10::SymInt(dim.number));
  return result;
}

shapes::Type type_of(graph::ValueType type) {
  return type == graph::ValueType::Integer ? shapes::Type::Int
         : type == graph::ValueType::Float ? shapes::Type::Float
                                           : shapes::Type::Bool;
}

/// RAII: operators run on fakes, above autograd as in a trace (`hook`) or from where they are called.
class OnFakes {
 public:
  OnFakes(shapes::ShapeEnv* env, bool hook) : was_on_(tracer::set_hook(hook)), symbols_(env) {}
  ~OnFakes() { tracer::set_hook(was_on_); }
  OnFakes(const OnFakes&) = delete;

 private:
  const bool was_on_;
  shapes::EnvScope symbols_;
  fake::FakeScope fakes_;
};

void replace_constants(std::vector<Argument>& args, const std::vector<std::pair<at::Tensor, at::Tensor>>& data) {
  for (Argument& argument : args) {
    if (argument.kind == Argument::Kind::List) replace_constants(argument.items, data);
    if (argument.kind != Argument::Kind::Value || argument.value < kConstants) continue;
    argument = Argument::of_constant(data[argument.value - kConstants].second);
  }
}

}  // namespace

c10::OperatorHandle operator_named(const std::string& name) {
  const size_t dot = name.find('.');
  return c10::Dispatcher::singleton().findSchemaOrThrow(name.substr(0, dot).c_str(),
                                                        dot == std::string::npos ? "" : name.substr(dot + 1).c_str());
}

at::Tensor fake_of(const graph::TensorMeta& meta) {
  TORCH_CHECK(meta.strides.size() == meta.sizes.size(), "no fake for a tensor of another layout than strided");
  at::Tensor fake = fake::make_fake(dims_of(meta.sizes), dims_of(meta.strides), meta.dtype, meta.device);
  if (meta.requires_grad) fake.unsafeGetTensorImpl()->set_requires_grad(true);
  return fake;
}

Builder::Builder(const graph::Graph& like)
    : env_(environment_of(like)),
      recorder_(like.name, env_.get()),
      num_guards_(env_->guards().size()),
      was_poisoned_(fake::is_poisoned()) {
  const std::string reason = fake::install() + tracer::install();
  TORCH_CHECK(reason.empty(), "cannot run operators on fakes: ", reason);
  graph::Graph& made = recorder_.graph();
  made.states = like.states.empty() ? std::vector<graph::ExecState>(1) : like.states;
  made.locations = like.locations;
  made.ranges = like.ranges;
  made.autocast_region_at_end = like.autocast_region_at_end;
}

Builder::~Builder() {
  if (!was_poisoned_ && fake::is_poisoned()) (void)fake::take_poison();
}

at::Tensor Builder::input_fake(const graph::Graph& from, ValueId id) {
  const graph::ValueInfo& info = from.values[id];
  TORCH_CHECK(info.definition != graph::kNoDefinition, "input ", info.name, " has no metadata");
  const graph::TensorMeta meta = from.definitions.meta(info.definition);
  if (!info.fake.defined() || !info.fake.has_storage()) return fake_of(meta);
  // The fake may have changed since: sizes and strides are those of the definition.
  c10::Storage& storage = storages_[info.fake.storage().unsafeGetStorageImpl()];
  if (!storage) storage = fake::make_storage(info.fake.storage().sym_nbytes(), meta.device);
  c10::InferenceMode as_born(info.fake.is_inference());
  const c10::DispatchKeySet bits({c10::DispatchKey::Conjugate, c10::DispatchKey::Negative});
  at::Tensor fake = fake::make_over(storage, fake::keys_for(meta.device) | (info.fake.key_set() & bits), meta.dtype);
  fake::set_geometry(fake, dims_of(meta.sizes), dims_of(meta.strides), info.fake.sym_storage_offset());
  if (meta.requires_grad) fake.unsafeGetTensorImpl()->set_requires_grad(true);
  return fake;
}

c10::IValue Builder::add_input(const graph::Graph& from, size_t position) {
  const ValueId id = from.inputs.at(position);
  const graph::ValueInfo& info = from.values[id];
  if (graph::holds_number(info.type)) {
    shapes::Ex symbol = env_->add_unbacked(type_of(info.type));
    recorder_.add_number_input(info.name, symbol);
    return number(symbol);
  }
  TORCH_CHECK(info.type == graph::ValueType::Tensor, "an input of type ", graph::type_name(info.type));
  at::Tensor fake = input_fake(from, id);
  recorder_.add_input(info.name, fake);
  return fake;
}

at::Tensor Builder::add_constant(const at::Tensor& data) {
  at::Tensor fake = constants_.from_real(data);
  // Each copy has memory of its own.
  at::Tensor copy = fake::make_fake(fake.sym_sizes(), fake.sym_strides(), fake.scalar_type(), fake.device());
  recorder_.add_constant(data, copy);
  return copy;
}

at::Tensor Builder::constant(const at::Tensor& data) {
  if (!data.defined() || data.unsafeGetTensorImpl()->is_wrapped_number()) return data;
  for (const auto& [fake, known] : constant_data_)
    if (known.is_same(data)) return fake;
  const auto id = static_cast<ValueId>(kConstants + constant_data_.size());
  at::Tensor fake = constants_.from_real(data);
  constant_data_.emplace_back(fake, data);
  recorder_.adopt(fake, id);
  return fake;
}

void Builder::enter(const graph::Node& node) {
  recorder_.set_place({node.state, node.location, node.range, node.region});
  if (node.state < graph().states.size()) switcher_.enter(graph().states[node.state]);
}

std::vector<Argument> Builder::arguments(const c10::OperatorHandle& op, const torch::jit::Stack& stack) {
  auto args = recorder_.arguments(op, stack);
  if (!constant_data_.empty()) replace_constants(args, constant_data_);
  return args;
}

void Builder::run(const c10::OperatorHandle& op, torch::jit::Stack& stack) {
  if (ops::has_trait(op, ops::PlainSizes)) fake::check_symbols(op, stack);
  auto args = arguments(op, stack);
  {
    OnFakes scope(env_.get(), /*hook=*/true);
    op.callBoxed(&stack);
  }
  recorder_.record(op, std::move(args), stack);
}

at::Tensor Builder::call(const c10::OperatorHandle& op, std::vector<c10::IValue> args) {
  const auto& declared = op.schema().arguments();
  for (size_t i = args.size(); i < declared.size(); ++i) {
    STATOR_CHECK(declared[i].default_value(), "argument ", declared[i].name(), " of ", op.schema().name(),
                 " is needed");
    args.push_back(*declared[i].default_value());
  }
  run(op, args);
  return args.at(0).toTensor();
}

void Builder::observe(const std::function<void()>& calls, bool with_casts) {
  OnFakes scope(env_.get(), /*hook=*/false);
  at::AutoDispatchBelowADInplaceOrView below_autograd;
  c10::impl::ExcludeDispatchKeyGuard no_casts(with_casts ? c10::DispatchKeySet() : c10::autocast_dispatch_keyset);
  fake::ObserverScope seen(this);
  calls();
}

void Builder::before(const c10::OperatorHandle& op, const torch::jit::Stack& stack) { pending_ = arguments(op, stack); }

void Builder::after(const c10::OperatorHandle& op, const torch::jit::Stack& stack) {
  recorder_.record(op, std::move(pending_), stack);
}

void Builder::record(const c10::OperatorHandle& op, std::vector<Argument> args, const torch::jit::Stack& results) {
  recorder_.record(op, std::move(args), results);
}

c10::IValue Builder::number(shapes::Ex expr) {
  if (expr->is_constant()) {
    if (expr->type == shapes::Type::Float) return expr->constant.real();
    if (expr->type == shapes::Type::Bool) return expr->constant.truth();
    if (auto plain = expr->int_constant()) return *plain;
  }
  if (expr->type == shapes::Type::Float) return c10::SymFloat(shapes::to_node(expr));
  if (expr->type == shapes::Type::Bool) return c10::SymBool(shapes::to_node(expr));
  return shapes::to_sym_int(expr);
}

shapes::Ex Builder::expression(const c10::IValue& number) {
  if (number.isInt()) return env_->constant(number.toInt());
  if (number.isDouble()) return env_->constant(number.toDouble());
  if (number.isBool()) return env_->constant(number.toBool());
  if (number.isSymInt()) return shapes::expression_of(number.toSymInt()).get();
  if (number.isSymFloat()) return shapes::expression_of(number.toSymFloat().toSymNodeImplUnowned()).get();
  TORCH_CHECK(number.isSymBool(), "no number: ", number.tagKind());
  return shapes::expression_of(number.toSymBool().toSymNodeImplUnowned()).get();
}

c10::IValue Builder::item(const at::Tensor& fake) {
  const auto dtype = shapes::number_dtype(fake.scalar_type());
  TORCH_CHECK(dtype, "elements of ", fake.scalar_type(), " are not plain numbers");
  const auto type = *dtype == at::kLong     ? shapes::Type::Int
                    : *dtype == at::kDouble ? shapes::Type::Float
                                            : shapes::Type::Bool;
  shapes::Ex expr = env_->add_unbacked(type);
  recorder_.add_number(shapes::item_op(), {operand(fake)}, expr);
  return number(expr);
}

at::Tensor Builder::boxed(const c10::IValue& value) {
  if (value.isInt() || value.isDouble() || value.isBool()) return shapes::number_tensor(shapes::to_number(value));
  const ValueId id = recorder_.number_value(shapes::number_op(), expression(value));
  return graph().values[id].fake;
}

Argument Builder::operand(const at::Tensor& fake) const {
  const ValueId id = recorder_.find(fake);
  STATOR_CHECK(id < kConstants, "a tensor that is not a value of the graph");
  return Argument::of_value(id);
}

Argument Builder::number_operand(const c10::OperatorHandle& op, const c10::IValue& value) {
  if (value.isInt() || value.isDouble() || value.isBool() || value.isNone()) return Argument::of_constant(value);
  return Argument::of_value(recorder_.number_value(op, expression(value)));
}

ValueId Builder::number_value(const c10::IValue& value) {
  return recorder_.number_value(shapes::number_op(), expression(value));
}

std::shared_ptr<graph::Graph> Builder::finish(const std::vector<ValueId>& outputs) {
  // A guard that is added now would not be checked by the calls that use the graph.
  if (env_->guards().size() != num_guards_) fake::refuse("the pass depends on the values of symbolic sizes");
  auto made = recorder_.share_graph();
  made->outputs = outputs;
  return made;
}

}  // namespace stator::passes
