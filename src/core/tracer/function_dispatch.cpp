// The part of FunctionTracer that the dispatcher calls.
#include <ATen/ops/clone.h>
#include <ATen/ops/empty_strided.h>
#include <ATen/ops/zero.h>
#include <c10/core/GradMode.h>
#include <c10/core/impl/LocalDispatchKeySet.h>
#include <c10/core/impl/TorchDispatchModeTLS.h>
#include <torch/csrc/autograd/variable.h>

#include <algorithm>

#include "core/fake/construct.h"
#include "core/fake/meta_tier.h"
#include "core/fake/symbolic.h"
#include "core/graph/exec_state.h"
#include "core/ops/operator_cache.h"
#include "core/shapes/number_ops.h"
#include "core/shapes/sym_node.h"
#include "core/tracer/function_impl.h"

namespace stator::tracer {

using graph::Argument;
using graph::kNoValue;
using graph::ValueId;

namespace {

/// The value of a constant is tracked only if it has at most this many elements.
constexpr int64_t kConstantElements = 1;

const auto lift_op = c10::Dispatcher::singleton().findSchemaOrThrow("aten::lift_fresh", "");
const auto lift_copy_op = c10::Dispatcher::singleton().findSchemaOrThrow("aten::lift_fresh_copy", "");
const auto read_op = c10::Dispatcher::singleton().findSchemaOrThrow("aten::_local_scalar_dense", "");

OperatorFacts find_facts(const c10::OperatorHandle& op) {
  using K = c10::DispatchKey;
  OperatorFacts facts{.schema = &op.schema()};
  const std::string_view name = op.schema().name();
  const auto& returns = op.schema().returns();
  const bool gives_tensors = std::ranges::any_of(
      returns, [](const c10::Argument& result) { return result.type()->str().find("Tensor") != std::string::npos; });
  facts.is_free = name.starts_with("profiler::") || (!returns.empty() && !gives_tensors && !op.schema().is_mutable() &&
                                                     !op.hasTag(at::Tag::data_dependent_output));
  facts.is_split = op.hasKernelForDispatchKey(K::CompositeImplicitAutograd) && !op.hasKernelForDispatchKey(K::CPU);
  facts.reads_data = op.hasTag(at::Tag::data_dependent_output);
  facts.is_random = op.hasTag(at::Tag::nondeterministic_seeded);
  facts.has_open_shape = op.hasTag(at::Tag::dynamic_output_shape);
  facts.is_lift = op == lift_op;
  facts.is_collective = name.starts_with("_c10d_functional::") && fake::brings_meta_kernel(op);
  const auto& arguments = op.schema().arguments();
  for (uint32_t i = 0; i < arguments.size(); ++i)
    if (arguments[i].alias_info() != nullptr && arguments[i].alias_info()->isWrite()) facts.written.push_back(i);
  return facts;
}

auto& facts_cache = *new ops::OperatorCache<OperatorFacts>;

bool is_outside(const at::Tensor& tensor) {
  if (!tensor.defined() || fake::is_fake(tensor)) return false;
  return !tensor.unsafeGetTensorImpl()->is_wrapped_number();
}

/// A Python number in a tensor's place.
bool is_number(const at::Tensor& tensor) {
  return tensor.unsafeGetTensorImpl()->is_wrapped_number() && !fake::is_fake(tensor);
}

bool is_wrapper(const at::Tensor& tensor) {
  return tensor.defined() && tensor.key_set().has_any(c10::DispatchKeySet(
                                 {c10::DispatchKey::FuncTorchBatched, c10::DispatchKey::FuncTorchGradWrapper,
                                  c10::DispatchKey::Functionalize, c10::DispatchKey::Python}));
}

/// A tensor that another library may have made as a fake.
bool may_be_foreign(const at::Tensor& tensor) {
  return tensor.defined() && tensor.unsafeGetTensorImpl()->is_python_dispatch() && !fake::is_fake(tensor);
}

template <class F>
bool any_tensor(at::ArrayRef<c10::IValue> values, const F& is) {
  for (const c10::IValue& value : values) {
    if (value.isTensor()) {
      if (is(value.toTensor())) return true;
    } else if (value.isList()) {
      for (const c10::IValue& item : value.toListRef())
        if (item.isTensor() && is(item.toTensor())) return true;
    }
  }
  return false;
}

/// The value with each tensor replaced by `map(tensor)`.
template <class F>
c10::IValue mapped(const c10::IValue& value, const F& map) {
  if (value.isTensor()) return map(value.toTensor());
  if (value.isTensorList()) {
    c10::List<at::Tensor> items;
    for (const at::Tensor& item : value.toTensorVector()) items.push_back(map(item));
    return items;
  }
  if (value.isOptionalTensorList()) {
    c10::List<std::optional<at::Tensor>> items;
    for (const c10::IValue& item : value.toListRef())
      items.push_back(item.isNone() ? std::nullopt : std::optional(map(item.toTensor())));
    return items;
  }
  return value;
}

/// Whether the call takes no fake, and gives tensors on the meta device.
bool is_on_meta(at::ArrayRef<c10::IValue> arguments) {
  bool has_meta = any_tensor(arguments, [](const at::Tensor& tensor) { return tensor.defined() && tensor.is_meta(); });
  for (const c10::IValue& value : arguments) has_meta = has_meta || (value.isDevice() && value.toDevice().is_meta());
  return has_meta && !any_tensor(arguments, [](const at::Tensor& tensor) { return fake::is_fake(tensor); });
}

/// RAII: operators run as plain kernels: no autograd, no modes, no fakes.
class PlainScope {
 public:
  PlainScope()
      : guard_(c10::default_included_set - c10::DispatchKeySet(c10::DispatchKey::ADInplaceOrView),
               c10::default_excluded_set | c10::autograd_dispatch_keyset_with_ADInplaceOrView |
                   c10::DispatchKeySet({c10::DispatchKey::Fake, kAboveKey})),
        unseen_(nullptr) {}

 private:
  c10::impl::ForceDispatchKeyGuard guard_;
  fake::ObserverScope unseen_;
};

void call_plain(const c10::OperatorHandle& op, torch::jit::Stack* stack) {
  const PlainScope plain;
  op.callBoxed(stack);
}

at::Scalar scalar_for(c10::SymNode number) {
  if (number->is_int()) return c10::SymInt(std::move(number));
  if (number->is_float()) return c10::SymFloat(std::move(number));
  return c10::SymBool(std::move(number));
}

class Flag {
 public:
  explicit Flag(bool& flag) : flag_(flag), previous_(flag) { flag = true; }
  ~Flag() { flag_ = previous_; }
  Flag(const Flag&) = delete;

 private:
  bool& flag_;
  const bool previous_;
};

}  // namespace

const OperatorFacts& facts_of(const c10::OperatorHandle& op) {
  const OperatorFacts* facts = facts_cache.find(op);
  return *(facts != nullptr ? facts : facts_cache.insert(find_facts(op)));
}

void FunctionTracer::Impl::refuse(TraceFailure::Kind kind, std::string message) {
  if (!failure) failure = TraceFailure{kind, message};
  fake::poison(message);
  throw fake::Unsupported(message);
}

void FunctionTracer::Impl::set_place() {
  if (options.above && !is_current(recorder.graph().states[state]))
    state = recorder.graph().intern_state(graph::current_state());
  recorder.set_place({state, host.locate ? host.locate(recorder.graph()) : 0, 0});
}

void FunctionTracer::Impl::above(const c10::OperatorHandle& op, c10::DispatchKeySet keys, torch::jit::Stack* stack) {
  if (is_paused) return op.redispatchBoxed(keys, stack);
  if (is_plain) return call_plain(op, stack);
  const OperatorFacts& facts = facts_of(op);
  if (op == read_op && is_number(stack->back().toTensor())) {
    // Torch passes a number to a mode of the program.
    const PlainScope plain;
    return op.callBoxed(stack);
  }
  auto arguments = torch::jit::last(*stack, op.schema().arguments().size());
  if (!is_inside && any_tensor(arguments, may_be_foreign)) [[unlikely]] {
    if (host.foreign) bring_in_foreign(op, stack);
    if (takes_subclass_value(torch::jit::last(*stack, op.schema().arguments().size())) &&
        !c10::impl::TorchDispatchModeTLS::any_modes_set())
      return above_on_subclass(op, keys, stack);
  }
  const bool is_ordinary = !is_inside && !facts.is_lift && !any_tensor(arguments, is_wrapper);
  if (is_ordinary && any_tensor(arguments, is_outside)) bring_in(op, stack, true);
  if (!options.above || is_inside || facts.is_free || (!is_ordinary && !facts.is_lift))
    return is_inside ? op.redispatchBoxed(keys, stack) : pass_on(op, keys, stack);
  if (host.decompose && host.decompose(op, stack)) return;
  if (facts.is_lift) return lift(op, stack);
  if (facts.reads_data) return read(op, stack);
  record(op, stack, [&] {
    const Flag inside(is_inside);
    pass_on(op, keys, stack);
  });
}

void FunctionTracer::Impl::pass_on(const c10::OperatorHandle& op, c10::DispatchKeySet keys, torch::jit::Stack* stack) {
  // Composites that look at plain sizes have programs for symbolic ones.
  const auto* composite = options.mode == TraceMode::Symbolic ? fake::find_composite_answer(op, *stack) : nullptr;
  if (composite == nullptr)
    return facts_of(op).is_split ? run_composite(op, keys, stack) : op.redispatchBoxed(keys, stack);
  if (composite->program != nullptr || options.above || is_inside)
    return fake::answer_composite(*composite, op, keys, stack);
  record(op, stack, [&] {
    const Flag inside(is_inside);
    fake::answer_composite(*composite, op, keys, stack);
  });
}

bool FunctionTracer::Impl::takes_subclass_value(at::ArrayRef<c10::IValue> arguments) const {
  return any_tensor(arguments, [&](const at::Tensor& tensor) {
    return tensor.defined() && tensor.unsafeGetTensorImpl()->is_python_dispatch() && recorder.find(tensor) != kNoValue;
  });
}

void FunctionTracer::Impl::above_on_subclass(const c10::OperatorHandle& op, c10::DispatchKeySet keys,
                                             torch::jit::Stack* stack) {
  const OperatorFacts& facts = facts_of(op);
  const auto arguments = torch::jit::last(*stack, op.schema().arguments().size());
  const bool needs_grad = c10::GradMode::is_enabled() && any_tensor(arguments, [](const at::Tensor& tensor) {
                            return tensor.defined() && tensor.requires_grad();
                          });
  if (facts.is_split && (needs_grad || !options.above)) return op.redispatchBoxed(keys, stack);
  if (facts.is_free) return run_on_subclass(op, keys, stack);
  if (needs_grad)
    refuse(TraceFailure::Kind::Unsupported,
           c10::toString(op.operator_name()) + ": gradients of a tensor subclass that is an input");
  if (host.decompose && host.decompose(op, stack)) return;
  bring_in(op, stack, false);
  if (facts.reads_data) return read(op, stack);
  record(op, stack, [&] { run_on_subclass(op, keys, stack); });
}

void FunctionTracer::Impl::run_on_subclass(const c10::OperatorHandle& op, c10::DispatchKeySet keys,
                                           torch::jit::Stack* stack) {
  if (options.mode == TraceMode::Real) return run_on_twins(op, stack);
  const Flag paused(is_paused);
  op.redispatchBoxed(keys, stack);
}

bool FunctionTracer::Impl::intercept(const c10::OperatorHandle& op, c10::DispatchKeySet keys,
                                     torch::jit::Stack* stack) {
  if (is_plain) {
    call_plain(op, stack);
    return true;
  }
  if (c10::impl::tls_is_dispatch_key_excluded(c10::DispatchKey::Python) || is_inside || is_paused) {
    if (options.mode != TraceMode::Real && !is_inside) return false;
    run(op, stack);
    return true;
  }
  if (keys.has(c10::DispatchKey::Python)) {
    op.redispatchBoxed(keys & c10::DispatchKeySet(c10::DispatchKeySet::FULL_AFTER, c10::DispatchKey::Fake), stack);
    return true;
  }
  const OperatorFacts& facts = facts_of(op);
  if (options.above && !facts.is_lift) {
    // Only operators that were called below autograd arrive here, from a handler of the program's.
    run(op, stack);
    return true;
  }
  if (host.decompose && host.decompose(op, stack)) return true;
  if (facts.is_lift) {
    lift(op, stack);
    return true;
  }
  if (facts.is_split) {
    op.redispatchBoxed(c10::DispatchKeySet(c10::DispatchKey::CPU), stack);
    return true;
  }
  bring_in(op, stack, false);
  if (facts.reads_data) {
    read(op, stack);
    return true;
  }
  record(op, stack, [&] { run(op, stack); });
  return true;
}

template <class Run>
void FunctionTracer::Impl::record(const c10::OperatorHandle& op, torch::jit::Stack* stack, const Run& run_it) {
  set_place();
  auto args = recorder.arguments(op, *stack);
  const OperatorFacts& facts = facts_of(op);
  const size_t first = stack->size() - op.schema().arguments().size();
  const bool may_know = !known.empty();
  const bool is_constant = may_know && !facts.is_random && all_known(*stack, stack->size() - first);
  if (may_know && !is_constant)
    for (const uint32_t i : facts.written)
      any_tensor(at::ArrayRef<c10::IValue>((*stack)[first + i]), [&](const at::Tensor& tensor) {
        if (tensor.defined() && tensor.has_storage()) known.erase(tensor.storage().unsafeGetStorageImpl());
        return false;
      });
  if (is_constant && options.mode != TraceMode::Real && !options.above) {
    run_on_twins(op, stack);
  } else {
    run_it();
  }
  const auto results = torch::jit::last(*stack, op.schema().returns().size());
  if (is_constant) {
    const bool is_small = !any_tensor(
        results, [](const at::Tensor& tensor) { return tensor.defined() && tensor.numel() > kConstantElements; });
    any_tensor(results, [&](const at::Tensor& tensor) {
      if (!tensor.defined() || !fake::twin_of(tensor).defined()) return false;
      auto* storage = tensor.storage().unsafeGetStorageImpl();
      if (is_small) known.insert(storage);
      return false;
    });
  }
  recorder.record(op, std::move(args), *stack);
}

void FunctionTracer::Impl::run(const c10::OperatorHandle& op, torch::jit::Stack* stack) {
  const auto arguments = torch::jit::last(*stack, op.schema().arguments().size());
  // Fakes of an outer trace in another mode have no twins.
  const bool has_twins = options.mode == TraceMode::Real && !any_tensor(arguments, [](const at::Tensor& tensor) {
                           return fake::is_fake(tensor) && !fake::twin_of(tensor).defined();
                         });
  if (has_twins) return run_on_twins(op, stack);
  if (!is_on_meta(torch::jit::last(*stack, op.schema().arguments().size()))) return run_on_fakes(op, stack);
  const PlainScope plain;
  op.callBoxed(stack);
}

void FunctionTracer::Impl::run_on_fakes(const c10::OperatorHandle& op, torch::jit::Stack* stack) {
  if (facts_of(op).is_collective) return fake::run_registered_meta(op, stack);
  // Only symbolic sizes or a refused operator need something other than the shape function.
  const bool is_symbolic = options.mode == TraceMode::Symbolic && fake::takes_symbols(fake::Args(op, stack));
  const bool is_refused = !is_symbolic && fake::tier_of(op).tier == fake::Tier::Refused;
  if (!is_symbolic && !is_refused) return fake::run_shape_function(op, stack);
  const bool was_poisoned = fake::is_poisoned();
  const size_t first = stack->size() - op.schema().arguments().size();
  const torch::jit::Stack given(stack->begin() + static_cast<ptrdiff_t>(first), stack->end());
  auto again = [&](auto method) {
    if (!was_poisoned) fake::take_poison();
    stack->resize(first);
    stack->insert(stack->end(), given.begin(), given.end());
    (this->*method)(op, stack);
  };
  try {
    return fake::run_shape_function(op, stack);
  } catch (const fake::Unsupported&) {
    const bool has_kernel = std::string_view(op.schema().name()).starts_with("aten::") && !facts_of(op).has_open_shape;
    if (!is_symbolic && !has_kernel) throw;
    if (is_symbolic) return again(&Impl::run_specialised);
    return again(&Impl::run_on_zeros);
  } catch (const std::exception& error) {  // c10::Error, or what Python's bindings made of it
    if (!is_symbolic || !fake::note_error(error.what())) throw;
    return again(&Impl::run_specialised);
  }
}

/// A plain integer for a symbolic one, which is guarded; none if it depends on data.
static std::optional<int64_t> specialised(shapes::ShapeEnv& env, const c10::SymInt& number) {
  if (!number.is_heap_allocated()) return number.as_int_unchecked();
  const auto expr = shapes::expression_of(number);
  if (!expr || expr->env != &env) return std::nullopt;
  return env.specialize(expr.get()).int64();
}

void FunctionTracer::Impl::specialise(const c10::OperatorHandle& op, torch::jit::Stack* stack) {
  auto plain = [&](c10::SymIntArrayRef numbers) {
    std::vector<int64_t> result;
    for (const c10::SymInt& number : numbers) {
      const auto value = specialised(*env, number);
      if (!value)
        refuse(TraceFailure::Kind::Unsupported,
               c10::toString(op.operator_name()) +
                   ": a size depends on data, and no shape function of this operator takes symbols");
      result.push_back(*value);
    }
    return result;
  };
  for (size_t i = stack->size() - op.schema().arguments().size(); i < stack->size(); ++i) {
    c10::IValue& value = (*stack)[i];
    if (value.isSymInt()) value = plain({value.toSymInt()})[0];
    if (value.isList() && !value.isIntList() && !value.toListRef().empty() && value.toListRef()[0].isSymInt())
      value = plain(value.toSymIntVector());
    any_tensor(at::ArrayRef<c10::IValue>(value), [&](const at::Tensor& tensor) {
      if (!tensor.defined() || !fake::is_symbolic(tensor)) return false;
      const auto sizes = plain(tensor.sym_sizes()), strides = plain(tensor.sym_strides());
      const auto offset = plain({tensor.sym_storage_offset()});
      const at::Tensor made = fake::make_over(tensor.storage(), tensor.key_set(), tensor.scalar_type());
      made.unsafeGetTensorImpl()->set_sizes_and_strides(sizes, strides, offset[0]);
      // The tensor stays what the program and autograd know.
      tensor.unsafeGetTensorImpl()->shallow_copy_from(made.getIntrusivePtr());
      recorder.refresh(tensor);
      return false;
    });
  }
}

void FunctionTracer::Impl::run_specialised(const c10::OperatorHandle& op, torch::jit::Stack* stack) {
  specialise(op, stack);
  fake::run_shape_function(op, stack);
}

void FunctionTracer::Impl::run_composite(const c10::OperatorHandle& op, c10::DispatchKeySet keys,
                                         torch::jit::Stack* stack) {
  if (options.mode != TraceMode::Symbolic || !facts_of(op).written.empty() || fake::is_poisoned())
    return fake::run_composite(op, keys, stack);
  const size_t first = stack->size() - op.schema().arguments().size();
  const torch::jit::Stack given(stack->begin() + static_cast<ptrdiff_t>(first), stack->end());
  const size_t mark = recorder.mark();
  try {
    op.redispatchBoxed(keys, stack);
  } catch (const std::exception& error) {
    if (!fake::note_error(error.what())) throw;
    fake::take_poison();
    recorder.rollback(mark);
    stack->resize(first);
    stack->insert(stack->end(), given.begin(), given.end());
    specialise(op, stack);
    op.redispatchBoxed(keys, stack);
  }
}

void FunctionTracer::Impl::run_on_zeros(const c10::OperatorHandle& op, torch::jit::Stack* stack) {
  if (op.schema().is_mutable()) fake::refuse(op, "no shape function");
  for (size_t i = stack->size() - op.schema().arguments().size(); i < stack->size(); ++i) {
    (*stack)[i] = mapped((*stack)[i], [&](const at::Tensor& tensor) {
      if (!fake::is_fake(tensor)) return tensor;
      const PlainScope plain;
      return at::empty_strided(tensor.sizes(), tensor.strides(), tensor.options()).zero_();
    });
  }
  {
    const PlainScope plain;
    op.callBoxed(stack);
  }
  for (size_t i = stack->size() - op.schema().returns().size(); i < stack->size(); ++i) {
    (*stack)[i] = mapped((*stack)[i], [&](const at::Tensor& result) {
      return result.defined() && fake::can_have_fake(result) ? fakes.from_real(result) : result;
    });
  }
}

void FunctionTracer::Impl::run_on_twins(const c10::OperatorHandle& op, torch::jit::Stack* stack) {
  const size_t count = op.schema().arguments().size();
  const bool has_subclass = takes_subclass_value(torch::jit::last(*stack, count));
  std::vector<std::pair<at::Tensor, at::Tensor>> given;  // (real, fake)
  for (size_t i = stack->size() - count; i < stack->size(); ++i) {
    (*stack)[i] = mapped((*stack)[i], [&](const at::Tensor& tensor) {
      at::Tensor real = fake::twin_of(tensor);
      if (!real.defined()) return tensor;
      given.emplace_back(real, tensor);
      return real;
    });
  }
  if (has_subclass) {
    const Flag as_is(is_plain);  // Python's handler gets the thread's keys back
    call_plain(op, stack);
  } else {
    call_plain(op, stack);
  }
  if (op.schema().is_mutable())
    for (const auto& [real, fake] : given) fake::follow_twin(fake, twins);
  for (size_t i = stack->size() - op.schema().returns().size(); i < stack->size(); ++i) {
    (*stack)[i] = mapped((*stack)[i], [&](const at::Tensor& result) {
      if (!result.defined()) return result;
      for (const auto& [real, fake] : given)
        if (real.is_same(result)) return fake;
      if (result.unsafeGetTensorImpl()->is_python_dispatch() && !given.empty() && !has_subclass)
        refuse(TraceFailure::Kind::Unsupported,
               c10::toString(op.operator_name()) + ": its result is a tensor subclass that the operator itself made");
      return fake::can_have_fake(result) && !fake::is_fake(result) ? twins.make(result) : result;
    });
  }
}

void FunctionTracer::Impl::lift(const c10::OperatorHandle& op, torch::jit::Stack* stack) {
  const at::Tensor data = stack->back().toTensor();
  if (!is_outside(data) && !data.unsafeGetTensorImpl()->is_wrapped_number()) {
    record(op, stack, [&] { run(op, stack); });
    return;
  }
  set_place();
  at::Tensor copy;
  {
    const PlainScope plain;
    copy = data.clone();
  }
  const at::Tensor source = attribute(data);
  at::Tensor made = twins.make(copy);
  if (data.unsafeGetTensorImpl()->is_wrapped_number()) made.unsafeGetTensorImpl()->set_wrapped_number(true);
  if (copy.numel() <= kConstantElements) known.insert(made.storage().unsafeGetStorageImpl());
  torch::jit::Stack results;
  results.emplace_back(made);
  recorder.record(lift_copy_op, {Argument::of_value(recorder.value_of(source))}, results);
  stack->back() = std::move(made);
}

void FunctionTracer::Impl::read(const c10::OperatorHandle& op, torch::jit::Stack* stack) {
  const size_t count = op.schema().arguments().size();
  if (all_known(*stack, count)) return run_on_twins(op, stack);
  const bool is_item = op == read_op;
  if (options.mode == TraceMode::Real ? options.refuse_reads : !is_item) {
    refuse(TraceFailure::Kind::DataRead,
           c10::toString(op.operator_name()) +
               ": the program asks for a value of a traced tensor. A graph cannot depend on data in this way: it is "
               "likely that the program has data-dependent control flow. Tracing with tracing_mode=\"symbolic\" may "
               "record the read as a node.");
  }
  set_place();
  if (!is_item) return run_on_twins(op, stack);
  const at::Tensor tensor = stack->back().toTensor();
  const auto dtype = shapes::number_dtype(tensor.scalar_type());
  if (!dtype)
    refuse(TraceFailure::Kind::Unsupported,
           c10::toString(op.operator_name()) + ": a dtype whose elements are no plain numbers");
  const auto type = *dtype == at::kLong     ? shapes::Type::Int
                    : *dtype == at::kDouble ? shapes::Type::Float
                                            : shapes::Type::Bool;
  const shapes::Ex expr = env->add_unbacked(type);
  auto args = recorder.arguments(op, *stack);
  recorder.add_number(shapes::item_op(), std::move(args), expr);
  if (options.mode == TraceMode::Real) return run_on_twins(op, stack);
  c10::SymNode node = shapes::to_node(expr);
  stack->back() = scalar_for(type != shapes::Type::Int && host.wrap_number ? host.wrap_number(node) : node);
}

void FunctionTracer::Impl::bring_in_foreign(const c10::OperatorHandle& op, torch::jit::Stack* stack) {
  for (size_t i = stack->size() - op.schema().arguments().size(); i < stack->size(); ++i)
    (*stack)[i] = mapped((*stack)[i], [&](const at::Tensor& tensor) {
      if (!may_be_foreign(tensor)) return tensor;
      const at::Tensor made = host.foreign(tensor);
      return made.defined() ? made : tensor;
    });
}

void FunctionTracer::Impl::bring_in(const c10::OperatorHandle& op, torch::jit::Stack* stack, bool is_above) {
  const size_t count = op.schema().arguments().size();
  if (!any_tensor(torch::jit::last(*stack, count), is_outside)) return;
  for (size_t i = stack->size() - count; i < stack->size(); ++i)
    (*stack)[i] = mapped((*stack)[i], [&](const at::Tensor& tensor) { return bring_in(op, tensor, is_above); });
}

at::Tensor FunctionTracer::Impl::bring_in(const c10::OperatorHandle& op, const at::Tensor& tensor, bool is_above) {
  if (!is_outside(tensor)) return tensor;
  if (options.mode == TraceMode::Real || options.allow_real) {
    if (recorder.current(tensor) != kNoValue) return tensor;
    return is_above && !fake::can_have_fake(tensor) ? tensor : attribute(tensor);
  }
  if (recorder.current(tensor) != kNoValue) return tensor;
  if (is_above && !options.above) return tensor;
  refuse(TraceFailure::Kind::RealTensor,
         c10::toString(op.operator_name()) +
             ": a real tensor from outside the traced function. In this mode every tensor must be an input: convert it "
             "to a fake one, pass it as an argument, or set _allow_non_fake_inputs=True to make it a constant.");
}

at::Tensor FunctionTracer::Impl::attribute(const at::Tensor& real) {
  if (const auto found = forbidden.find(real.unsafeGetTensorImpl()); found != forbidden.end())
    refuse(TraceFailure::Kind::Unsupported, found->second.message);
  Outside& tensor = outside[real.unsafeGetTensorImpl()];
  if (tensor.fake.defined()) return tensor.fake;
  if (outer != nullptr) {
    // A tensor from outside of both traces: the outer one has it as an attribute, which autograd finds.
    const at::Tensor fake = outer->attribute(real);
    outside[real.unsafeGetTensorImpl()] = {real, fake, {}, false};
    attributes.push_back(fake);
    recorder.add_input("", fake);
    return fake;
  }
  const bool has_fake = fake::can_have_fake(real);
  at::Tensor fake = !has_fake ? real : options.mode == TraceMode::Real ? twins.make(real) : fakes.from_real(real);
  tensor = {real, fake, real.requires_grad() && real.is_leaf() ? real.grad() : at::Tensor(), false};
  attributes.push_back(real);
  recorder.add_input("", fake);
  if (has_fake && real.requires_grad()) {
    // Gives the fake the gradient edge of the real tensor, so that `autograd.grad(loss, parameter)` finds the
    // parameter.
    fake.unsafeGetTensorImpl()->set_autograd_meta(nullptr);
    torch::autograd::impl::set_gradient_edge(fake, torch::autograd::impl::gradient_edge(real));
  }
  return fake;
}

bool FunctionTracer::Impl::is_known(const at::Tensor& tensor) const {
  if (!tensor.defined() || tensor.unsafeGetTensorImpl()->is_wrapped_number()) return true;
  return fake::is_fake(tensor) && known.contains(tensor.storage().unsafeGetStorageImpl());
}

bool FunctionTracer::Impl::all_known(const torch::jit::Stack& stack, size_t count) const {
  bool has_constant = false;
  const bool has_unknown = any_tensor(torch::jit::last(stack, count), [&](const at::Tensor& tensor) {
    has_constant = has_constant || (tensor.defined() && fake::is_fake(tensor));
    return !is_known(tensor);
  });
  return has_constant && !has_unknown;
}

}  // namespace stator::tracer
