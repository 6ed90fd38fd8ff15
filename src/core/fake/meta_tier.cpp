#include "core/fake/meta_tier.h"

#include <ATen/core/dispatch/Dispatcher.h>
#include <c10/util/SmallVector.h>

#include <algorithm>
#include <iterator>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#include "core/fake/meta_table_builder.h"
#include "core/fake/rule.h"

namespace stator::fake {
namespace {

// Keyed by operator handle, so that a call builds no string.
using Kernels = std::unordered_map<c10::OperatorHandle, c10::KernelFunction>;

Kernels& kernels = *new Kernels;

// Libraries of torch's own operators.
constexpr std::string_view kOfTorch[] = {
    "aten",   "c10d",  "_c10d_functional", "_dtensor",  "inductor", "inductor_prims", "mkl",      "mkldnn",
    "onednn", "prims", "profiler",         "quantized", "rngprims", "sparse",         "symm_mem", "debugprims",
};

/// The meta twins of one call. A fake that is given twice has one twin: some kernels compare identities, to find an
/// output that is also an input.
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

  /// The fake with this twin. Null if there is none.
  const at::Tensor* fake_of(const at::Tensor& twin) const {
    for (const auto& [fake, known] : pairs_) {
      if (known.is_same(twin)) return &fake;
    }
    return nullptr;
  }

  /// The device of a new result: that of the tensors with dimensions. Zero-dimensional CPU tensors mix with any device.
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
  if (value.isList() && !value.toListRef().empty()) {
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

/// Replaces the fakes on the stack by meta twins, runs `kernel`, and replaces its results by fakes.
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

bool has_meta_kernel(const c10::OperatorHandle& op) { return kernels.contains(op); }

void run_meta_kernel(const c10::OperatorHandle& op, torch::jit::Stack* stack) {
  const auto kernel = kernels.find(op);
  if (kernel == kernels.end()) refuse(op, "no shape function");
  on_twins(op, stack, [&](torch::jit::Stack* twins) {
    kernel->second.callBoxed(op, c10::DispatchKeySet(c10::DispatchKey::Meta), twins);
  });
}

bool is_registered_by_user(const c10::OperatorHandle& op) {
  const std::string_view name = op.operator_name().name;
  const std::string_view library = name.substr(0, name.find(':'));
  return std::find(std::begin(kOfTorch), std::end(kOfTorch), library) == std::end(kOfTorch);
}

bool brings_meta_kernel(const c10::OperatorHandle& op) { return op.hasKernelForDispatchKey(c10::DispatchKey::Meta); }

void run_registered_meta(const c10::OperatorHandle& op, torch::jit::Stack* stack) {
  if (!brings_meta_kernel(op)) refuse(op, "no shape function");
  for (const auto& result : op.schema().returns()) {
    if (result.alias_info() != nullptr && !result.alias_info()->isWrite())
      refuse(op, "a registered operator that returns a view");
  }
  const auto& arguments = op.schema().arguments();
  const auto takes_tensors = [](const c10::Argument& a) { return a.type()->str().find("Tensor") != std::string::npos; };
  // The device of a result is that of the tensors among the arguments.
  if (std::none_of(arguments.begin(), arguments.end(), takes_tensors))
    refuse(op, "a registered operator without tensor arguments");
  on_twins(op, stack, [&](torch::jit::Stack* twins) {
    try {
      op.redispatchBoxed(c10::DispatchKeySet(c10::DispatchKey::Meta), twins);
    } catch (const std::exception& error) {
      // The real kernel may not raise: a meta kernel may lack a case.
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
    if (op) kernels.emplace(*op, std::move(kernel));
  }
}

}  // namespace stator::fake
