#pragma once

#include <map>
#include <string>
#include <vector>

#include "capture/interpreter/interpreter.h"

/// What control flow as operators shares: branches and bodies as graphs of their own, and the nodes that run them.
namespace stator::capture {

struct Branch {
  Value* result = nullptr;
  std::vector<PyObject*> outputs;  // fakes, all made in the branch
  TorchTracer::Part part;
};

[[noreturn]] void refuse_control(const std::string& what);
/// Breaks where no such node can be: inside of a transform, or under a torch-function mode.
void refuse_inside(Interpreter& in, const char* what);
/// Breaks unless there are only tensors, in tuples, lists and dicts.
void require_tensors(Interpreter& in, Value* value, const std::string& what);

/// Interprets the function once; it becomes a graph of its own. What torch refuses in such functions is a break.
Branch trace_branch(Interpreter& in, Value* function, CallArgs args, const std::string& what);

/// The same structure of tuples, lists and dicts, with tensors of the same kind at its ends.
bool is_alike(Interpreter& in, Value* a, Value* b);
/// Whether gradients follow what a node makes of these.
bool is_followed(const std::vector<PyObject*>& fakes);
bool any_requires_grad(const std::vector<PyObject*>& fakes);
/// The results of a node as of one operator on all that it takes, as gradients see it. Takes and gives tuples of fakes.
Ref joined_results(Interpreter& in, const Ref& made, const std::vector<PyObject*>& taken, const char* what);

/// The tensors that a node takes: each once, by its fake.
class Operands {
 public:
  size_t place_of(PyObject* fake);
  /// Where the inputs of a part stand among them.
  Ref places_of(const TorchTracer::Part& part);
  const std::vector<PyObject*>& fakes() const { return fakes_; }

 private:
  std::vector<PyObject*> fakes_;
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

void add_node(Interpreter& in, const char* what, const Ref& call, const std::vector<PyObject*>& tensors,
              PyObject* results);
Ref tuple_of(const std::vector<PyObject*>& items);

}  // namespace stator::capture
