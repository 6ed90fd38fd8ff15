#include "core/fake/meta_tier.h"

#include <ATen/core/dispatch/Dispatcher.h>
#include <c10/util/SmallVector.h>

#include <algorithm>
#include <string>
#include <unordered_map>
#include <unordered_set>
#include <utility>
#include <vector>

#include "core/fake/meta_table_builder.h"
#include "core/fake/rule.h"

namespace stator::fake {
namespace {

// By operator handle: the names are compared once, when the table is made.
using Kernels = std::unordered_map<c10::OperatorHandle, c10::KernelFunction>;

Kernels& kernels() {
  static Kernels table;
  return table;
}

/// The meta twins of one call. A fake given twice has one twin, so that kernels that compare identities
/// (an output that is also an input) see what they would see of the fakes.
class Twins {
 public:
  at::Tensor twin_of(const at::Tensor& fake) {
    if (!fake.defined()) return fake;
    for (const auto& [known, twin] : pairs_) {
      if (known.is_same(fake)) return twin;
    }
    pairs_.emplace_back(fake, meta_twin(fake));
    return pairs_.back().second;
  }

  /// The fake whose twin this is, or null.
  const at::Tensor* fake_of(const at::Tensor& twin) const {
    for (const auto& [fake, known] : pairs_) {
      if (known.is_same(twin)) return &fake;
    }
    return nullptr;
  }

  /// Where a new result lives: on the device of the tensors with dimensions; scalars on the CPU go along.
  c10::Device device(const c10::OperatorHandle& op) const {
    std::optional<c10::Device> found;
    bool from_scalar = true;
    for (const auto& [fake, twin] : pairs_) {
      const bool scalar = fake.dim() == 0 && fake.device().is_cpu();
      if (!found || (from_scalar && !scalar)) {
        found = fake.device();
        from_scalar = scalar;
      } else if (!scalar && *found != fake.device()) {
        refuse(op, "tensors on different devices");
      }
    }
    return found.value_or(c10::Device(c10::kCPU));
  }

 private:
  c10::SmallVector<std::pair<at::Tensor, at::Tensor>, 6> pairs_;
};

c10::IValue replace_by_twins(const c10::IValue& value, Twins& twins) {
  if (value.isTensor()) return twins.twin_of(value.toTensor());
  if (value.isTensorList()) {
    c10::List<at::Tensor> list;
    for (const at::Tensor& fake : value.toTensorVector()) list.push_back(twins.twin_of(fake));
    return list;
  }
  if (value.isList() && value.toListRef().size() != 0) {
    const auto& items = value.toList();
    if (*items.elementType() == *c10::OptionalType::ofTensor()) {
      c10::List<std::optional<at::Tensor>> list;
      for (const c10::IValue& item : value.toListRef()) {
        list.push_back(item.isNone() ? std::nullopt : std::optional(twins.twin_of(item.toTensor())));
      }
      return list;
    }
  }
  return value;
}

c10::IValue replace_by_fake(const c10::IValue& value, const Twins& twins, c10::Device device) {
  if (value.isTensor()) {
    const at::Tensor& result = value.toTensor();
    if (!result.defined()) return value;
    if (const at::Tensor* fake = twins.fake_of(result)) {
      if (fake->sym_sizes() != result.sym_sizes()) resize_out(*fake, result.sym_sizes(), result.sym_strides());
      return *fake;
    }
    return from_meta(result, device);
  }
  if (value.isTensorList()) {
    c10::List<at::Tensor> list;
    for (const at::Tensor& result : value.toTensorVector()) {
      list.push_back(replace_by_fake(result, twins, device).toTensor());
    }
    return list;
  }
  return value;
}

/// Runs `kernel` on a stack whose fakes are exchanged for meta twins, and puts fakes in the place of its results.
template <class Kernel>
void on_twins(const c10::OperatorHandle& op, torch::jit::Stack* stack, const Kernel& kernel) {
  Twins twins;
  const size_t first_argument = stack->size() - op.schema().arguments().size();
  for (size_t i = first_argument; i < stack->size(); ++i) {
    c10::IValue& value = (*stack)[i];
    if (value.isTensor() || value.isList()) value = replace_by_twins(value, twins);
  }
  const c10::Device device = twins.device(op);
  {
    MetaScope scope;
    kernel(stack);
  }
  for (size_t i = first_argument; i < stack->size(); ++i) {
    c10::IValue& value = (*stack)[i];
    value = replace_by_fake(value, twins, device);
  }
}

}  // namespace

void run_meta_kernel(const c10::OperatorHandle& op, torch::jit::Stack* stack) {
  const auto kernel = kernels().find(op);
  if (kernel == kernels().end()) refuse(op, "no shape function");
  on_twins(op, stack, [&](torch::jit::Stack* twins) {
    kernel->second.callBoxed(op, c10::DispatchKeySet(c10::DispatchKey::Meta), twins);
  });
}

bool is_registered_by_user(const c10::OperatorHandle& op) {
  static const std::unordered_set<std::string_view> kOfTorch = {
      "aten",   "c10d",  "_c10d_functional", "_dtensor",  "inductor", "inductor_prims", "mkl",      "mkldnn",
      "onednn", "prims", "profiler",         "quantized", "rngprims", "sparse",         "symm_mem", "debugprims",
  };
  const std::string_view name = op.operator_name().name;
  return !kOfTorch.contains(name.substr(0, name.find(':')));
}

bool brings_meta_kernel(const c10::OperatorHandle& op) { return op.hasKernelForDispatchKey(c10::DispatchKey::Meta); }

void run_registered_meta(const c10::OperatorHandle& op, torch::jit::Stack* stack) {
  if (!brings_meta_kernel(op)) refuse(op, "no shape function");
  for (const auto& result : op.schema().returns()) {
    if (result.alias_info() != nullptr && !result.alias_info()->isWrite())
      refuse(op, "a view by a registered operator");
  }
  const auto& arguments = op.schema().arguments();
  const auto takes_tensors = [](const c10::Argument& a) { return a.type()->str().find("Tensor") != std::string::npos; };
  // The device of a result is told by the tensors that went in.
  if (std::none_of(arguments.begin(), arguments.end(), takes_tensors))
    refuse(op, "a registered operator without input");
  on_twins(op, stack, [&](torch::jit::Stack* twins) {
    try {
      op.redispatchBoxed(c10::DispatchKeySet(c10::DispatchKey::Meta), twins);
    } catch (const std::exception& error) {
      // The real kernel may well not raise: only the meta kernel can't tell.
      refuse(op, ("its meta kernel raised: " + std::string(error.what())).c_str());
    }
  });
}

void register_meta_tier() {
  MetaTableBuilder builder;
  fill_meta_table_0(builder);
  fill_meta_table_1(builder);
  fill_meta_table_2(builder);
  fill_meta_table_3(builder);
  for (auto& [name, kernel] : builder.take()) {
    const size_t dot = name.find('.');
    const auto op = c10::Dispatcher::singleton().findSchema({name.substr(0, dot), name.substr(dot + 1)});
    if (!op) continue;
    kernels().emplace(*op, std::move(kernel));
    const std::string row_name = name.back() == '.' ? name.substr(0, dot) : name;
    add_meta_rules({{row_name.c_str(), &run_meta_kernel}});
  }
}

}  // namespace stator::fake
