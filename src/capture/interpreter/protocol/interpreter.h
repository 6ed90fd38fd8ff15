#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "capture/call/break.h"
#include "capture/interpreter/state/attempt_options.h"
#include "capture/interpreter/state/call_args.h"
#include "capture/interpreter/state/effect_log.h"
#include "capture/interpreter/state/end_report.h"
#include "capture/interpreter/state/frame_stack.h"
#include "capture/interpreter/state/guard_recorder.h"
#include "capture/interpreter/state/lifetimes.h"
#include "capture/interpreter/state/marks.h"
#include "capture/interpreter/state/object_map.h"
#include "capture/interpreter/state/start_frame.h"
#include "capture/interpreter/state/torch_session.h"
#include "capture/pycompat/code.h"
#include "capture/pycompat/evaluation.h"
#include "capture/values/arena.h"
#include "capture/values/prototypes.h"
#include "capture/values/value.h"

namespace stator::capture {

/// A call of torch's on objects that represent values; gives a new reference, or null with a Python error set. Refers
/// to the callable that it is made from, which outlives it.
class TorchCall {
 public:
  template <class F>
  TorchCall(const F& make)  // NOLINT: lambdas become one where they are given
      : made_by_(&make), call_([](const void* self, PyObject* const* objects) -> PyObject* {
          return (*static_cast<const F*>(self))(objects);
        }) {}
  PyObject* operator()(PyObject* const* objects) const { return call_(made_by_, objects); }

 private:
  const void* made_by_;
  PyObject* (*call_)(const void*, PyObject* const*);
};

/// Ends an attempt at the instruction it was told to stop before, after the frames' state was recorded.
struct Stopped {};

/// Interprets bytecode over values. It owns the state of one capture attempt, in parts, and offers the operations of
/// the language, which the topics (attributes, calls, containers, ...) implement. It never changes the program's own
/// objects: changes go to the effect log. One instance serves one attempt, on one thread, with the GIL held.
class Interpreter {
  // The first member: making the others may call Python code, in which no signal handler must run.
  std::optional<NoSignals> no_signals_{std::in_place};

 public:
  /// Handlers of signals wait from here on, until `allow_signals` or the end of the interpreter.
  Interpreter(const Start& start, const std::string& graph_name, AttemptOptions options);
  ~Interpreter();

  /// Interprets from the start to the frame's end and returns its result. At the step `options.stop_before` it calls
  /// `at_stop` with all frames in place, then throws Stopped. Throws Break, or Raise for an exception that leaves the
  /// frame; `end` then tells where. Once.
  Value* run(std::function<void()> at_stop);
  /// The attempt is over: signal handlers run again.
  void allow_signals() { no_signals_.reset(); }

  // ---- the parts, in the order in which they depend on each other
  const AttemptOptions options;
  const Marks marks;
  ValueArena arena;
  StartFrame start;
  FrameStack frames;
  ObjectMap objects;
  Prototypes prototypes;  // classes and descriptors that the program made
  EffectLog effects;
  GuardRecorder guards;
  Lifetimes lifetimes;
  TorchSession torch;
  EndReport end;

  // ---- making values
  Value* none() const { return none_; }
  Value* boolean(bool value) const { return value ? true_ : false_; }
  ConstantValue* constant(Ref object);  // a literal, or guarded by identity: decided by its type
  ConstantValue* constant(PyObject* borrowed) { return constant(Ref::borrow(borrowed)); }
  Value* integer(int64_t value);
  SequenceValue* tuple(std::vector<Value*> items);
  SequenceValue* list(std::vector<Value*> items);
  DictValue* dict();
  /// The value of an external object. Mutable objects and tensors are one value however they are reached.
  Value* wrap(PyObject* object, Source* source);
  /// The value of an object that torch or a pure function returned during capture.
  Value* wrap_result(PyObject* object);
  FunctionValue* external_function(PyObject* function, Source* source);

  // ---- looking at values (these record guards)
  /// The object of a constant, guarded; null if the value is not a constant.
  PyObject* constant_of(Value* value);
  /// A Python object equal to a value that is made of literals only, else null. New reference.
  Ref literal_of(Value* value);
  /// Guards all attributes that an object guarded by identity has of its own (an enum member, an operator packet). To
  /// be called where methods of its class, written in Python, run for real.
  void guard_own_state(ConstantValue* constant);
  /// Guards which object an external instance is, because the program's behaviour depends on it. Borrowed.
  PyObject* need_identity(ObjectValue* instance);
  PyTypeObject* type_of(Value* value);
  bool truth(Value* value);
  bool is_same(Value* a, Value* b);
  std::optional<Py_ssize_t> length_of(Value* value);
  bool is_instance(Value* value, Value* classes);

  // ---- sequences, dicts, iteration
  Value* item(SequenceValue* sequence, size_t index);
  std::vector<Value*> unpack(Value* iterable);  // all items; exhausts iterators
  Value* iterate(Value* iterable);              // iter(x)
  Value* next(Value* iterator);                 // null at the end
  Value* dict_get(DictValue* dict, Value* key);
  void dict_set(DictValue* dict, Value* key, Value* value);
  bool dict_delete(DictValue* dict, Value* key);
  void realise(DictValue* dict);
  Value* entry_value(DictValue* dict, size_t index);  // of an entry that is there
  /// The dict or list part of a value: itself, or the base of an instance of a subclass.
  DictValue* dict_part(Value* value);
  SequenceValue* list_part(Value* value);
  /// Logs the change of a container if it is external; to be called after each change.
  void mutated(Value* container);
  /// Logs a method call on an external instance of a built-in class, to be made again when the plan ends.
  void replay_method(Value* target, const char* method, std::vector<Value*> arguments);
  /// Guards that a changed object is not another external object that the program looked at, and that tensors share
  /// memory as they do now, where that matters. Once, when all effects are known.
  void guard_aliases();

  // ---- operations of the language
  Value* get_attr(Value* value, PyObject* name);
  Value* find_attr(Value* value, PyObject* name);  // null when there is none
  void set_attr(Value* value, PyObject* name, Value* to);
  void del_attr(Value* value, PyObject* name);
  Value* bind_descriptor(PyObject* descriptor, PyTypeObject* owner, Value* self, PyObject* name);
  Value* get_item(Value* value, Value* key);
  void set_item(Value* value, Value* key, Value* to);
  void del_item(Value* value, Value* key);
  Value* binary(int op, Value* a, Value* b);
  Value* unary(pycompat::Op op, Value* value);
  Value* compare(int op, Value* a, Value* b);
  bool contains(Value* container, Value* item);
  Value* format(Value* value, int conversion, Value* spec);
  Value* call(Value* callee, CallArgs args, CallMode mode = {});
  Value* call_function(FunctionValue* function, CallArgs&& args, CallMode mode = {});
  Value* call_method(Value* self, const char* name, std::vector<Value*> args);
  Value* instantiate(PyTypeObject* type, CallArgs args, CallMode mode = {});
  Value* load_global(Frame& frame, PyObject* name);
  Value* local(Frame& frame, int slot);  // null if unbound
  void open_closure(FunctionValue* function);
  /// Runs a frame until it returns or yields.
  Value* run_frame(Frame& frame);
  [[noreturn]] void raise(PyObject* type, const std::string& message);

  // ---- torch
  /// The fake of a tensor value; makes it a graph input on first use.
  PyObject* fake_of(TensorValue* tensor);
  /// Arguments for a torch call: fakes in place of tensors, containers rebuilt. Throws Break if impossible.
  Ref to_torch(Value* value);
  Value* call_torch(PyObject* callable, const CallArgs& args);
  /// Makes a call of torch's on values: recorded on their fakes, or by the `__torch_function__` that overrides it.
  Value* apply(std::span<Value* const> values, const char* what, const TorchCall& call);
  /// Records a call on fakes; gives its result as a value.
  template <class F>
  Value* torch_result(F&& call, const RunningCall& what) {
    Ref result = torch.record(std::forward<F>(call), what);
    if (!result) torch.fail(what.function);
    return wrap_result(result.get());
  }

 private:
  Value* wrap_fresh(PyObject* object, Source* source);
  void guard_memory(const std::vector<InputWrite>& writes);
  Value* apply(std::span<Value* const> values, const RunningCall& what, const TorchCall& call, bool overridden);
  void open_modes();
  void open_start(Frame& top, const pycompat::Code& code);
  /// Runs a frame that is the current one.
  Value* run_entered(Frame& frame);
  /// Executes instructions until the frame returns or yields; exceptions of the program leave it.
  void run_instructions(Frame& frame);
  /// Continues the frame at its handler for the exception; throws it where there is none.
  void enter_handler(Frame& frame, const Raise& raised);

  std::function<void()> at_stop_;
  Value* none_ = nullptr;
  Value* true_ = nullptr;
  Value* false_ = nullptr;
};

}  // namespace stator::capture
