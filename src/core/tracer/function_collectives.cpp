// The part of FunctionTracer for collectives on fakes.
#include <torch/csrc/distributed/c10d/Work.hpp>

#include <string_view>

#include "core/fake/construct.h"
#include "core/fake/meta_tier.h"
#include "core/fake/rule.h"
#include "core/fake/symbolic.h"
#include "core/tracer/function_impl.h"

namespace stator::tracer {
namespace {

/// What a collective that did not run is waited for by.
class DoneWork final : public c10d::Work {
 public:
  bool isCompleted() override { return true; }
  bool isSuccess() const override { return true; }
  bool wait(std::chrono::milliseconds) override { return true; }
};

/// A collective of c10d writes to its first tensors, and returns them and a Work object.
void run_in_place(const c10::OperatorHandle& op, torch::jit::Stack* stack) {
  const auto arguments = torch::jit::last(*stack, op.schema().arguments().size());
  std::vector<c10::IValue> results;
  for (const c10::Argument& result : op.schema().returns()) {
    if (result.type()->str().find("Tensor") == std::string::npos) {
      results.emplace_back(c10::intrusive_ptr<c10d::Work>(c10::make_intrusive<DoneWork>()));
    } else {
      results.push_back(arguments[0]);
    }
  }
  torch::jit::drop(*stack, op.schema().arguments().size());
  stack->insert(stack->end(), results.begin(), results.end());
}

/// The size of the first dimension of the result for that of the argument, by the operator's name.
c10::SymInt first_size(const fake::Args& args, std::string_view name, const c10::SymInt& size) {
  if (name.starts_with("all_gather")) return size * args.integer(1);
  if (name.starts_with("reduce_scatter")) return size / args.integer(2);
  if (name != "all_to_all_single") return size;
  c10::SymInt sum = 0;
  for (const c10::SymInt& part : args.sym_ints(1)) sum = sum + part;
  return sum;
}

/// By symbolic sizes: results are row-major, as those of the meta kernels.
void run_functional(const c10::OperatorHandle& op, torch::jit::Stack* stack) {
  fake::Args args(op, stack);
  const std::string_view name = std::string_view(op.schema().name()).substr(sizeof("_c10d_functional::") - 1);
  const bool gives_argument = op.schema().is_mutable() || name == "wait_tensor" || name == "isend" || name == "irecv";
  auto made = [&](const at::Tensor& tensor) {
    if (gives_argument) return tensor;
    std::vector<c10::SymInt> sizes = tensor.sym_sizes().vec();
    if (!sizes.empty()) sizes[0] = first_size(args, name, sizes[0]);
    return fake::make_contiguous(sizes, tensor.scalar_type(), tensor.device());
  };
  const bool has_out = name.ends_with("_out");
  const c10::IValue given = has_out ? stack->back() : args[0];
  if (given.isTensor()) {
    args.returns(made(given.toTensor()));
  } else {
    c10::List<at::Tensor> results;
    for (const at::Tensor& tensor : given.toTensorVector()) results.push_back(made(tensor));
    args.returns(std::move(results));
  }
}

}  // namespace

void FunctionTracer::Impl::run_collective(const c10::OperatorHandle& op, torch::jit::Stack* stack) {
  if (std::string_view(op.schema().name()).starts_with("c10d::")) return run_in_place(op, stack);
  if (fake::takes_symbols(fake::Args(op, stack))) return run_functional(op, stack);
  fake::run_registered_meta(op, stack);
}

}  // namespace stator::tracer
