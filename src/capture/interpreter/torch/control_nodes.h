#pragma once

#include <map>
#include <string>
#include <vector>

#include "capture/interpreter/protocol/interpreter.h"

/// Shared by the models of torch.cond, while_loop, map and scan: a branch or body becomes a sub-graph, and a node holds
/// the sub-graphs.
namespace stator::capture {

struct Branch {
  Value* result = nullptr;
  std::vector<PyObject*> outputs;  // fakes, all made in the branch
  TorchTracer::Part part;
};

[[noreturn]] void refuse_control(const std::string& what);
/// Breaks where such a node is not possible: inside a transform, or under a torch-function mode.
void refuse_inside(Interpreter& in, const char* what);
/// Breaks unless there are only tensors, in tuples, lists and dicts.
void require_tensors(Interpreter& in, Value* value, const std::string& what);

/// Interprets the function once and makes it a sub-graph. What torch rejects in such functions is a break.
/// `gives_plain`: results of a subclass become plain tensors, as they do in torch.
Branch trace_branch(Interpreter& in, Value* function, CallArgs args, const std::string& what, bool gives_plain = false);

/// Whether both have the same structure of tuples, lists and dicts, and tensors with the same metadata.
bool is_alike(Interpreter& in, Value* a, Value* b);
/// Whether autograd tracks the results of a node with these inputs.
bool needs_gradients(const std::vector<PyObject*>& fakes);
bool any_requires_grad(const std::vector<PyObject*>& fakes);
/// Makes the node one operation on all its inputs for autograd. Takes and returns tuples of fakes.
Ref joined_results(Interpreter& in, graph::ControlOp op, const Ref& made, const std::vector<PyObject*>& taken,
                   const char* what);

/// The inputs of the sub-graphs of one node: the fakes that its functions are called with, then those that they use
/// from elsewhere, each once.
class SubgraphInputs {
 public:
  explicit SubgraphInputs(std::vector<PyObject*> given = {}) : given_(std::move(given)) {}
  /// Adds what the part uses from elsewhere.
  void add(const TorchTracer::Part& part);
  const std::vector<PyObject*>& from_elsewhere() const { return from_elsewhere_; }
  /// Makes the part's graph take all of them. To be called once all parts are added.
  void arrange(TorchTracer::Part& part) const;

 private:
  std::vector<PyObject*> given_, from_elsewhere_;
};

/// A result with other fakes in the places of `outputs`.
class Replacement {
 public:
  Replacement(Interpreter& in, const std::vector<PyObject*>& outputs, PyObject* results);
  Value* of(Value* value);

 private:
  Interpreter& in_;
  std::map<PyObject*, PyObject*> fakes_;
};

void add_control(Interpreter& in, const char* what, graph::ControlOp op,
                 const std::vector<TorchTracer::ControlOperand>& operands, PyObject* results);
Ref tuple_of(const std::vector<PyObject*>& items);

}  // namespace stator::capture
