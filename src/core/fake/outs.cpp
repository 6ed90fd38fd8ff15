#include "core/fake/outs.h"

#include <algorithm>

#include "core/fake/families/shape_helpers.h"
#include "core/fake/layout.h"
#include "core/fake/rule.h"
#include "core/ops/operator_cache.h"

namespace stator::fake {
namespace {

bool same_inputs(const c10::FunctionSchema& schema, const c10::FunctionSchema& with_outs) {
  const auto &mine = schema.arguments(), &theirs = with_outs.arguments();
  return mine.size() + with_outs.returns().size() == theirs.size() &&
         std::equal(mine.begin(), mine.end(), theirs.begin(), [](const c10::Argument& a, const c10::Argument& b) {
           return a.name() == b.name() && *a.type() == *b.type() && a.alias_info() == nullptr;
         });
}

bool is_in_place(const c10::OperatorHandle& op) {
  const std::string& name = op.operator_name().name;
  return name.ends_with('_') && !name.ends_with("__");
}

struct Form {
  const c10::FunctionSchema* schema = nullptr;
  std::optional<c10::OperatorHandle> functional;
};

Form find_form(const c10::OperatorHandle& op) {
  if (!is_in_place(op)) return {&op.schema(), without_outs(op)};
  auto name = op.operator_name();
  name.name.pop_back();
  return {&op.schema(), c10::Dispatcher::singleton().findSchema(name)};
}

auto& forms = *new ops::OperatorCache<Form>;

void write_out(const Args& args, const at::Tensor& result, const at::Tensor& out) {
  require(
      result.defined() && out.defined() && result.scalar_type() == out.scalar_type() && result.device() == out.device(),
      args, "an out of another dtype or device");
  if (out.sym_sizes().equals(result.sym_sizes())) return;
  require(is_laid_out(result, at::MemoryFormat::Contiguous), args, "the layout of an out that changes its size");
  resize_out(out, result.sym_sizes());
}

}  // namespace

std::optional<c10::OperatorHandle> functional_form(const c10::OperatorHandle& op) {
  const Form* found = forms.find(op);
  return (found != nullptr ? found : forms.insert(find_form(op)))->functional;
}

std::optional<c10::OperatorHandle> without_outs(const c10::OperatorHandle& op) {
  const auto& schema = op.schema();
  const auto& arguments = schema.arguments();
  const size_t outs = schema.returns().size();
  if (outs == 0 || arguments.size() < outs || !arguments.back().is_out()) return std::nullopt;
  for (size_t i = 0; i < arguments.size(); ++i) {
    if (arguments[i].is_out() != (i >= arguments.size() - outs)) return std::nullopt;
  }
  auto& dispatcher = c10::Dispatcher::singleton();
  for (const auto& name : dispatcher.getAllOpNames()) {
    if (name.name != op.operator_name().name || name.overload_name == op.operator_name().overload_name) continue;
    auto found = dispatcher.findSchema(name);
    if (found && same_inputs(found->schema(), schema)) return found;
  }
  return std::nullopt;
}

void answer_outs(const c10::OperatorHandle& op, const c10::OperatorHandle& functional, torch::jit::Stack* stack,
                 const std::function<void(torch::jit::Stack*)>& answer) {
  Args args(op, stack);
  const size_t inputs = functional.schema().arguments().size();
  torch::jit::Stack made, outs;
  for (size_t i = 0; i < inputs; ++i) made.push_back(args[i]);
  for (size_t i = inputs; i < args.count(); ++i) outs.push_back(args[i]);
  const bool in_place = is_in_place(op);
  if (in_place) outs.push_back(args[0]);
  answer(&made);
  require(made.size() == outs.size(), args, "the number of results is not that of the outs");
  for (size_t i = 0; i < outs.size(); ++i) {
    require(made[i].isTensor() && outs[i].isTensor(), args, "an out that is not a tensor");
    const at::Tensor &result = made[i].toTensor(), &out = outs[i].toTensor();
    require(!in_place || out.sym_sizes().equals(result.sym_sizes()), args, "the target has another size");
    if (!in_place) write_out(args, result, out);
  }
  torch::jit::drop(*stack, args.count());
  for (auto& out : outs) stack->push_back(std::move(out));
}

}  // namespace stator::fake
