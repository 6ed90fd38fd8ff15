#include <ATen/core/dispatch/Dispatcher.h>
#include <torch/library.h>

#include <array>
#include <atomic>
#include <mutex>

#include "core/base/check.h"
#include "core/fake/construct.h"
#include "core/fake/meta_tier.h"
#include "core/fake/observer.h"
#include "core/fake/outs.h"
#include "core/fake/rule.h"
#include "core/fake/symbolic.h"
#include "core/fake/tiers.h"
#include "core/shapes/number_ops.h"
#include "core/shapes/sym_node.h"

namespace stator::fake {

namespace {

thread_local Observer* observer = nullptr;

/// How one operator is answered; made at its first call and kept.
struct Plan {
  const c10::FunctionSchema* schema;
  Tier tier;
  Rule rule;
  std::string reason;
  /// A composite that autograd knows only by its parts. It comes whole where autograd is off (inference mode).
  bool only_parts = false;
  /// A composite that CUDA has another kernel for, of which nothing is known.
  bool differs_on_cuda = false;
  const Whole* whole = nullptr;
  /// An `out=` overload without a rule of its own: the overload that answers for it.
  std::optional<c10::OperatorHandle> functional = std::nullopt;
  /// Positions that may hold tensors (bit 31: this and all later ones), so that the check for real tensors
  /// looks at nothing else.
  uint32_t tensor_args = 0;
  uint32_t arg_count = 0;
};

/// Open addressing on the schema's address: no lock and no string on the path of a call. An operator that is
/// deregistered leaves its slot to a tombstone.
class PlanCache {
 public:
  const Plan* find(const c10::FunctionSchema* schema) const {
    for (size_t i = slot(schema);; i = (i + 1) % kSlots) {
      const Plan* plan = slots_[i].load(std::memory_order_acquire);
      if (!plan || plan->schema == schema) return plan;
    }
  }

  const Plan* insert(Plan plan) {
    std::lock_guard lock(mutex_);
    if (const Plan* present = find(plan.schema)) return present;
    STATOR_CHECK(used_ < kSlots / 2, "more operators than slots");
    ++used_;
    size_t i = slot(plan.schema);
    while (slots_[i].load(std::memory_order_relaxed)) i = (i + 1) % kSlots;
    const Plan* made = new Plan(std::move(plan));
    slots_[i].store(made, std::memory_order_release);
    return made;
  }

  void forget(const c10::FunctionSchema* schema) {
    static const Plan tombstone{.schema = nullptr, .tier = Tier::Refused, .rule = nullptr, .reason = {}};
    std::lock_guard lock(mutex_);
    for (size_t i = slot(schema);; i = (i + 1) % kSlots) {
      const Plan* plan = slots_[i].load(std::memory_order_relaxed);
      if (!plan) return;
      // The plan itself is leaked: another thread may be running it.
      if (plan->schema == schema) return slots_[i].store(&tombstone, std::memory_order_release);
    }
  }

 private:
  static constexpr size_t kSlots = 1 << 14;
  static size_t slot(const void* address) {
    return (reinterpret_cast<uintptr_t>(address) * 0x9E3779B97F4A7C15ull) >> (64 - 14);
  }
  std::array<std::atomic<const Plan*>, kSlots> slots_{};
  std::mutex mutex_;
  size_t used_ = 0;
};

PlanCache& plans() {
  static auto* cache = new PlanCache();
  return *cache;
}

class Listener : public c10::OpRegistrationListener {
 public:
  void onOperatorRegistered(const c10::OperatorHandle&) override {}
  void onOperatorDeregistered(const c10::OperatorHandle& op) override {
    if (op.hasSchema()) plans().forget(&op.schema());
  }
};

bool may_hold_tensors(const c10::Type& type) {
  switch (type.kind()) {
    case c10::TypeKind::TensorType:
      return true;
    case c10::TypeKind::ListType:
    case c10::TypeKind::OptionalType:
      return may_hold_tensors(*type.containedType(0));
    default:
      return false;
  }
}

uint32_t tensor_positions(const c10::FunctionSchema& schema) {
  uint32_t positions = 0;
  const auto& arguments = schema.arguments();
  for (size_t i = 0; i < arguments.size(); ++i) {
    if (may_hold_tensors(*arguments[i].type())) positions |= 1u << std::min<size_t>(i, 31);
  }
  return positions;
}

/// An operator without a kernel of its own for the CPU is a program over other operators: run that on fakes.
bool is_composite(const c10::OperatorHandle& op) {
  using K = c10::DispatchKey;
  if (op.hasKernelForDispatchKey(K::CPU)) return false;
  return op.hasKernelForDispatchKey(K::CompositeImplicitAutograd) ||
         op.hasKernelForDispatchKey(K::CompositeExplicitAutograd) ||
         op.hasKernelForDispatchKey(K::CompositeExplicitAutogradNonFunctional);
}

/// `out=` overloads that torch generates compute a result and copy it; families name the whole overload set of an
/// operator, so these come before their rows.
bool is_generated_out(const c10::OperatorHandle& op) {
  if (!is_composite(op)) return false;
  const auto& arguments = op.schema().arguments();
  return !arguments.empty() && arguments.back().is_out();
}

bool has_rule(const c10::OperatorHandle& op) {
  const Rows rows = find_rows(op.operator_name());
  return rows.own || (rows.meta && !rows.refused && !is_composite(op));
}

Plan make_plan(const c10::OperatorHandle& op) {
  Plan plan{.schema = &op.schema(),
            .tier = Tier::Refused,
            .rule = nullptr,
            .reason = {},
            .tensor_args = tensor_positions(op.schema()),
            .arg_count = static_cast<uint32_t>(op.schema().arguments().size())};
  const Rows rows = find_rows(op.operator_name());
  plan.whole = rows.whole;
  if (rows.own && !is_generated_out(op)) {
    plan.tier = Tier::Own;
    plan.rule = rows.own;
  } else if (rows.refused) {
    plan.reason = rows.refused;
  } else if (is_registered_by_user(op) && (brings_meta_kernel(op) || !is_composite(op))) {
    // Asked for at each call, since a library may bring its kernel later. It comes before a composite kernel, which is
    // a program of the user's own: what that does beside its operators is for the run of the graph.
    plan.tier = Tier::Python;
    plan.rule = run_registered_meta;
  } else if (is_composite(op)) {
    plan.tier = Tier::Composite;
    plan.only_parts = op.hasKernelForDispatchKey(c10::DispatchKey::CompositeImplicitAutograd);
    // The kernels for lists of tensors only do the same at once.
    plan.differs_on_cuda = op.hasKernelForDispatchKey(c10::DispatchKey::CUDA) &&
                           !std::string_view(op.schema().name()).starts_with("aten::_foreach_");
  } else if (rows.meta) {
    plan.tier = Tier::CppMeta;
    plan.rule = rows.meta;
  } else if (auto functional = without_outs(op); functional && has_rule(*functional)) {
    plan.tier = Tier::Own;
    plan.functional = functional;
  } else {
    plan.reason = "no shape function";
  }
  return plan;
}

const Plan& plan_for(const c10::OperatorHandle& op) {
  const Plan* plan = plans().find(&op.schema());
  return *(plan ? plan : plans().insert(make_plan(op)));
}

/// A number that Python code wrote (`x + 2`) comes as a real, wrapped one: it is a constant. Every other real tensor
/// has no place in the graph.
bool is_foreign(const at::Tensor& tensor) {
  if (!tensor.defined()) return false;
  const auto* impl = tensor.unsafeGetTensorImpl();
  return !impl->key_set().has(c10::DispatchKey::Fake) && !impl->is_wrapped_number();
}

bool is_on_cuda(const at::Tensor& tensor) { return tensor.defined() && tensor.is_cuda(); }

using Asked = bool (*)(const at::Tensor&);

bool holds(const c10::IValue& value, Asked is) {
  if (value.isTensor()) return is(value.toTensor());
  if (!value.isList()) return false;
  for (const c10::IValue& item : value.toListRef()) {
    if (item.isTensor() && is(item.toTensor())) return true;
  }
  return false;
}

bool takes(const Plan& plan, const torch::jit::Stack& stack, Asked is) {
  const size_t first = stack.size() - plan.arg_count;
  for (size_t i = 0; i < plan.arg_count; ++i) {
    if ((plan.tensor_args >> std::min<size_t>(i, 31)) & 1u && holds(stack[first + i], is)) return true;
  }
  return false;
}

/// Kernels of torch that ask meta tensors for a shape (see `_to_copy`) ask them as if there were no fakes.
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
  // Composite kernels stand in every backend's slot, and their own calls come back here through the Fake key.
  const c10::DispatchKeySet slot(c10::DispatchKey::CPU);
  try {
    op.redispatchBoxed(slot, stack);
  } catch (const c10::Error& error) {
    note_error(error.what_without_backtrace());
    throw;
  }
}

void answer(const Plan& plan, const c10::OperatorHandle& op, torch::jit::Stack* stack) {
  switch (plan.tier) {
    case Tier::Own:
      if (plan.functional) {
        return answer_outs(op, *plan.functional, stack,
                           [&](auto* made) { answer(plan_for(*plan.functional), *plan.functional, made); });
      }
      [[fallthrough]];
    case Tier::CppMeta:
    case Tier::Python:
      return plan.rule(op, stack);
    case Tier::Composite:
      if (plan.differs_on_cuda && takes(plan, *stack, is_on_cuda)) refuse(op, "no shape function of its CUDA kernel");
      return run_composite(op, stack);
    case Tier::Refused:
      break;
  }
  refuse(op, plan.reason.c_str());
}

void fallback(const c10::OperatorHandle& op, c10::DispatchKeySet, torch::jit::Stack* stack) {
  const Plan& plan = plan_for(op);
  if (takes(plan, *stack, is_foreign)) [[unlikely]] {
    if (answer_on_meta(op, stack)) return;
    count_tier(Tier::Refused);
    refuse(op, "a real tensor that the capture does not know");
  }
  if (shapes::has_symbols()) [[unlikely]]
    check_symbols(op, *stack);
  count_tier(plan.tier);
  if (observer != nullptr && !plan.only_parts) [[unlikely]] {
    observer->before(op, *stack);
    Observer* seer = observer;
    {
      ObserverScope inside(nullptr);
      answer(plan, op, stack);
    }
    return seer->after(op, *stack);
  }
  answer(plan, op, stack);
}

}  // namespace

ObserverScope::ObserverScope(Observer* next) : previous_(observer) { observer = next; }
ObserverScope::~ObserverScope() { observer = previous_; }

const Whole* whole_row(const c10::OperatorHandle& op) { return plan_for(op).whole; }

void refuse(std::string reason) {
  poison(reason);
  throw Unsupported(reason);
}

void refuse(const c10::OperatorHandle& op, const char* reason) {
  refuse(c10::toString(op.operator_name()) + ": " + reason);
}

TierOf tier_of(const c10::OperatorHandle& op) {
  const Plan& plan = plan_for(op);
  return {plan.tier, plan.reason};
}

std::string install() {
  static std::once_flag once;
  static std::string failure;
  std::call_once(once, [] {
    try {
      register_families();
      shapes::install_number_ops();
      static auto* library = new torch::Library(torch::Library::IMPL, "_", c10::DispatchKey::Fake, __FILE__, __LINE__);
      library->fallback(torch::CppFunction::makeFromBoxedFunction<&fallback>());
      static auto* listening = new c10::RegistrationHandleRAII(
          c10::Dispatcher::singleton().addRegistrationListener(std::make_unique<Listener>()));
      (void)listening;
    } catch (const std::exception& error) {
      failure = std::string("the Fake dispatch key can't be used: ") + error.what();
    }
  });
  return failure;
}

}  // namespace stator::fake
