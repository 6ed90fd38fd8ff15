#include <ATen/core/dispatch/Dispatcher.h>
#include <torch/library.h>

#include <algorithm>
#include <atomic>

#include "core/base/fork_safe.h"
#include "core/fake/fallback_call.h"
#include "core/fake/meta_tier.h"
#include "core/fake/observer.h"
#include "core/fake/outs.h"
#include "core/fake/rule.h"
#include "core/fake/shape_table.h"
#include "core/fake/symbolic.h"
#include "core/observe/record.h"
#include "core/shapes/number_ops.h"
#include "core/shapes/sym_node.h"

namespace stator::fake {

namespace {

thread_local Observer* observer = nullptr;

/// A real tensor that is not a wrapped number. A wrapped number (`x + 2`) is a constant of the graph; the capture knows
/// no other real tensor.
bool is_unknown_real(const at::Tensor& tensor) {
  if (!tensor.defined()) return false;
  const auto* impl = tensor.unsafeGetTensorImpl();
  return !impl->key_set().has(c10::DispatchKey::Fake) && !impl->is_wrapped_number();
}

bool is_on_cuda(const at::Tensor& tensor) { return tensor.defined() && tensor.is_cuda(); }

using TensorPredicate = bool (*)(const at::Tensor&);

bool holds(const c10::IValue& value, TensorPredicate is) {
  if (value.isTensor()) return is(value.toTensor());
  if (!value.isList()) return false;
  for (const c10::IValue& item : value.toListRef()) {
    if (item.isTensor() && is(item.toTensor())) return true;
  }
  return false;
}

/// Whether a tensor for which `is` holds stands among the arguments.
bool takes(const FallbackCall& call, const torch::jit::Stack& stack, TensorPredicate is) {
  const size_t first = stack.size() - call.arg_count;
  for (size_t i = 0; i < call.arg_count; ++i) {
    if ((call.tensor_args >> std::min<size_t>(i, 31)) & 1u && holds(stack[first + i], is)) return true;
  }
  return false;
}

/// Whether the shape function for CUDA kernels answers.
bool uses_cuda_rule(const FallbackCall& call, const torch::jit::Stack& stack) {
  return call.cuda != nullptr && takes(call, stack, is_on_cuda);
}

/// Some kernels of torch compute a shape on meta tensors (see `_to_copy`): their calls run as if there were no fakes.
/// False if the arguments are others than meta tensors and numbers.
bool answer_on_meta(const c10::OperatorHandle& op, torch::jit::Stack* stack) {
  size_t tensors = 0;
  for (const c10::IValue& value : torch::jit::last(*stack, op.schema().arguments().size())) {
    if (value.isTensorList()) return false;
    if (!value.isTensor() || !value.toTensor().defined()) continue;
    const auto* impl = value.toTensor().unsafeGetTensorImpl();
    if (!impl->is_wrapped_number() && !impl->is_meta()) return false;
    tensors += impl->is_meta();
  }
  if (tensors == 0) return false;
  c10::impl::ExcludeDispatchKeyGuard no_fakes(c10::DispatchKey::Fake);
  op.redispatchBoxed(c10::DispatchKeySet(c10::DispatchKey::Meta), stack);
  return true;
}

void run_composite(const c10::OperatorHandle& op, torch::jit::Stack* stack) {
  // A composite kernel is registered for every backend, so for the CPU too. The operators it calls arrive here again.
  try {
    op.redispatchBoxed(c10::DispatchKeySet(c10::DispatchKey::CPU), stack);
  } catch (const c10::Error& error) {
    note_error(error.what_without_backtrace());
    throw;
  }
}

/// An operator of torch's C++ shape functions, which take no symbolic sizes. An overload without a shape function of
/// Stator's is answered by that of the overload that returns new tensors.
void answer_symbolic(const FallbackCall& call, const c10::OperatorHandle& op, torch::jit::Stack* stack) {
  if (call.symbolic != nullptr) return call.symbolic(op, stack);
  const Rule rule = symbolic_form(op);
  if (rule == nullptr) refuse(op, "torch's shape function takes no symbolic sizes");
  const auto functional = *functional_form(op);
  answer_outs(op, functional, stack, [&](auto* made) { rule(functional, made); });
}

void answer(const FallbackCall& call, const c10::OperatorHandle& op, torch::jit::Stack* stack) {
  if (uses_cuda_rule(call, *stack)) return call.cuda(op, stack);
  switch (call.tier) {
    case Tier::Own:
      if (call.functional) {
        return answer_outs(op, *call.functional, stack,
                           [&](auto* made) { answer(fallback_call(*call.functional), *call.functional, made); });
      }
      return call.rule(op, stack);
    case Tier::CppMeta:
      if (takes_symbols(Args(op, stack))) return answer_symbolic(call, op, stack);
      return call.rule(op, stack);
    case Tier::Python:
      return call.rule(op, stack);
    case Tier::Composite:
      if (call.symbolic != nullptr && takes_symbols(Args(op, stack))) return call.symbolic(op, stack);
      if (call.differs_on_cuda && takes(call, *stack, is_on_cuda)) refuse(op, "no shape function of its CUDA kernel");
      return run_composite(op, stack);
    case Tier::Refused:
      break;
  }
  refuse(op, call.reason.c_str());
}

std::atomic<int> traces{0};  // that run in this process
thread_local int traces_here = 0;
std::atomic<uint64_t> strays{0};

bool is_traced(const at::Tensor& tensor) {
  return tensor.defined() && tensor.key_set().has_backend(c10::BackendComponent::MetaBit) && is_fake(tensor);
}

void refuse_stray(const c10::OperatorHandle& op) {
  ++strays;
  TORCH_CHECK(false, "cannot be traced: ", op.operator_name(),
              " runs on a traced tensor in a thread that does not trace");
}

void run_on_fakes(const c10::OperatorHandle& op, c10::DispatchKeySet keys, torch::jit::Stack* stack) {
  if (observer != nullptr && observer->intercept(op, keys, stack)) [[unlikely]]
    return;
  const FallbackCall& call = fallback_call(op);
  if (takes(call, *stack, is_unknown_real)) [[unlikely]] {
    if (answer_on_meta(op, stack)) return;
    count_tier(Tier::Refused);
    refuse(op, "a real tensor that the capture does not know");
  }
  if (call.takes_plain_sizes) check_symbols(op, *stack);
  count_tier(call.tier);
  if (observer != nullptr && (!call.is_decomposed_by_autograd || uses_cuda_rule(call, *stack))) [[unlikely]] {
    observer->before(op, *stack);
    Observer* outer = observer;
    {
      ObserverScope inside(nullptr);
      answer(call, op, stack);
    }
    return outer->after(op, *stack);
  }
  answer(call, op, stack);
}

void fallback(const c10::OperatorHandle& op, c10::DispatchKeySet keys, torch::jit::Stack* stack) {
  // A capture gave torch an object whose class answers operators; a FunctionTracer decides itself.
  if (keys.has(c10::DispatchKey::Python) && observer == nullptr) [[unlikely]]
    return op.redispatchBoxed(keys & c10::DispatchKeySet(c10::DispatchKeySet::FULL_AFTER, c10::DispatchKey::Fake),
                              stack);
  const bool is_outside = traces_here == 0 && !c10::impl::tls_is_dispatch_key_included(c10::DispatchKey::Fake);
  if (!is_outside || !takes(fallback_call(op), *stack, is_traced)) [[likely]]
    return run_on_fakes(op, keys, stack);
  if (traces.load(std::memory_order_relaxed) > 0) refuse_stray(op);
  const bool was_poisoned = is_poisoned();
  try {
    run_on_fakes(op, keys, stack);
  } catch (const Unsupported& error) {
    if (!was_poisoned) take_poison();  // no trace and no capture is there to do so
    throw Unsupported(std::string(error.what()) + ": the tensor belongs to a trace that has ended, and has no data");
  }
}

}  // namespace

ObserverScope::ObserverScope(Observer* next) : previous_(observer) { observer = next; }
ObserverScope::~ObserverScope() { observer = previous_; }

bool is_decomposed_by_autograd(const c10::OperatorHandle& op) { return fallback_call(op).is_decomposed_by_autograd; }

void run_shape_function(const c10::OperatorHandle& op, torch::jit::Stack* stack) {
  const FallbackCall& call = fallback_call(op);
  if (call.takes_plain_sizes) check_symbols(op, *stack);
  count_tier(call.tier);
  if (call.is_decomposed_by_autograd && !uses_cuda_rule(call, *stack)) return answer(call, op, stack);
  ObserverScope inside(nullptr);
  answer(call, op, stack);
}

void refuse(std::string reason) {
  poison(reason);
  throw Unsupported(reason);
}

void refuse(const c10::OperatorHandle& op, const char* reason) {
  observe::note_refused(op.operator_name().name);
  refuse(c10::toString(op.operator_name()) + ": " + reason);
}

TraceRuns::TraceRuns() : strays_before_(strays) {
  ++traces;
  ++traces_here;
}
TraceRuns::~TraceRuns() {
  --traces;
  --traces_here;
}
bool TraceRuns::saw_stray() const { return strays != strays_before_; }

/// An empty text, or why the key cannot be used.
static std::string register_fallback() {
  try {
    shapes::set_undecided([](const std::string& question) {
      const std::string reason = "a size or number depends on data: " + question;
      // Outside of a trace no code takes the poison, so the next trace would find it.
      if (!c10::impl::tls_is_dispatch_key_included(c10::DispatchKey::Fake)) throw Unsupported(reason);
      refuse(reason);
    });
    register_families();
    register_meta_tier();
    shapes::install_number_ops();
    // Never freed: it lives as long as the process.
    auto* library = new torch::Library(torch::Library::IMPL, "_", c10::DispatchKey::Fake, __FILE__, __LINE__);
    library->fallback(torch::CppFunction::makeFromBoxedFunction<&fallback>());
    return {};
  } catch (const std::exception& error) {
    return std::string("the Fake dispatch key can't be used: ") + error.what();
  }
}

static auto& installed = *new ForkSafeOnce<std::string>;

std::string install() { return installed.get(register_fallback); }

}  // namespace stator::fake
