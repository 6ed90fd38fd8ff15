#include "core/backend/reference/control.h"

#include <ATen/core/List.h>
#include <ATen/ops/stack.h>

#include "core/backend/backend.h"
#include "core/backend/host.h"
#include "core/backend/join_gradients.h"
#include "core/backend/reference/checkpoint.h"
#include "core/backend/reference/reentrant_checkpoint.h"
#include "core/base/check.h"
#include "core/graph/control_ops.h"

namespace stator::backend {
namespace {

using graph::ControlOp;
using Tensors = std::vector<at::Tensor>;
using Part = std::unique_ptr<Executable>;

InterruptCheck interrupt_check = nullptr;

void check_interrupt() {
  if (interrupt_check) interrupt_check();
}

Part compile_part(const graph::Node& node, size_t argument) { return compile_reference(node.args[argument].graph()); }

void append(Tensors& to, const Tensors& tensors) { to.insert(to.end(), tensors.begin(), tensors.end()); }

class Cond final : public ControlNode {
 public:
  explicit Cond(const graph::Node& node) : yes_(compile_part(node, 1)), no_(compile_part(node, 2)) {}

  Tensors run(torch::jit::Stack& args) const override {
    const bool differentiable = args[2].toBool();
    Tensors operands = args[1].toTensorVector();
    const bool chosen = args[0].toTensor().item<bool>();
    args.clear();
    const Executable& part = chosen ? *yes_ : *no_;
    if (!differentiable) return part.run(std::move(operands));
    return join_gradients(ControlOp::Cond, part.run(operands), operands);
  }

 private:
  Part yes_, no_;
};

class WhileLoop final : public ControlNode {
 public:
  explicit WhileLoop(const graph::Node& node) : test_(compile_part(node, 0)), body_(compile_part(node, 1)) {}

  Tensors run(torch::jit::Stack& args) const override {
    Tensors carried = args[0].toTensorVector();
    const Tensors operands = args[1].toTensorVector();
    args.clear();
    for (bool is_first = true;; is_first = false) {
      Tensors taken = carried;
      append(taken, operands);
      if (!test_->run(taken).at(0).item<bool>()) return is_first ? copies_of(carried) : carried;
      carried.clear();
      carried = body_->run(std::move(taken));
      check_interrupt();
    }
  }

 private:
  /// Results are new tensors, even if a loop makes no iteration.
  static Tensors copies_of(const Tensors& tensors) {
    Tensors copies;
    for (const at::Tensor& tensor : tensors) copies.push_back(tensor.clone());
    return copies;
  }

  Part test_, body_;
};

/// `map` and `scan`: a loop over rows.
class Rows final : public ControlNode {
 public:
  explicit Rows(const graph::Node& node)
      : is_scan_(node.op == graph::control_op(ControlOp::Scan)), body_(compile_part(node, 0)) {}

  Tensors run(torch::jit::Stack& args) const override {
    size_t next = 0;
    Tensors carried;
    if (is_scan_) carried = args[next++].toTensorVector();
    const Tensors rows = args[next++].toTensorVector(), operands = args[next++].toTensorVector();
    const bool differentiable = is_scan_ && args[next].toBool();
    args.clear();
    Tensors all;
    if (differentiable) {
      all = carried;
      append(all, rows);
      append(all, operands);
    }
    Tensors results = loop(std::move(carried), rows, operands);
    return differentiable ? join_gradients(ControlOp::Scan, results, all) : results;
  }

 private:
  Tensors loop(Tensors carried, const Tensors& rows, const Tensors& operands) const {
    const size_t num_carried = carried.size();
    std::vector<Tensors> split, columns;
    for (const at::Tensor& tensor : rows) split.push_back(tensor.unbind(0));
    const size_t turns = split.empty() ? 0 : split[0].size();
    for (size_t turn = 0; turn < turns; ++turn) {
      Tensors taken = std::move(carried);
      for (const Tensors& row : split) taken.push_back(row.at(turn));
      append(taken, operands);
      Tensors made = body_->run(std::move(taken));
      columns.resize(made.size() - num_carried);
      for (size_t i = 0; i < columns.size(); ++i) columns[i].push_back(std::move(made[num_carried + i]));
      made.resize(num_carried);
      carried = std::move(made);
      check_interrupt();
    }
    TORCH_CHECK(turns > 0, "a loop over no rows");
    for (const Tensors& column : columns) carried.push_back(at::stack(column));
    return carried;
  }

  bool is_scan_;
  Part body_;
};

class Checkpoint final : public ControlNode {
 public:
  explicit Checkpoint(const graph::Node& node) : part_(compile_part(node, 0)) {}

  Tensors run(torch::jit::Stack& args) const override {
    Tensors arguments = args[0].toTensorVector(), operands = args[1].toTensorVector();
    const CheckpointOptions options{args[2].toOptional<bool>().value_or(true),
                                    args[3].toOptional<bool>().value_or(true),
                                    args[4].toOptional<std::string>() != "none"};
    args.clear();
    return run_checkpoint(part_, std::move(arguments), std::move(operands), options);
  }

 private:
  std::shared_ptr<const Executable> part_;
};

class Reentrant final : public ControlNode {
 public:
  explicit Reentrant(const graph::Node& node) : first_(compile_part(node, 0)), again_(compile_part(node, 1)) {}

  Tensors run(torch::jit::Stack& args) const override {
    Tensors arguments = args[0].toTensorVector(), operands = args[1].toTensorVector();
    const bool preserve_rng_state = args[2].toBool();
    args.clear();
    return run_reentrant_checkpoint(*first_, again_, std::move(arguments), std::move(operands), preserve_rng_state);
  }

 private:
  Part first_;
  std::shared_ptr<const Executable> again_;
};

}  // namespace

void set_interrupt_check(InterruptCheck check) { interrupt_check = check; }

std::unique_ptr<ControlNode> make_control_node(const graph::Node& node) {
  if (node.op == graph::control_op(ControlOp::Cond)) return std::make_unique<Cond>(node);
  if (node.op == graph::control_op(ControlOp::WhileLoop)) return std::make_unique<WhileLoop>(node);
  if (node.op == graph::control_op(ControlOp::Map) || node.op == graph::control_op(ControlOp::Scan))
    return std::make_unique<Rows>(node);
  if (node.op == graph::control_op(ControlOp::Reentrant) || node.op == graph::control_op(ControlOp::WritingReentrant))
    return std::make_unique<Reentrant>(node);
  return std::make_unique<Checkpoint>(node);
}

}  // namespace stator::backend
