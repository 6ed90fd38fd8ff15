#include "core/graph/control_ops.h"

#include <torch/library.h>

#include <algorithm>
#include <string>

#include "core/base/fork_safe.h"
#include "core/base/text.h"

namespace stator::graph {
namespace {

/// By ControlOp.
constexpr const char* kSchemas[] = {
    "cond(Tensor predicate, Any yes, Any no, Tensor[] operands, bool differentiable) -> Tensor[]",
    "while_loop(Any test, Any body, Tensor[] carried, Tensor[] operands) -> Tensor[]",
    "map(Any body, Tensor[] rows, Tensor[] operands) -> Tensor[]",
    "scan(Any body, Tensor[] carried, Tensor[] rows, Tensor[] operands, bool differentiable) -> Tensor[]",
    "checkpoint(Any body, Tensor[] arguments, Tensor[] operands, bool? preserve_rng_state, bool? early_stop, "
    "str? determinism_check) -> Tensor[]",
    "checkpoint.writing(Any body, Tensor(a!)[] arguments, Tensor(b!)[] operands, bool? preserve_rng_state, "
    "bool? early_stop, str? determinism_check) -> Tensor[]",
    "reentrant_checkpoint(Any first, Any again, Tensor[] arguments, Tensor[] operands, bool preserve_rng_state) -> "
    "Tensor[]",
    "reentrant_checkpoint.writing(Any first, Any again, Tensor[] arguments, Tensor(a!)[] operands, "
    "bool preserve_rng_state) -> Tensor[]",
};

void refuse_call(const c10::OperatorHandle& op, torch::jit::Stack*) {
  TORCH_CHECK(false, op.operator_name(), " is run by the executor of a graph, not by the dispatcher");
}

std::vector<c10::OperatorHandle> define_ops() {
  // Never deleted: graphs hold the operators.
  auto* library = new torch::Library(torch::Library::FRAGMENT, "stator", std::nullopt, __FILE__, __LINE__);
  std::vector<c10::OperatorHandle> ops;
  for (const std::string schema : kSchemas) {
    const std::string name = schema.substr(0, schema.find('('));
    library->def(schema.c_str());
    library->impl(name.c_str(), torch::dispatch(c10::DispatchKey::CompositeImplicitAutograd,
                                                torch::CppFunction::makeFromBoxedFunction<&refuse_call>()));
    const size_t dot = name.find('.');
    ops.push_back(c10::Dispatcher::singleton().findSchemaOrThrow(
        ("stator::" + name.substr(0, dot)).c_str(), dot == std::string::npos ? "" : name.substr(dot + 1).c_str()));
  }
  return ops;
}

auto& defined_ops = *new ForkSafeOnce<std::vector<c10::OperatorHandle>>;

const std::vector<c10::OperatorHandle>& all_ops() { return defined_ops.get(define_ops); }

std::string count_problem(const char* what, size_t found, size_t wanted) {
  if (found == wanted) return {};
  return concat({what, " ", std::to_string(found), ", not ", std::to_string(wanted)});
}

}  // namespace

void install_control_ops() { all_ops(); }

const c10::OperatorHandle& control_op(ControlOp op) { return all_ops()[static_cast<size_t>(op)]; }

bool is_control_op(const c10::OperatorHandle& op) {
  return std::find(all_ops().begin(), all_ops().end(), op) != all_ops().end();
}

std::string find_control_problem(const Node& node) {
  size_t taken = 0;
  for (const Argument& argument : node.args)
    if (argument.kind == Argument::Kind::List) taken += argument.items.size();
  const size_t made = node.results[0].values.size();
  const bool is_loop = node.op == control_op(ControlOp::WhileLoop);
  if (is_loop) {
    auto problem = count_problem("the number of carried tensors is", node.args[2].items.size(), made);
    if (!problem.empty()) return problem;
  }
  for (size_t i = 0; i < node.args.size(); ++i) {
    if (node.args[i].kind != Argument::Kind::Graph) continue;
    const Graph& part = *node.args[i].graph();
    auto problem = count_problem("the number of the sub-graph's inputs is", part.inputs.size(), taken);
    if (!problem.empty()) return problem;
    const bool is_test = is_loop && i == 0;
    problem = count_problem("the number of the sub-graph's results is", part.outputs.size(), is_test ? 1 : made);
    if (!problem.empty()) return problem;
  }
  return {};
}

}  // namespace stator::graph
