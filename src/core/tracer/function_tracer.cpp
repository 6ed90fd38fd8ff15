#include "core/tracer/function_tracer.h"

#include <ATen/autocast_mode.h>
#include <c10/core/AutogradState.h>
#include <c10/core/impl/LocalDispatchKeySet.h>
#include <torch/library.h>

#include <algorithm>
#include <map>
#include <numeric>

#include "core/base/check.h"
#include "core/base/fork_safe.h"
#include "core/fake/construct.h"
#include "core/graph/exec_state.h"
#include "core/shapes/current.h"
#include "core/shapes/number_ops.h"
#include "core/shapes/sym_node.h"
#include "core/tracer/function_impl.h"

namespace stator::tracer {

using graph::kNoValue;
using graph::ValueId;

static thread_local FunctionTracer::Impl* recording = nullptr;
static thread_local FunctionTracer* innermost = nullptr;

FunctionTracer::Impl::Impl(std::string name, FunctionTracerOptions given, FunctionTracerHost functions)
    : options(given),
      host(std::move(functions)),
      outer(given.outer != nullptr ? given.outer->impl_.get() : nullptr),
      env(outer != nullptr ? outer->env : shapes::ShapeEnv::make()),
      recorder(std::move(name), env.get(), &host,
               {[this](const at::Tensor& fake) { return bring_in_fake(fake); },
                [this](shapes::Ex symbol) { return bring_in_symbol(symbol); }}) {
  if (!options.above) return;
  recorder.graph().states.clear();
  state = recorder.graph().intern_state(graph::current_state());
}

FunctionTracer::FunctionTracer(std::string graph_name, FunctionTracerOptions options, FunctionTracerHost host)
    : impl_(std::make_unique<Impl>(std::move(graph_name), options, std::move(host))) {}

FunctionTracer::~FunctionTracer() = default;

FunctionTracer* FunctionTracer::current() { return innermost; }

const FunctionTracerOptions& FunctionTracer::options() const { return impl_->options; }

namespace {

c10::SymInt symbol_for(shapes::ShapeEnv& env, int64_t hint, std::string source, bool is_size) {
  shapes::BackedSpec spec;
  spec.hint = hint;
  spec.source = std::move(source);
  spec.is_size = is_size;
  spec.shared = is_size;
  return shapes::to_sym_int(env.add_backed(spec).expr);
}

/// Expresses each stride as a product of sizes where the sizes at capture (the hints) allow it, from the innermost
/// dimension outwards. The others are symbols of their own, but for 0 and 1.
std::vector<c10::SymInt> strides_over(shapes::ShapeEnv& env, const at::Tensor& real,
                                      const std::vector<c10::SymInt>& sizes, const std::string& name) {
  std::vector<size_t> order(sizes.size());
  std::iota(order.rbegin(), order.rend(), 0);
  std::stable_sort(order.begin(), order.end(), [&](size_t a, size_t b) { return real.stride(a) < real.stride(b); });
  std::vector<c10::SymInt> strides(real.sym_strides().vec());
  std::map<int64_t, c10::SymInt> products;
  for (const size_t dim : order) {
    if (const auto found = products.find(real.stride(dim)); found != products.end()) {
      strides[dim] = found->second;
    } else if (real.stride(dim) > 1) {
      strides[dim] = symbol_for(env, real.stride(dim), name + ".stride(" + std::to_string(dim) + ")", false);
    }
    if (real.size(dim) > 1) products[real.stride(dim) * real.size(dim)] = strides[dim] * sizes[dim];
  }
  return strides;
}

std::vector<c10::SymInt> symbols_for(shapes::ShapeEnv& env, c10::IntArrayRef sizes, const std::string& name) {
  std::vector<c10::SymInt> symbols;
  for (const int64_t size : sizes)
    symbols.push_back(symbol_for(env, size, name + ".size(" + std::to_string(symbols.size()) + ")", true));
  return symbols;
}

c10::SymInt offset_for(shapes::ShapeEnv& env, const at::Tensor& real, const std::string& name) {
  const int64_t offset = real.storage_offset();
  return offset == 0 ? c10::SymInt(0) : symbol_for(env, offset, name + ".storage_offset()", false);
}

at::Tensor symbolic_input(shapes::ShapeEnv& env, fake::FakeMode& fakes, const at::Tensor& real,
                          const std::string& name) {
  const auto sizes = symbols_for(env, real.sizes(), name);
  const auto strides = strides_over(env, real, sizes, name);
  const at::Tensor fake = fakes.from_real(real, sizes, strides);
  fake::set_geometry(fake, sizes, strides, offset_for(env, real, name));
  return fake;
}

int64_t hint_of(const c10::SymInt& number) {
  if (!number.is_heap_allocated()) return number.as_int_unchecked();
  const shapes::Expr expr = shapes::expression_of(number);
  TORCH_CHECK(expr && expr->hint.int64(), "a size of an input depends on data");
  return *expr->hint.int64();
}

/// A fake of this trace for a fake of another trace, whose symbols this trace does not have.
at::Tensor of_other_trace(shapes::ShapeEnv& env, bool is_symbolic, const at::Tensor& fake, const std::string& name) {
  auto hints = [](c10::SymIntArrayRef numbers) {
    std::vector<int64_t> result;
    for (const c10::SymInt& number : numbers) result.push_back(hint_of(number));
    return result;
  };
  at::Tensor made = fake::make_over(fake.storage(), fake::keys_for(fake.device()), fake.scalar_type());
  made.unsafeGetTensorImpl()->set_sizes_and_strides(hints(fake.sym_sizes()), hints(fake.sym_strides()),
                                                    hint_of(fake.sym_storage_offset()));
  if (is_symbolic) {
    const auto sizes = symbols_for(env, made.sizes(), name);
    const auto strides = strides_over(env, made, sizes, name);
    fake::set_geometry(made, sizes, strides, offset_for(env, made, name));
  }
  if (fake.requires_grad()) made.requires_grad_(true);
  return made;
}

/// A fake of a tensor on the meta device, which has no storage that others could share.
at::Tensor of_meta(shapes::ShapeEnv& env, bool is_symbolic, const at::Tensor& meta, const std::string& name) {
  const c10::InferenceMode as_born(meta.is_inference());
  at::Tensor made = fake::make_over(fake::make_storage(meta.storage().sym_nbytes(), meta.device()),
                                    fake::keys_for(meta.device()), meta.scalar_type());
  const std::vector<c10::SymInt> sizes = is_symbolic ? symbols_for(env, meta.sizes(), name) : meta.sym_sizes().vec();
  fake::set_geometry(made, sizes, is_symbolic ? strides_over(env, meta, sizes, name) : meta.sym_strides().vec(),
                     is_symbolic ? offset_for(env, meta, name) : meta.sym_storage_offset());
  if (meta.requires_grad()) made.requires_grad_(true);
  return made;
}

/// A tensor of a layout that fakes do not have. What operators compute of it is used for metadata only.
at::Tensor surrogate_of(const at::Tensor& real) {
  const c10::InferenceMode as_born(real.is_inference());
  at::Tensor made = real.detach().clone();
  if (real.requires_grad()) made.requires_grad_(true);
  return made;
}

}  // namespace

at::Tensor FunctionTracer::add_input(const at::Tensor& real, std::string name) {
  const fake::MetaBitScope meta_bit;
  auto& outside = impl_->outside;
  const bool has_fake = fake::can_have_fake(real) && !fake::is_fake(real);
  at::Tensor fake = real;
  if (const auto known = outside.find(real.unsafeGetTensorImpl()); known != outside.end()) {
    fake = known->second.fake;
  } else if (impl_->outer != nullptr && fake::is_fake(real)) {
    fake = real;
  } else if (fake::is_fake(real) &&
             (real.unsafeGetTensorImpl()->has_symbolic_sizes_strides() || impl_->options.mode == TraceMode::Symbolic)) {
    fake = of_other_trace(*impl_->env, impl_->options.mode == TraceMode::Symbolic, real, name);
  } else if (has_fake && impl_->options.mode == TraceMode::Real) {
    fake = impl_->twins.make(real);
    if (real.requires_grad()) fake.requires_grad_(true);
  } else if (has_fake && impl_->options.mode == TraceMode::Symbolic) {
    fake = symbolic_input(*impl_->env, impl_->fakes, real, name);
  } else if (has_fake) {
    fake = impl_->fakes.from_real(real);
  } else if (real.is_meta() && impl_->options.mode != TraceMode::Real) {
    fake = of_meta(*impl_->env, impl_->options.mode == TraceMode::Symbolic, real, name);
  } else if (real.layout() != at::kStrided && impl_->options.mode != TraceMode::Real) {
    fake = surrogate_of(real);
  }
  outside.try_emplace(real.unsafeGetTensorImpl(), Impl::Outside{real, fake, {}, true});
  impl_->learn_offset(fake, impl_->recorder.add_input(std::move(name), fake));
  return fake;
}

at::Tensor FunctionTracer::add_input(const at::Tensor& foreign, const FakeGeometry& geometry, const at::Tensor& base,
                                     std::string name, bool is_attribute) {
  const fake::MetaBitScope meta_bit;
  const c10::InferenceMode as_born(foreign.is_inference());
  auto [entry, is_new] = impl_->outside.try_emplace(foreign.unsafeGetTensorImpl());
  if (is_new) {
    c10::SymInt bytes = geometry.offset + 1;
    for (size_t dim = 0; dim < geometry.sizes.size(); ++dim)
      bytes = bytes + (geometry.sizes[dim] - 1) * geometry.strides[dim];
    const c10::Storage storage =
        base.defined() ? base.storage() : fake::make_storage(bytes * foreign.itemsize(), foreign.device());
    const c10::DispatchKeySet bits({c10::DispatchKey::Conjugate, c10::DispatchKey::Negative});
    at::Tensor fake =
        fake::make_over(storage, fake::keys_for(foreign.device()) | (foreign.key_set() & bits), foreign.scalar_type());
    fake::set_geometry(fake, geometry.sizes, geometry.strides, geometry.offset);
    if (foreign.requires_grad()) fake.requires_grad_(true);
    entry->second = Impl::Outside{foreign, fake, {}, !is_attribute};
    if (is_attribute) impl_->attributes.push_back(foreign);
  } else if (is_attribute) {
    return entry->second.fake;
  }
  impl_->learn_offset(entry->second.fake, impl_->recorder.add_input(std::move(name), entry->second.fake));
  return entry->second.fake;
}

void FunctionTracer::add_subclass_input(const at::Tensor& real, const at::Tensor& made, std::string name) {
  impl_->outside.try_emplace(real.unsafeGetTensorImpl(), Impl::Outside{real, made, {}, true});
  impl_->recorder.add_input(std::move(name), made);
}

at::Tensor FunctionTracer::fake_of(const at::Tensor& real, const std::string& name) {
  const fake::MetaBitScope meta_bit;
  const bool is_symbolic = impl_->options.mode == TraceMode::Symbolic;
  if (real.is_meta()) return of_meta(*impl_->env, is_symbolic, real, name);
  return is_symbolic ? symbolic_input(*impl_->env, impl_->fakes, real, name) : impl_->fakes.from_real(real);
}

void FunctionTracer::call_on_subclass(const c10::OperatorHandle& op, torch::jit::Stack* stack) {
  impl_->call_on_subclass(op, stack);
}

bool FunctionTracer::find_copy(const at::Tensor& tensor) { return impl_->find_copy(tensor); }

void FunctionTracer::forbid(const at::Tensor& tensor, std::string message) {
  if (impl_->recorder.find(tensor) != kNoValue) return;
  impl_->forbidden.try_emplace(
      tensor.unsafeGetTensorImpl(),
      Impl::Forbidden{c10::weak_intrusive_ptr<c10::TensorImpl>(tensor.getIntrusivePtr()), std::move(message)});
}

size_t FunctionTracer::position() const { return impl_->recorder.mark(); }

void FunctionTracer::Impl::asserted(shapes::Ex truth) {
  if (is_paused) return;
  const auto op = c10::Dispatcher::singleton().findSchemaOrThrow("aten::_assert_scalar", "");
  set_place();
  torch::jit::Stack stack;
  stack.emplace_back(at::Scalar(c10::SymBool(shapes::to_node(truth))));
  stack.emplace_back("Runtime assertion failed: " + shapes::to_python(truth));
  auto arguments = recorder.arguments(op, stack);
  stack.clear();
  recorder.record(op, std::move(arguments), stack);
}

c10::SymInt FunctionTracer::add_symbol(int64_t hint, std::string source) {
  shapes::BackedSpec spec;
  spec.hint = hint;
  spec.source = std::move(source);
  return shapes::to_sym_int(impl_->env->add_backed(spec).expr);
}

void FunctionTracer::add_gradients() {
  const fake::MetaBitScope meta_bit;
  std::vector<Impl::Outside*> with_gradient;
  for (auto& [impl, tensor] : impl_->outside)
    if (tensor.real.requires_grad() && tensor.real.is_leaf() && tensor.real.grad().defined())
      with_gradient.push_back(&tensor);
  // Attributes are numbered as they are added, so they are added in the order of the inputs.
  std::ranges::sort(with_gradient, {}, [&](const Impl::Outside* tensor) { return impl_->recorder.find(tensor->fake); });
  for (Impl::Outside* tensor : with_gradient) {
    tensor->gradient = tensor->real.grad();
    tensor->fake.mutable_grad() = impl_->attribute(tensor->real.grad());
  }
}

void FunctionTracer::settle_gradients() {
  const bool is_real = impl_->options.mode == TraceMode::Real;
  for (auto& [impl, tensor] : impl_->outside) {
    if (!tensor.real.defined() || !tensor.real.requires_grad() || !tensor.real.is_leaf()) continue;
    const at::Tensor found = tensor.is_input ? tensor.fake.grad() : tensor.real.grad();
    if (!found.defined() || !fake::is_fake(found)) continue;
    const at::Tensor twin = fake::twin_of(found);
    if (is_real && twin.defined()) {
      tensor.real.mutable_grad() = twin;
    } else if (!tensor.is_input) {
      tensor.real.mutable_grad() = tensor.gradient;
    }
  }
}

c10::SymInt FunctionTracer::add_integer_input(int64_t number, std::string name) {
  if (number == 0 || number == 1) return number;
  shapes::BackedSpec spec;
  spec.hint = number;
  spec.source = name;
  spec.is_size = false;
  const shapes::Ex symbol = impl_->env->add_backed(spec).expr;
  impl_->recorder.add_number_input(std::move(name), symbol);
  return shapes::to_sym_int(symbol);
}

ValueId FunctionTracer::output(const at::Tensor& result) {
  if (const auto known = impl_->outside.find(result.unsafeGetTensorImpl()); known != impl_->outside.end())
    return impl_->recorder.value_of(known->second.fake);
  if (const ValueId id = impl_->recorder.value_of(result); id != kNoValue) return id;
  TORCH_CHECK_VALUE(!fake::is_fake(result), "a result of the traced function was made by no traced operator");
  const fake::MetaBitScope meta_bit;
  return impl_->recorder.value_of(impl_->attribute(result));
}

ValueId FunctionTracer::output(const c10::SymNodeImpl* number) {
  const auto expr = shapes::expression_of(number);
  TORCH_CHECK_VALUE(expr, "a symbolic number of another trace is a result of the traced function");
  return impl_->recorder.number_value(shapes::number_op(), expr.get());
}

const std::vector<at::Tensor>& FunctionTracer::attributes() const { return impl_->attributes; }

c10::SymNode FunctionTracer::attribute_number(size_t attribute) const {
  const auto found = impl_->attribute_numbers.find(attribute);
  return found == impl_->attribute_numbers.end() ? c10::SymNode() : shapes::to_node(found->second);
}

bool FunctionTracer::has(const at::Tensor& tensor) const { return impl_->has(tensor); }

at::Tensor FunctionTracer::real_of(const at::Tensor& fake) const { return fake::twin_of(fake); }

shapes::ShapeEnv& FunctionTracer::symbols() { return *impl_->env; }

const std::optional<TraceFailure>& FunctionTracer::failure() const { return impl_->failure; }

void FunctionTracer::fail(TraceFailure failure) {
  if (!impl_->failure) impl_->failure = std::move(failure);
}

std::shared_ptr<graph::Graph> FunctionTracer::share_graph() { return impl_->recorder.share_graph(); }

std::shared_ptr<graph::Graph> FunctionTracer::finish(std::vector<ValueId> outputs) {
  auto graph = impl_->recorder.share_graph();
  for (const auto& [impl, tensor] : impl_->outside)
    if (tensor.fake.defined() && fake::is_fake(tensor.fake)) impl_->recorder.current(tensor.fake);
  TORCH_CHECK(!impl_->recorder.has_lost_input(),
              "cannot be traced: the program replaces the data of an input, or of a tensor from outside");
  graph->outputs = std::move(outputs);
  return graph;
}

/// The dispatcher calls this for every operator while the key is in TLS.
static void hook_above(const c10::OperatorHandle& op, c10::DispatchKeySet keys, torch::jit::Stack* stack) {
  const auto rest = keys & c10::DispatchKeySet(c10::DispatchKeySet::FULL_AFTER, kAboveKey);
  if (recording == nullptr) return op.redispatchBoxed(rest, stack);
  recording->above(op, rest, stack);
}

static std::string register_function_hook() {
  try {
    // Lives as long as the process: unregistering during exit races with other libraries' destructors.
    auto* library = new torch::Library(torch::Library::IMPL, "_", kAboveKey, __FILE__, __LINE__);
    library->fallback(torch::CppFunction::makeFromBoxedFunction<&hook_above>());
    return {};
  } catch (const std::exception& error) {
    return std::string("the dispatch key of make_fx is taken: ") + error.what();
  }
}

static auto& hook_installed = *new ForkSafeOnce<std::string>;

std::string install_function_tracer() {
  const std::string reason = fake::install();
  return reason.empty() ? hook_installed.get(register_function_hook) : reason;
}

struct FunctionTraceScope::State {
  explicit State(FunctionTracer& tracer)
      : recording_before(recording),
        innermost_before(innermost),
        keys(c10::impl::tls_local_dispatch_key_set()),
        autograd(c10::AutogradState::get_tls_state()),
        has_autocast_cache(at::autocast::is_autocast_cache_enabled()),
        env(tracer.options().mode == TraceMode::Real ? nullptr : &tracer.symbols()),
        tracer(tracer),
        asserts(tracer.options().mode == TraceMode::Real ? nullptr : tracer.impl_.get()),
        seen(tracer.impl_.get()) {}

  FunctionTracer::Impl* recording_before;
  FunctionTracer* innermost_before;
  const c10::impl::LocalDispatchKeySet keys;
  const c10::AutogradState autograd;
  const bool has_autocast_cache;
  const shapes::EnvScope env;
  FunctionTracer& tracer;
  const shapes::AssertScope asserts;
  const fake::ObserverScope seen;
  const fake::MetaBitScope meta_bit;
  const fake::TraceRuns runs;
};

FunctionTraceScope::FunctionTraceScope(FunctionTracer& tracer) : state_(std::make_unique<State>(tracer)) {
  recording = tracer.impl_.get();
  innermost = &tracer;
  for (const auto key : {kAboveKey, c10::DispatchKey::Fake}) {
    c10::impl::tls_set_dispatch_key_included(key, true);
    // Excluded inside of `__torch_dispatch__`, and after a guard of torch that outlived an exception.
    c10::impl::tls_set_dispatch_key_excluded(key, false);
  }
  // Backward passes stay on this thread, which is the one that records, and have a fixed order.
  c10::AutogradState::get_tls_state().set_multithreading_enabled(false);
  // A cast from the cache would be a tensor that the trace does not know.
  at::autocast::clear_cache();
  at::autocast::set_autocast_cache_enabled(false);
}

FunctionTraceScope::~FunctionTraceScope() {
  if (state_->runs.saw_stray())
    state_->tracer.fail({TraceFailure::Kind::Unsupported, "an operator ran on a traced tensor in another thread"});
  recording = state_->recording_before;
  innermost = state_->innermost_before;
  c10::impl::_force_tls_local_dispatch_key_set(state_->keys);
  c10::AutogradState::set_tls_state(state_->autograd);
  at::autocast::set_autocast_cache_enabled(state_->has_autocast_cache);
}

bool FunctionTracer::attempt(const std::function<bool()>& calls) {
  const size_t mark = impl_->recorder.mark();
  const auto known = impl_->known;
  const auto failure = impl_->failure;
  const bool was_poisoned = fake::is_poisoned();
  bool done = false;
  try {
    done = calls();
  } catch (const c10::Error&) {
  } catch (const fake::Unsupported&) {
  }
  if (done) return true;
  impl_->recorder.rollback(mark);
  impl_->known = known;
  impl_->failure = failure;
  if (!was_poisoned) fake::take_poison();
  return false;
}

Memories FunctionTracer::memories() const { return impl_->recorder.memories(); }

void FunctionTracer::release() { impl_->twins.release(); }

bool FunctionTracer::pause(bool on) { return std::exchange(impl_->is_paused, on); }

}  // namespace stator::tracer
