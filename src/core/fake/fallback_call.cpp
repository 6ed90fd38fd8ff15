#include "core/fake/fallback_call.h"

#include <algorithm>
#include <string_view>

#include "core/fake/meta_tier.h"
#include "core/fake/outs.h"
#include "core/fake/shape_table.h"
#include "core/ops/operator_cache.h"
#include "core/ops/operator_table.h"

namespace stator::fake {
namespace {

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

/// An operator without a CPU kernel that is implemented by other operators.
bool is_composite(const c10::OperatorHandle& op) {
  using K = c10::DispatchKey;
  if (op.hasKernelForDispatchKey(K::CPU)) return false;
  return op.hasKernelForDispatchKey(K::CompositeImplicitAutograd) ||
         op.hasKernelForDispatchKey(K::CompositeExplicitAutograd) ||
         op.hasKernelForDispatchKey(K::CompositeExplicitAutogradNonFunctional);
}

/// The `out=` overloads that torch generates compute a result and copy it. An elementwise row names all overloads of an
/// operator, generated ones too: those run as the composites they are.
bool is_generated_out(const c10::OperatorHandle& op) {
  if (!is_composite(op)) return false;
  const auto& arguments = op.schema().arguments();
  return !arguments.empty() && arguments.back().is_out();
}

bool has_rule(const c10::OperatorHandle& op) {
  const Shape shape = find_shape(op.operator_name());
  return shape.rule != nullptr || (has_meta_kernel(op) && shape.refused == nullptr && !is_composite(op));
}

FallbackCall make_call(const c10::OperatorHandle& op) {
  FallbackCall call{.schema = &op.schema(),
                    .tensor_args = tensor_positions(op.schema()),
                    .arg_count = static_cast<uint32_t>(op.schema().arguments().size())};
  const Shape shape = find_shape(op.operator_name());
  call.composite = shape.composite;
  call.symbolic = shape.symbolic;
  call.cuda = shape.cuda;
  call.takes_plain_sizes = ops::has_trait(op, ops::PlainSizes);
  if (shape.rule != nullptr && !is_generated_out(op)) {
    call.tier = Tier::Own;
    call.rule = shape.rule;
  } else if (shape.refused != nullptr) {
    call.reason = shape.refused;
  } else if (is_registered_by_user(op) && (brings_meta_kernel(op) || !is_composite(op))) {
    // `run_registered_meta` looks for the meta kernel at each call, since a library may register it later. It comes
    // before a composite kernel, which is code of the user's: what that does beside calling operators belongs to the
    // run.
    call.tier = Tier::Python;
    call.rule = run_registered_meta;
  } else if (is_composite(op)) {
    call.tier = Tier::Composite;
    call.is_decomposed_by_autograd = op.hasKernelForDispatchKey(c10::DispatchKey::CompositeImplicitAutograd);
    // The CUDA kernels of `_foreach_` operators give the same metadata as their composites.
    call.differs_on_cuda = call.cuda == nullptr && op.hasKernelForDispatchKey(c10::DispatchKey::CUDA) &&
                           !std::string_view(op.schema().name()).starts_with("aten::_foreach_");
  } else if (has_meta_kernel(op)) {
    call.tier = Tier::CppMeta;
    call.rule = run_meta_kernel;
  } else if (auto functional = without_outs(op); functional && has_rule(*functional)) {
    call.tier = Tier::Own;
    call.functional = functional;
  } else {
    call.reason = "no shape function";
  }
  return call;
}

auto& calls = *new ops::OperatorCache<FallbackCall>;

}  // namespace

const FallbackCall& fallback_call(const c10::OperatorHandle& op) {
  const FallbackCall* call = calls.find(op);
  return *(call != nullptr ? call : calls.insert(make_call(op)));
}

TierOf tier_of(const c10::OperatorHandle& op) {
  const FallbackCall& call = fallback_call(op);
  return {call.tier, call.reason};
}

Rule symbolic_form(const c10::OperatorHandle& op) {
  const auto functional = functional_form(op);
  if (!functional) return nullptr;
  const Shape shape = find_shape(functional->operator_name());
  return shape.rule != nullptr ? shape.rule : shape.symbolic;
}

bool takes_symbolic_sizes(const c10::OperatorHandle& op) {
  const FallbackCall& call = fallback_call(op);
  if (call.takes_plain_sizes || call.tier == Tier::Refused) return false;
  return call.tier != Tier::CppMeta || call.symbolic != nullptr || symbolic_form(op) != nullptr;
}

}  // namespace stator::fake
