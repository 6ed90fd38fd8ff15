#include "core/tracer/tracer.h"

#include <torch/library.h>

#include <algorithm>

#include "core/base/check.h"
#include "core/base/fork_safe.h"
#include "core/fake/composite.h"
#include "core/fake/observer.h"
#include "core/fake/symbolic.h"
#include "core/graph/exec_state.h"
#include "core/ops/operator_table.h"
#include "core/shapes/float_markers.h"
#include "core/shapes/number_ops.h"
#include "core/shapes/sym_node.h"
#include "core/tracer/below.h"
#include "core/tracer/part.h"
#include "core/tracer/recorder.h"

namespace stator::tracer {

using graph::kNoValue;
using graph::ValueId;

namespace {

constexpr auto kModeKey = c10::DispatchKey::TESTING_ONLY_GenericMode;
thread_local Tracer* current = nullptr;
thread_local c10::impl::LocalDispatchKeySet keys_outside{
    c10::impl::PODLocalDispatchKeySet()};  // before the innermost TraceScope

/// Runs the operator on fakes; `below`, unless null, records what arrives below autograd. An operator with a composite
/// answer is one node in that list too.
void answer(const c10::OperatorHandle& op, c10::DispatchKeySet keys, torch::jit::Stack* stack,
            BelowRecorder* below = nullptr) {
  try {
    const auto* composite = fake::find_composite_answer(op, *stack);
    if (composite == nullptr && below == nullptr) return op.redispatchBoxed(keys, stack);
    if (composite == nullptr) {
      fake::ObserverScope seen(below);
      return op.redispatchBoxed(keys, stack);
    }
    if (composite->program != nullptr) {
      fake::ObserverScope seen(below);
      return fake::answer_composite(*composite, op, keys, stack);
    }
    if (below != nullptr) below->before(op, *stack);
    fake::answer_composite(*composite, op, keys, stack);
    if (below != nullptr) below->after(op, *stack);
  } catch (const c10::Error& error) {
    fake::note_error(error.what_without_backtrace());
    throw;
  }
}

/// Whether a functorch transform handles the operator first. The mode key stays set, so that the operators that the
/// transform calls arrive here again, and those on plain tensors are recorded.
bool is_for_functorch(c10::DispatchKeySet keys) {
  return c10::impl::tls_is_dispatch_key_included(c10::DispatchKey::FuncTorchDynamicLayerFrontMode) ||
         keys.has_any(
             c10::DispatchKeySet({c10::DispatchKey::FuncTorchGradWrapper, c10::DispatchKey::FuncTorchBatched}));
}

const auto unpack_op = c10::Dispatcher::singleton().findSchemaOrThrow("aten::_unpack_dual", "");
const auto item_op = c10::Dispatcher::singleton().findSchemaOrThrow("aten::item", "");

/// Refuses tensors that may have a forward-mode tangent. The fake of an input has none, even if the
/// input has one when the graph runs.
void refuse_unknown_tangent(const c10::OperatorHandle& op, const torch::jit::Stack& stack) {
  if (op == unpack_op && !stack.back().toTensor().defined()) refuse(op, "the tangent of an input");
}

bool is_read(const c10::OperatorHandle& op) { return op == item_op; }

/// Whether one of the tensors, also in lists, requires grad.
bool takes_gradient(at::ArrayRef<c10::IValue> values) {
  return std::any_of(values.begin(), values.end(), [](const c10::IValue& value) {
    if (value.isTensor()) return value.toTensor().defined() && value.toTensor().requires_grad();
    return value.isList() && takes_gradient(value.toListRef());
  });
}

at::Scalar scalar_of(c10::SymNode number) {
  if (number->is_int()) return c10::SymInt(std::move(number));
  if (number->is_float()) return c10::SymFloat(std::move(number));
  return c10::SymBool(std::move(number));
}

/// Whether the sizes are known to be equal for all data.
bool all_same(c10::SymIntArrayRef a, c10::SymIntArrayRef b) {
  return a.size() == b.size() && std::equal(a.begin(), a.end(), b.begin(), [](const auto& x, const auto& y) {
           // A number that may fail is the same as itself, although a comparison may fail.
           const bool are_symbols = x.is_heap_allocated() && y.is_heap_allocated();
           if (const auto expr = are_symbols ? shapes::expression_of(x) : nullptr)
             if (expr == shapes::expression_of(y)) return true;
           return shapes::known(x.sym_eq(y)).value_or(false);
         });
}

/// Forgets what an operator learned of symbolic numbers if it is not recorded: no run checks it then.
class FactsScope {
 public:
  explicit FactsScope(shapes::ShapeEnv& env) : env_(env), mark_(env.facts_mark()) {}
  ~FactsScope() {
    if (!kept_) env_.forget_facts(mark_);
  }
  FactsScope(const FactsScope&) = delete;
  void keep() { kept_ = true; }

 private:
  shapes::ShapeEnv& env_;
  const size_t mark_;
  bool kept_ = false;
};

bool same_geometry(const at::Tensor& a, const at::Tensor& b) {
  if (fake::is_symbolic(a) || fake::is_symbolic(b)) {
    return all_same(a.sym_sizes(), b.sym_sizes()) && all_same(a.sym_strides(), b.sym_strides()) &&
           all_same({a.sym_storage_offset()}, {b.sym_storage_offset()});
  }
  return a.sizes() == b.sizes() && a.strides() == b.strides() && a.storage_offset() == b.storage_offset();
}

}  // namespace

struct Tracer::Impl {
  shapes::EnvPtr env = shapes::ShapeEnv::make();
  AboveRecorder above;
  std::unique_ptr<BelowRecorder> below;  // null unless requested
  std::vector<size_t> below_starts;      // per node of the list above: index of its first node in the list below
  fake::FakeMode fakes;
  struct FactsMark {
    size_t nodes, facts;
  };
  std::vector<FactsMark> marks;  // for each mark of the caller, the facts at that time
  uint32_t location = 0;
  uint32_t range = 0;
  uint32_t marked_region = 0;   // that is open; 0: none
  uint32_t marked_regions = 0;  // how many were opened
  uint32_t state = 0;
  uint32_t region = 0;
  bool symbols = false;
  bool fixes_dtypes = false;
  bool for_compilers = false;
  bool refuses_gradients = false;
  std::optional<c10::OperatorHandle> failed;  // the operator that runs, or that threw
  const caffe2::TypeMeta dtype_at_start = c10::get_default_dtype();

  explicit Impl(std::string graph_name) : above(std::move(graph_name), env.get()) { enter_state(); }

  void enter_state() { state = above.graph().intern_state(graph::current_state(region)); }

  Place current_place() {
    if (!is_current(above.graph().states[state])) enter_state();
    return {state, location, range, marked_region};
  }

  bool has_other_dtype() const { return fixes_dtypes && c10::get_default_dtype() != dtype_at_start; }
  void fix_dtype(const c10::OperatorHandle& op, std::vector<graph::Argument>& args, const torch::jit::Stack& stack);
  c10::SymNode item(const at::Tensor& fake);
  /// Results at the probabilities 0 and 1 may be the operand itself, or have another layout: the graph rejects them.
  void check_probabilities(const c10::OperatorHandle& op, const std::vector<graph::Argument>& args);
  void call(const c10::OperatorHandle& op, c10::DispatchKeySet keys, torch::jit::Stack* stack);
  void call_both(const c10::OperatorHandle& op, c10::DispatchKeySet keys, torch::jit::Stack* stack);
  void rollback(size_t mark);
};

c10::SymNode Tracer::Impl::item(const at::Tensor& fake) {
  const auto& op = shapes::item_op();
  const auto id = fake.defined() ? above.find(fake) : kNoValue;
  if (id == kNoValue) refuse(op, "a tensor that is not a value of the graph");
  if (below || !symbols) refuse(op, "data leaves torch");
  const auto dtype = shapes::number_dtype(fake.scalar_type());
  if (!dtype) refuse(op, "a dtype whose elements are not plain numbers");
  if (!shapes::known(fake.sym_numel().sym_eq(1)).value_or(false)) refuse(op, "a tensor of more than one element");
  above.set_place(current_place());
  const auto type = *dtype == at::kLong     ? shapes::Type::Int
                    : *dtype == at::kDouble ? shapes::Type::Float
                                            : shapes::Type::Bool;
  shapes::Ex expr = env->add_unbacked(type);
  above.add_number(op, {graph::Argument::of_value(id)}, expr);
  return shapes::to_node(expr);
}

/// Whether an operand that is a tensor has a floating or complex dtype; empty if none is a tensor.
std::optional<bool> takes_floating(const graph::Graph& graph, const std::vector<graph::Argument>& args) {
  std::optional<bool> floating;
  for (const graph::Argument& arg : args) {
    if (arg.kind == graph::Argument::Kind::List) {
      if (const auto inner = takes_floating(graph, arg.items)) floating = floating.value_or(false) || *inner;
    } else if (arg.kind == graph::Argument::Kind::Value && graph.values[arg.value].type == graph::ValueType::Tensor) {
      const auto dtype = graph.values[arg.value].fake.scalar_type();
      floating = floating.value_or(false) || at::isFloatingType(dtype) || at::isComplexType(dtype);
    }
  }
  return floating;
}

void Tracer::Impl::fix_dtype(const c10::OperatorHandle& op, std::vector<graph::Argument>& args,
                             const torch::jit::Stack& stack) {
  if (stack.empty() || !stack.back().isTensor() || !stack.back().toTensor().defined()) return;
  const auto dtype = stack.back().toTensor().scalar_type();
  if (!at::isFloatingType(dtype) && !at::isComplexType(dtype)) return;
  const auto floating = takes_floating(above.graph(), args);
  if (floating.value_or(false)) return;
  const auto index = op.schema().argumentIndexWithName("dtype");
  if (!index || floating) refuse(op, "its dtype is the default one, which the program changed");
  graph::Argument& given = args[*index];
  if (given.kind == graph::Argument::Kind::Constant && given.constant.isNone())
    given = graph::Argument::of_constant(static_cast<int64_t>(dtype));
}

void Tracer::Impl::call(const c10::OperatorHandle& op, c10::DispatchKeySet keys, torch::jit::Stack* stack) {
  if (op.operator_name().name.starts_with("profiler::")) return op.redispatchBoxed(keys, stack);
  // A tensor where an operator takes a plain number: torch's bindings read it.
  if (symbols && !below && is_read(op)) {
    const auto number = scalar_of(item(stack->back().toTensor()));
    stack->back() = number;
    return;
  }
  if (refuses_gradients && at::GradMode::is_enabled() && takes_gradient(*stack))
    refuse(op, "a tensor that requires grad, where autograd records nothing");
  if (for_compilers && ops::has_trait(op, ops::DiffersInCompilers))
    refuse(op, "torch's compilers replace it by operators that compute something else");
  if (!env->symbols().empty()) {
    if (ops::has_trait(op, ops::PlainSizes)) fake::check_symbols(op, *stack);
    above.set_place(current_place());
  }
  if (below) return call_both(op, keys, stack);
  auto args = above.arguments(op, *stack);
  const shapes::FloatMarkers::Suspended no_markers;
  FactsScope facts(*env);
  failed = op;
  answer(op, keys, stack);
  failed.reset();
  if (has_other_dtype()) fix_dtype(op, args, *stack);
  refuse_unknown_tangent(op, *stack);
  above.set_place(current_place());
  check_probabilities(op, args);
  above.record(op, std::move(args), *stack);
  facts.keep();
}

void Tracer::Impl::check_probabilities(const c10::OperatorHandle& op, const std::vector<graph::Argument>& args) {
  constexpr std::string_view kNames[] = {"p", "dropout_p", "label_smoothing"};
  if (!ops::has_trait(op, ops::OpenProbability)) return;
  for (size_t i = 0; i < args.size(); ++i) {
    const bool is_one = std::ranges::find(kNames, op.schema().arguments()[i].name()) != std::end(kNames);
    if (!is_one || args[i].kind != graph::Argument::Kind::Value) continue;
    above.record(shapes::between_op(), {args[i], graph::Argument::of_constant(0.0), graph::Argument::of_constant(1.0)},
                 {});
  }
}

void Tracer::Impl::call_both(const c10::OperatorHandle& op, c10::DispatchKeySet keys, torch::jit::Stack* stack) {
  const size_t start = below->mark();
  auto args = above.arguments(op, *stack);
  try {
    below->set_place({0, location, range, 0});
    answer(op, keys, stack, below.get());
    refuse_unknown_tangent(op, *stack);
    above.set_place(current_place());
    if (above.record(op, std::move(args), *stack)) {
      below_starts.push_back(start);
    } else {
      below->rollback(start);
    }
  } catch (...) {
    below->rollback(start);
    throw;
  }
}

void Tracer::Impl::rollback(size_t mark) {
  above.rollback(mark);
  while (!marks.empty() && marks.back().nodes > mark) marks.pop_back();
  env->forget_facts(marks.empty() ? 0 : marks.back().facts);
  if (!below || mark >= below_starts.size()) return;
  below->rollback(below_starts[mark]);
  below_starts.resize(mark);
}

/// The dispatcher calls this for every operator while the mode key is in TLS.
struct Hook {
  static void run(const c10::OperatorHandle& op, c10::DispatchKeySet keys, torch::jit::Stack* stack) {
    auto below = keys & c10::DispatchKeySet(c10::DispatchKeySet::FULL_AFTER, kModeKey);
    if (is_for_functorch(keys)) return op.redispatchBoxed(below, stack);
    // The operators that a composite one calls arrive here in the same way. Inside of a `__torch_dispatch__` autograd
    // sees no operator, so composite ones are given to the class.
    if (keys.has(c10::DispatchKey::Python)) {
      const bool is_inside = current != nullptr && current->impl_->refuses_gradients;
      return op.redispatchBoxed(is_inside ? below - c10::autograd_dispatch_keyset_with_ADInplaceOrView : below, stack);
    }
    c10::impl::ExcludeDispatchKeyGuard inside(kModeKey);
    if (current != nullptr) return current->impl_->call(op, below, stack);
    // Autograd's threads inherit TLS but have no tracer; the tensors they make are unknown to it and refused later.
    answer(op, below, stack);
  }
};

/// An empty text, or why the key cannot be used.
static std::string register_hook() {
  try {
    // Lives as long as the process: unregistering during exit races with other libraries' destructors.
    auto* library = new torch::Library(torch::Library::IMPL, "_", kModeKey, __FILE__, __LINE__);
    library->fallback(torch::CppFunction::makeFromBoxedFunction<&Hook::run>());
    return {};
  } catch (const std::exception& error) {
    return std::string("the tracer's dispatch key is taken: ") + error.what();
  }
}

static auto& installed = *new ForkSafeOnce<std::string>;

std::string install() { return installed.get(register_hook); }

Tracer::Tracer(std::string graph_name) : impl_(std::make_unique<Impl>(std::move(graph_name))) {}

Tracer::~Tracer() = default;

Tracer* Tracer::running() { return current; }

void Tracer::record_for_compilers() { impl_->for_compilers = true; }

bool Tracer::refuse_gradients(bool refuse) { return std::exchange(impl_->refuses_gradients, refuse); }

void Tracer::record_below() {
  STATOR_CHECK(impl_->above.graph().values.empty(), "the list below begins with the trace");
  impl_->below = std::make_unique<BelowRecorder>(impl_->above.graph().name, impl_->env.get());
}

std::string Tracer::running_operator() const {
  return impl_->failed ? c10::toString(impl_->failed->operator_name()) : std::string();
}

bool Tracer::failed_by_data() const {
  return !impl_->failed || (ops::traits_of(*impl_->failed) & (ops::Fallible | ops::FallibleOnIntegers)) != 0;
}

void Tracer::forget_failure() { impl_->failed.reset(); }

void Tracer::fix_dtypes() { impl_->fixes_dtypes = true; }

void Tracer::allow_symbols() { impl_->symbols = true; }

at::Tensor Tracer::add_input(const at::Tensor& real, std::string name) { return add_input(real, std::move(name), {}); }

/// A stride of an input, which is neither 0 nor 1.
static c10::SymInt stride_symbol(shapes::ShapeEnv& env, const at::Tensor& real, const std::string& name, uint32_t input,
                                 uint32_t dim) {
  shapes::BackedSpec spec;
  spec.hint = real.stride(dim);
  spec.source = name + ".stride(" + std::to_string(dim) + ")";
  spec.tag = size_tag({input, kStrideTag + dim});
  spec.shared = false;
  return shapes::to_sym_int(env.add_backed(spec).expr);
}

/// A fake of the tensor with symbols for the sizes and strides that the layout names.
static at::Tensor symbolic_fake(shapes::ShapeEnv& env, fake::FakeMode& fakes, const at::Tensor& real,
                                const std::string& name, uint32_t input, const shapes::InputLayout& layout) {
  std::vector<c10::SymInt> sizes, strides(real.sym_strides().vec());
  for (uint32_t dim = 0; dim < real.dim(); ++dim) {
    if (!layout.sizes[dim]) {
      sizes.emplace_back(real.size(dim));
      continue;
    }
    if (!layout.unbacked.empty() && layout.unbacked[dim]) {
      sizes.push_back(shapes::to_sym_int(env.add_unbacked(shapes::Type::Int, {0, INT64_MAX}, /*is_size=*/true)));
      continue;
    }
    const auto bounds = layout.bounds.empty() ? shapes::InputLayout::Bounds() : layout.bounds[dim];
    shapes::BackedSpec spec;
    spec.hint = real.size(dim);
    spec.range = {bounds.low, bounds.high};
    spec.source = name + ".size(" + std::to_string(dim) + ")";
    spec.tag = size_tag({input, dim});
    spec.shared = false;  // equal sizes are guarded where an operator needs that
    sizes.push_back(shapes::to_sym_int(env.add_backed(spec).expr));
  }
  // A stride follows from one that is smaller, so that each pass over the dimensions makes at least one.
  std::vector<bool> is_made(layout.strides.size());
  for (uint32_t dim = 0; dim < is_made.size(); ++dim) {
    is_made[dim] = layout.strides[dim] < 0;
    if (layout.strides[dim] == shapes::InputLayout::kOwnSymbol)
      strides[dim] = stride_symbol(env, real, name, input, dim);
  }
  for (size_t pass = 0; pass < is_made.size(); ++pass)
    for (size_t dim = 0; dim < is_made.size(); ++dim) {
      const auto inner = static_cast<size_t>(layout.strides[dim]);
      if (is_made[dim] || !is_made[inner]) continue;
      strides[dim] = sizes[inner] * strides[inner];
      is_made[dim] = true;
    }
  return fakes.from_real(real, sizes, strides);
}

at::Tensor Tracer::add_input(const at::Tensor& real, std::string name, const shapes::InputLayout& layout) {
  const auto place = static_cast<uint32_t>(impl_->above.graph().inputs.size());
  STATOR_CHECK(layout.is_static() || takes_symbols(), "a symbolic size in a trace that takes none");
  auto fake = layout.is_static() ? impl_->fakes.from_real(real)
                                 : symbolic_fake(*impl_->env, impl_->fakes, real, name, place, layout);
  if (impl_->below) impl_->below->add_input(name, fake);
  impl_->above.add_input(std::move(name), fake);
  return fake;
}

c10::SymNode Tracer::add_number_input(std::string name) {
  if (impl_->below || !impl_->symbols) refuse(shapes::number_op(), "a number as an input");
  shapes::Ex expr = impl_->env->add_unbacked(shapes::Type::Float);
  impl_->above.add_number_input(std::move(name), expr);
  return shapes::to_node(expr);
}

c10::SymNode Tracer::add_number_input(std::string name, int64_t hint) {
  if (!takes_symbols()) refuse(shapes::number_op(), "a number as an input");
  shapes::BackedSpec spec;
  spec.hint = hint;
  spec.source = name;
  spec.tag = size_tag({static_cast<uint32_t>(impl_->above.graph().inputs.size()), kNumberTag});
  spec.is_size = spec.shared = false;
  shapes::Ex expr = impl_->env->add_backed(spec).expr;
  impl_->above.add_number_input(std::move(name), expr);
  return shapes::to_node(expr);
}

at::Tensor Tracer::add_constant(const at::Tensor& data) {
  STATOR_CHECK(!fake::is_fake(data) && !data.requires_grad() && data.is_non_overlapping_and_dense() &&
                   !data.is_conj() && !data.is_neg(),
               "a constant is plain, dense data");
  auto fake = impl_->fakes.from_real(data);
  impl_->above.set_place(impl_->current_place());
  impl_->above.add_constant(data, fake);
  if (impl_->below) {
    impl_->below_starts.push_back(impl_->below->mark());
    impl_->below->set_place({0, impl_->location, impl_->range, 0});
    impl_->below->add_constant(data, fake);
  }
  return fake;
}

ValueId Tracer::value_of(const at::Tensor& fake) const { return fake.defined() ? impl_->above.find(fake) : kNoValue; }

bool Tracer::adopt(const at::Tensor& fake) {
  const auto& made_by = impl_->above.graph().nodes;
  if (made_by.empty() || !fake::is_fake(fake)) return false;
  for (const auto& result : made_by.back().results)
    for (ValueId id : result.values) {
      if (id == kNoValue) continue;
      const at::Tensor& made = impl_->above.graph().values[id].fake;
      if (made.storage().unsafeGetStorageImpl() != fake.storage().unsafeGetStorageImpl() ||
          !same_geometry(made, fake) || made.dtype() != fake.dtype() || made.requires_grad() != fake.requires_grad())
        continue;
      impl_->above.adopt(fake, id);
      if (impl_->below) {
        if (auto same = impl_->below->find(made); same != kNoValue) impl_->below->adopt(fake, same);
      }
      return true;
    }
  return false;
}

void Tracer::add_call(const c10::OperatorHandle& op, const torch::jit::Stack& args, const torch::jit::Stack& results) {
  if (impl_->below) refuse(op, "a call that has no form below autograd");
  if (impl_->has_other_dtype()) refuse(op, "a call under a default dtype that the program changed");
  auto operands = impl_->above.arguments(op, args);
  impl_->above.set_place(impl_->current_place());
  impl_->above.record(op, std::move(operands), results);
}

void Tracer::add_control(const c10::OperatorHandle& op, std::vector<graph::Argument> args,
                         std::vector<at::Tensor> results) {
  if (impl_->below) refuse(op, "a node with sub-graphs has no form below autograd");
  impl_->above.set_place(impl_->current_place());
  impl_->above.record(op, std::move(args), {c10::IValue(std::move(results))});
}

graph::Argument Tracer::operand(const c10::OperatorHandle& op, const at::Tensor& fake) const {
  const ValueId id = value_of(fake);
  if (id == kNoValue) refuse(op, "a tensor that is not a value of the graph");
  return graph::Argument::of_value(id);
}

Tracer::Part Tracer::cut(size_t mark, c10::ArrayRef<at::Tensor> outputs) {
  STATOR_CHECK(!impl_->below, "a part has no form below autograd");
  std::vector<Output> values;
  for (const auto& output : outputs) values.emplace_back(value_of(output), output);
  Part part = copy_part(impl_->above.graph(), mark, values, impl_->current_place().state);
  impl_->rollback(mark);
  return part;
}

c10::SymNode Tracer::item(const at::Tensor& fake) { return impl_->item(fake); }

at::Tensor Tracer::number(const c10::SymNodeImpl* node) {
  const auto& op = shapes::number_op();
  const auto expr = shapes::expression_of(node);
  if (!expr) refuse(op, "a number of another kind");
  if (impl_->below) refuse(op, "a number that depends on data has no form below autograd");
  impl_->above.set_place(impl_->current_place());
  return impl_->above.graph().values[impl_->above.number_value(op, expr)].fake;
}

bool Tracer::takes_symbols() const { return impl_->symbols && !impl_->below; }

shapes::ShapeEnv& Tracer::symbols() { return *impl_->env; }

void Tracer::autocast_ended() {
  if (graph::in_autocast_block()) return;
  ++impl_->region;
  // The next node under autocast must not reuse a state of the previous region.
  impl_->enter_state();
}

void Tracer::set_location(uint32_t location) { impl_->location = location; }

void Tracer::open_range(std::string name) {
  auto& ranges = impl_->above.graph().ranges;
  ranges.push_back({std::move(name), impl_->range});
  impl_->range = static_cast<uint32_t>(ranges.size() - 1);
}

void Tracer::close_range() { impl_->range = impl_->above.graph().ranges[impl_->range].outer; }

bool Tracer::open_region() {
  if (impl_->marked_region != 0) return false;
  impl_->marked_region = ++impl_->marked_regions;
  return true;
}

void Tracer::close_region() { impl_->marked_region = 0; }

graph::Graph& Tracer::graph() { return impl_->above.graph(); }

std::shared_ptr<graph::Graph> Tracer::share_graph() { return impl_->above.share_graph(); }

std::shared_ptr<graph::Graph> Tracer::finish(c10::ArrayRef<at::Tensor> outputs) {
  auto graph = impl_->above.share_graph();
  // The program opens a range itself that does not end in the graph.
  for (uint32_t open = impl_->range; open != 0; open = graph->ranges[open].outer) graph->ranges[open].name.clear();
  for (const auto& output : outputs) {
    auto id = value_of(output);
    TORCH_CHECK_VALUE(id != kNoValue, "output ", graph->outputs.size(), " was not made by this tracer");
    graph->outputs.push_back(id);
  }
  graph->autocast_region_at_end = impl_->region;
  if (!impl_->below) return graph;
  graph->below = impl_->below->share_graph();
  graph->below->locations = graph->locations;
  graph->below->ranges = graph->ranges;
  for (const auto& output : outputs) {
    auto id = impl_->below->output(output);
    STATOR_CHECK(id != kNoValue, "an output that no operator below autograd made");
    graph->below->outputs.push_back(id);
  }
  return graph;
}

size_t Tracer::mark() const {
  const size_t nodes = impl_->above.mark();
  if (impl_->marks.empty() || impl_->marks.back().nodes < nodes)
    impl_->marks.push_back({nodes, impl_->env->facts_mark()});
  return nodes;
}

void Tracer::rollback(size_t mark) { impl_->rollback(mark); }

bool Tracer::is_written(const at::Tensor& tensor) const { return impl_->above.is_written(tensor); }

TraceScope::TraceScope(Tracer& tracer)
    : previous_(current),
      previous_keys_(std::exchange(keys_outside, c10::impl::tls_local_dispatch_key_set())),
      was_included_(c10::impl::tls_is_dispatch_key_included(kModeKey)),
      symbols_(tracer.impl_->symbols && !tracer.impl_->below ? tracer.impl_->env.get() : nullptr) {
  current = &tracer;
  c10::impl::tls_set_dispatch_key_included(kModeKey, true);
}

TraceScope::~TraceScope() {
  c10::impl::tls_set_dispatch_key_included(kModeKey, was_included_);
  current = previous_;
  keys_outside = previous_keys_;
}

OutsideScope::OutsideScope() : keys_(keys_outside) {}

bool set_hook(bool on) {
  const bool before = c10::impl::tls_is_dispatch_key_included(kModeKey);
  c10::impl::tls_set_dispatch_key_included(kModeKey, on);
  return before;
}

}  // namespace stator::tracer
