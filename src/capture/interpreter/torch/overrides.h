#pragma once

#include <unordered_map>
#include <vector>

#include "capture/interpreter/interpreter.h"

/// Torch's protocol for overriding its functions: `__torch_function__` of modes, of subclasses of Tensor and of other
/// classes. Which arguments count, in which order, and what is handed over is asked of torch's own bindings.
namespace stator::capture {

/// Whether a function of torch's that is given this value now goes to a `__torch_function__`: its class's, or a mode's.
bool is_overridden(Interpreter& in, Value* value);
bool is_overridden(Interpreter& in, const CallArgs& args);
bool is_overridden(Interpreter& in, std::span<Value* const> values);
/// False where a look at the arguments themselves tells that they are not. Adds no guard.
bool may_be_overridden(const Interpreter& in, const CallArgs& args);
/// The same of the value alone, whatever it contains.
bool is_overriding(Interpreter& in, Value* value);
/// Whether a torch-function mode is active.
bool has_active_mode(const Interpreter& in);
/// Whether instances of the class override torch's functions. Its version is guarded.
bool is_overriding_class(Interpreter& in, PyTypeObject* type);
/// Whether a subclass of Tensor defines the attribute anew.
bool defines_anew(Interpreter& in, TensorValue* tensor, const char* name);
/// Whether a special method of a tensor is not simply Tensor's own: a class defines it anew, or it is overridden.
inline bool is_asked(Interpreter& in, TensorValue* tensor, const char* method) {
  return is_overridden(in, tensor) || defines_anew(in, tensor, method);
}

/// While it lives torch's functions are called as from inside of torch: nobody overrides them.
class Plainly {
 public:
  explicit Plainly(Interpreter& in) : in_(in), before_(std::exchange(in.overriding, Overriding::AllDisabled)) {}
  ~Plainly() { in_.overriding = before_; }
  Plainly(const Plainly&) = delete;

 private:
  Interpreter& in_;
  Overriding before_;
};

/// One question to a binding. While it lives, `Interpreter::to_torch` gives stand-ins for what overrides.
class Asking {
 public:
  explicit Asking(Interpreter& in);
  ~Asking();
  Asking(const Asking&) = delete;

  void stand_in(TensorValue* tensor, PyObject* fake);
  Ref stand_in(Value* object);
  /// The object stands for the value in what the binding hands over.
  void note(PyObject* object, Value* value) { values_[object] = value; }

  /// Makes the call; gives what a `__torch_function__` gave, or the call's own result if torch lets nobody override it.
  Value* run(const TorchCall& call, PyObject* const* objects, const char* what);

 private:
  Value* value_of(PyObject* object);
  void leave();

  Interpreter& in_;
  Asking* outer_;
  std::vector<PyTypeObject*> types_;            // of the program's values, by number of the stand-in
  std::vector<std::pair<Ref, bool>> standing_;  // stand-ins, and whether they are fakes
  std::unordered_map<PyObject*, Value*> values_;
};

/// Breaks for a class that no tensor made in the capture can be of.
void check_tensor_class(Interpreter& in, PyTypeObject* cls);
/// As Tensor.as_subclass: a new tensor over the same memory, of that class.
Value* as_subclass(Interpreter& in, TensorValue* tensor, PyTypeObject* cls);

}  // namespace stator::capture
