#pragma once

#include <unordered_map>
#include <vector>

#include "capture/interpreter/protocol/interpreter.h"

/// Torch's protocol for overriding its functions: `__torch_function__` of modes, of subclasses of Tensor and of other
/// classes. Torch's own bindings tell which arguments count, in which order, and what the method gets.
namespace stator::capture {

/// Whether a torch function with this argument calls a `__torch_function__`, of the argument's class or of a mode.
bool is_overridden(Interpreter& in, Value* value);
bool is_overridden(Interpreter& in, const CallArgs& args);
bool is_overridden(Interpreter& in, std::span<Value* const> values);
/// A cheap test that records no guard. False: the call is not overridden.
bool may_be_overridden(const Interpreter& in, const CallArgs& args);
/// The same for the value alone, without its items.
bool is_overriding(Interpreter& in, Value* value);
/// Whether a torch-function mode is active.
bool has_active_mode(const Interpreter& in);
/// Whether instances of the class override torch's functions. Its version is guarded.
bool is_overriding_class(Interpreter& in, PyTypeObject* type);
/// Whether the tensor's class overrides this attribute of Tensor.
bool class_overrides(Interpreter& in, TensorValue* tensor, const char* name);
/// Whether a special method of a tensor is not Tensor's own: its class overrides it, or a `__torch_function__` gets it.
inline bool is_customised(Interpreter& in, TensorValue* tensor, const char* method) {
  return is_overridden(in, tensor) || class_overrides(in, tensor, method);
}

/// While it lives, torch functions are not overridden, as inside of torch itself.
class OverridesDisabled {
 public:
  explicit OverridesDisabled(Interpreter& in)
      : in_(in), before_(std::exchange(in.torch.overriding, Overriding::AllDisabled)) {}
  ~OverridesDisabled() { in_.torch.overriding = before_; }
  OverridesDisabled(const OverridesDisabled&) = delete;

 private:
  Interpreter& in_;
  Overriding before_;
};

/// A call of a binding with probe arguments, to learn which `__torch_function__` it calls and with what. While it
/// lives, `Interpreter::to_torch` gives probe arguments for overriding values.
class OverrideQuery {
 public:
  explicit OverrideQuery(Interpreter& in);
  ~OverrideQuery();
  OverrideQuery(const OverrideQuery&) = delete;

  void probe_argument(TensorValue* tensor, PyObject* fake);
  Ref probe_argument(Value* object);
  /// The object represents the value in the arguments that the binding passes on.
  void note(PyObject* object, Value* value) { values_[object] = value; }

  /// Makes the call. Gives the result of the `__torch_function__`, or of the call itself if it can't be overridden.
  Value* run(const TorchCall& call, PyObject* const* objects, const char* what);

 private:
  Value* value_of(PyObject* object);
  void leave();

  Interpreter& in_;
  OverrideQuery* outer_;
  std::vector<PyTypeObject*> types_;                  // of the program's values, by number of the probe arguments
  std::vector<std::pair<Ref, Ref>> probe_arguments_;  // probe arguments; of fakes: their own class
  std::unordered_map<PyObject*, Value*> values_;
};

/// The classes of overriding arguments in torch's order: each once, from left to right, but subclasses before their
/// bases.
std::vector<PyTypeObject*> in_override_order(const std::vector<PyTypeObject*>& found);
/// The method of a class by which it overrides torch's functions or operators, as torch finds it for an instance.
Value* class_implementation(Interpreter& in, PyTypeObject* type, PyObject* name);

/// Breaks for a class that a tensor made in the capture can't have. `may_dispatch`: it may have a `__torch_dispatch__`.
void check_tensor_class(Interpreter& in, PyTypeObject* cls, bool may_dispatch = false);
/// As Tensor.as_subclass: a new tensor over the same memory, of that class.
Value* as_subclass(Interpreter& in, TensorValue* tensor, PyTypeObject* cls);

}  // namespace stator::capture
