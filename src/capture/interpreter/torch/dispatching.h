#pragma once

#include <memory>
#include <unordered_set>
#include <vector>

#include "capture/interpreter/protocol/interpreter.h"

/// Tensors of classes with a `__torch_dispatch__`, which answers operators on them below autograd. They have no data of
/// their own and are no values of the graph: torch gets a probe with their metadata, whose class calls the interpreter,
/// which interprets the program's `__torch_dispatch__`. What that method calls on other tensors is recorded.
namespace stator::capture {

/// What a tensor value has beside its fake, which is a probe.
struct Dispatching {
  MadeBy made_by;                       // the program's call that made it; no callable: the tensor is external
  uint64_t step = 0;                    // at which it was made; to break before, if the plan cannot make it
  bool is_view = false;                 // autograd takes it for a view of another tensor
  TensorValue* same_storage = nullptr;  // `return_and_correct_aliasing` gave it the storage of this tensor
  // The operator whose `__torch_dispatch__` gave it, if that is known, with a tuple and a dict of arguments.
  Ref operation;
  Value* arguments = nullptr;
  Value* keywords = nullptr;
  bool in_grad_mode = false;
};

/// The tensors of one capture, by the number that their probes bear. A probe may outlive the capture.
struct DispatchTable {
  Interpreter* in;  // null once the capture is over
  std::vector<TensorValue*> tensors;
  size_t answered = 0;  // operators
  int answering = 0;    // how many are being answered
  /// Views that were made inside of a `__torch_dispatch__`: autograd does not know them as such.
  std::unordered_set<const TensorValue*> untracked;
};

/// The value of an external tensor for which `TorchTracer::is_wrapper` holds. Breaks for one whose class also answers
/// for its sizes or its device.
TensorValue* external_wrapper(Interpreter& in, PyObject* object, Source* source);
/// Makes the probe of an external one, and guards its metadata.
void open_wrapper(Interpreter& in, TensorValue* tensor);
/// The tensor behind a probe that torch returned; null for other objects.
TensorValue* tensor_of_probe(Interpreter& in, PyObject* object);
/// To be called for each plain tensor that torch made, once the capture has a tensor with a `__torch_dispatch__`.
void note_view(Interpreter& in, TensorValue* tensor);
/// Whether a plan must hide from autograd that the tensor is a view.
bool is_untracked_view(const Interpreter& in, const TensorValue* tensor);
/// torch.Tensor._make_wrapper_subclass(cls, size, ...)
Value* make_wrapper(Interpreter& in, CallArgs& args);
/// torch.utils._python_dispatch.return_and_correct_aliasing(func, args, kwargs, out)
Value* return_aliased(Interpreter& in, CallArgs& args);

}  // namespace stator::capture
