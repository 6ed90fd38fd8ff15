// The part of FunctionTracer that the dispatcher calls.
#include <ATen/ops/clone.h>
#include <ATen/ops/item.h>
#include <ATen/ops/select.h>
#include <ATen/ops/tensor_split.h>
#include <c10/core/impl/LocalDispatchKeySet.h>
#include <c10/core/impl/TorchDispatchModeTLS.h>

#include <algorithm>

#include "core/fake/construct.h"
#include "core/fake/meta_tier.h"
#include "core/fake/symbolic.h"
#include "core/graph/exec_state.h"
#include "core/ops/operator_cache.h"
#include "core/shapes/number_ops.h"
#include "core/shapes/sym_node.h"
#include "core/tracer/function_values.h"

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
const auto dual_op = c10::Dispatcher::singleton().findSchemaOrThrow("aten::_make_dual", "");
const auto split_op =
    c10::Dispatcher::singleton().findSchemaOrThrow("aten::tensor_split", "tensor_indices_or_sections");
const auto item_op = c10::Dispatcher::singleton().findSchemaOrThrow("aten::item", "");  // the composite around it

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
  const bool is_in_place = name.starts_with("c10d::");
  facts.is_collective = is_in_place || (name.starts_with("_c10d_functional::") && fake::brings_meta_kernel(op));
  if (is_in_place) facts.is_free = false;  // its result may be a Work object alone
  const auto& arguments = op.schema().arguments();
  for (uint32_t i = 0; i < arguments.size(); ++i)
    if (is_in_place || (arguments[i].alias_info() != nullptr && arguments[i].alias_info()->isWrite()))
      facts.written.push_back(i);  // the schemas of c10d name no writes
  return facts;
}

auto& facts_cache = *new ops::OperatorCache<OperatorFacts>;

/// A Python number in a tensor's place.
bool is_number(const at::Tensor& tensor) {
  return tensor.unsafeGetTensorImpl()->is_wrapped_number() && !fake::is_fake(tensor);
}

bool is_wrapper(const at::Tensor& tensor) {
  return tensor.defined() && tensor.key_set().has_any(c10::DispatchKeySet(
                                 {c10::DispatchKey::FuncTorchBatched, c10::DispatchKey::FuncTorchGradWrapper,
                                  c10::DispatchKey::Functionalize, c10::DispatchKey::Python}));
}

at::Scalar scalar_for(c10::SymNode number) {
  if (number->is_int()) return c10::SymInt(std::move(number));
  if (number->is_float()) return c10::SymFloat(std::move(number));
  return c10::SymBool(std::move(number));
}

/// The composite reads the positions from the memory of a tensor. Here they are items, which may be nodes.
void split_at_items(torch::jit::Stack* stack) {
  const int64_t dim = torch::jit::pop(*stack).toInt();
  const at::Tensor positions = torch::jit::pop(*stack).toTensor(), self = torch::jit::pop(*stack).toTensor();
  TORCH_CHECK(positions.scalar_type() == at::kLong && positions.device().is_cpu() && positions.dim() <= 1,
              "tensor_split takes positions as a tensor of int64 on the CPU with one dimension at most");
  if (positions.dim() == 0) {
    stack->emplace_back(at::tensor_split_symint(self, positions.item().toSymInt(), dim));
    return;
  }
  std::vector<c10::SymInt> items;
  const int64_t count = positions.sym_size(0).guard_int(__FILE__, __LINE__);
  for (int64_t i = 0; i < count; ++i) items.push_back(positions.select(0, i).item().toSymInt());
  stack->emplace_back(at::tensor_split_symint(self, items, dim));
}

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
  recorder.set_place({state, host.locate ? host.locate(recorder.graph()) : 0, 0, 0});
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
  if (op == split_op && !is_inside) return split_at_items(stack);
  auto arguments = torch::jit::last(*stack, op.schema().arguments().size());
  if (!forbidden.empty() && !facts.is_free) [[unlikely]] {
    if (const std::string* message = forbidden_among(arguments)) return on_forbidden(op, keys, stack, *message);
  }
  if (!is_inside && any_tensor(arguments, may_be_foreign)) [[unlikely]] {
    if (host.foreign) bring_in_foreign(op, stack);
    const auto given = torch::jit::last(*stack, op.schema().arguments().size());
    find_copies(given);
    if (takes_subclass_value(given) && !c10::impl::TorchDispatchModeTLS::any_modes_set())
      return above_on_subclass(op, keys, stack);
  }
  const bool is_ordinary = !is_inside && !facts.is_lift && !any_tensor(arguments, is_wrapper);
  if (is_ordinary && any_tensor(arguments, is_outside)) bring_in(op, stack, true);
  if (!options.above || is_inside || facts.is_free || (!is_ordinary && !facts.is_lift))
    return is_inside ? op.redispatchBoxed(keys, stack) : pass_on(op, keys, stack);
  if (op == dual_op)
    refuse(
        TraceFailure::Kind::Unsupported,
        "aten::_make_dual: above autograd, a graph has no levels of forward-mode differentiation; use torch.func.jvp");
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
  const auto* composite = fake::find_composite_answer(op, *stack);
  if (composite != nullptr && composite->reads_memory) return as_one_node(*composite, op, keys, stack);
  if (composite == nullptr || options.mode != TraceMode::Symbolic)
    return facts_of(op).is_split ? run_composite(op, keys, stack) : op.redispatchBoxed(keys, stack);
  auto answer = [&] { run_or_specialise(op, stack, [&] { fake::answer_composite(*composite, op, keys, stack); }); };
  if (composite->program != nullptr || options.above || is_inside) return answer();
  record(op, stack, [&] {
    const Flag inside(is_inside);
    answer();
  });
}

void FunctionTracer::Impl::as_one_node(const fake::CompositeAnswer& composite, const c10::OperatorHandle& op,
                                       c10::DispatchKeySet keys, torch::jit::Stack* stack) {
  if (c10::GradMode::is_enabled() &&
      any_tensor(torch::jit::last(*stack, op.schema().arguments().size()),
                 [](const at::Tensor& tensor) { return tensor.defined() && tensor.requires_grad(); }))
    refuse(TraceFailure::Kind::Unsupported,
           c10::toString(op.operator_name()) + ": gradients of an operator that looks at the memory of its arguments");
  auto answer = [&] {
    if (options.mode == TraceMode::Real) return run_on_twins(op, stack);
    fake::answer_composite(composite, op, keys, stack);
  };
  if (options.above || is_inside) return answer();
  record(op, stack, [&] {
    const Flag inside(is_inside);
    answer();
  });
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

bool FunctionTracer::Impl::learn_writes(const c10::OperatorHandle& op, const torch::jit::Stack& stack) {
  if (known.empty()) return false;
  const OperatorFacts& facts = facts_of(op);
  const size_t count = op.schema().arguments().size();
  // What a collective gives depends on the other processes.
  if (!facts.is_random && !facts.is_collective && all_known(stack, count)) return true;
  for (const uint32_t i : facts.written)
    any_tensor(at::ArrayRef<c10::IValue>(stack[stack.size() - count + i]), [&](const at::Tensor& tensor) {
      if (tensor.defined() && tensor.has_storage()) known.erase(tensor.storage().unsafeGetStorageImpl());
      return false;
    });
  return false;
}

void FunctionTracer::Impl::learn_constants(at::ArrayRef<c10::IValue> results) {
  const auto is_large = [](const at::Tensor& tensor) { return tensor.defined() && tensor.numel() > kConstantElements; };
  if (any_tensor(results, is_large)) return;
  any_tensor(results, [&](const at::Tensor& tensor) {
    if (tensor.defined() && fake::twin_of(tensor).defined()) known.insert(tensor.storage().unsafeGetStorageImpl());
    return false;
  });
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
  const bool is_item = op == read_op || op == item_op;
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
           c10::toString(op.operator_name()) + ": a dtype whose elements are not plain numbers");
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
