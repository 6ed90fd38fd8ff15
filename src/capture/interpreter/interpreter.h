#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "capture/call/break.h"
#include "capture/call/plan.h"
#include "capture/guards/function_modes.h"
#include "capture/guards/transforms.h"
#include "capture/interpreter/calls/marks.h"
#include "capture/interpreter/torch/tracer.h"
#include "capture/pycompat/code.h"
#include "capture/pycompat/evaluation.h"
#include "capture/values/prototypes.h"
#include "capture/values/source.h"
#include "capture/values/value.h"
#include "core/base/pointer_map.h"

/// Walks bytecode with symbolic values. It never changes the program's own objects: mutations of outside objects go to
/// an effect log. One instance serves one capture on one thread with the GIL held.
namespace stator::capture {

class Interpreter;
class Asking;

/// A call of torch's on objects that stand for values; gives a new reference, or null with a Python error set. Refers
/// to what makes it, which outlives it.
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

/// Where a capture begins: a place in a frame's code, and what its slots and stack hold there.
struct Start {
  PyObject* function;
  int32_t offset = 0;                 // code unit
  PyObject* const* values = nullptr;  // localsplus slots (at offset 0 only the parameters), then the stack
  int32_t depth = 0;                  // of the stack
  /// Places whose value is not to be looked at, as sources describe themselves; outlives the capture.
  const std::unordered_set<std::string>* varying = nullptr;
  bool break_is_error = false;                   // in the body of the function itself, and of what it calls
  const WithoutFunctionModes* hidden = nullptr;  // torch-function modes that are active there; null: none
};

/// One activation: the captured frame itself, an inlined call, or a generator half-way through.
struct Frame {
  Interpreter* owner = nullptr;
  const pycompat::Code* code = nullptr;
  FunctionValue* function = nullptr;
  PyObject* globals = nullptr;
  Source* globals_source = nullptr;
  PyObject* builtins = nullptr;
  std::vector<Value*> locals;   // by localsplus slot; null: unbound, or an argument nobody looked at yet
  std::vector<Source*> unread;  // the captured frame: sources of such arguments, by slot
  std::vector<bool> kept;       // a frame captured from its middle: slots that still hold what they held, if anything
  std::vector<Value*> stack;
  size_t pc = 0;
  int line = 0;
  Frame* caller = nullptr;
  uint32_t location = 0;  // in the graph, of `located_line`; 0: none yet
  int located_line = 0;
  Value* result = nullptr;  // set by return and yield
  bool returned = false, yielded = false;
  Value* handled = nullptr;                          // exception being handled
  bool in_transform = false;                         // when it was entered last: see Interpreter::in_transform
  DictValue* locals_dict = nullptr;                  // what locals() gave
  DictValue* names = nullptr;                        // the body of a class: what its names stand for
  Value* thrown = nullptr;                           // generators: raised at the `yield` when the frame goes on
  uint64_t step = 0;                                 // number of the instruction that runs, over the whole capture
  Continuation continuation = Continuation::Opaque;  // how the caller goes on with the result
  bool break_is_error = false;                       // see Start; compiled functions have their own say

  Value* pop() {
    Value* top = read(stack.back());
    stack.pop_back();
    return top;
  }
  void push(Value* value) { stack.push_back(value); }
  Value*& top(size_t depth = 1) {
    Value*& place = stack[stack.size() - depth];
    place = read(place);
    return place;
  }
  /// The value itself, in place of one that nobody looked at yet.
  Value* read(Value* value) const;
  void store(int slot, Value* value) {
    if (!unread.empty()) unread[slot] = nullptr;
    if (!kept.empty()) kept[slot] = false;
    locals[slot] = value;
  }
  const pycompat::Instr& instr() const { return code->instrs[pc - 1]; }
};

/// Ends a run at the instruction it was told to stop before, when the state has been taken.
struct Stopped {};

/// Arguments of a call in the program: positional, then keywords by name.
struct CallArgs {
  std::vector<Value*> positional;
  std::vector<std::pair<Ref, Value*>> keywords;  // names are exact str
  bool is_spread = false;                        // keywords came by `**`, even if there are none

  Value* keyword(const char* name) const;
  size_t count() const { return positional.size() + keywords.size(); }
};

enum class EffectKind : uint8_t {
  SetAttr,
  DelAttr,
  ListReplace,
  DictReplace,
  CallMethod,  // key: name of a method of a built-in class; value: tuple of arguments
  SetCell,
  SetGlobal,
  DelGlobal,
  Make,  // the target is made by a call, in this order among others
  Take,  // `count` items are taken from an iterator
};

/// A change of an outside object, to be replayed when the plan ends.
struct Effect {
  EffectKind kind;
  Value* target;
  Value* key = nullptr;
  Value* value = nullptr;
  int32_t count = 0;
};

struct GeneratorValue;

class Interpreter {
 public:
  Interpreter(const Start& start, std::string graph_name);
  ~Interpreter();

  /// Interprets from the start to the frame's end and gives its result. Throws Break, or Raise for an exception that
  /// leaves the frame; `end_step` is then the step to stop before in a second run that ends in a state map.
  Value* run();
  /// The instruction to stop before (0: none): `at_stop` is called with all frames in place, then Stopped thrown.
  uint64_t stop_before = 0;
  /// How this run differs from the first one.
  struct Manner {
    bool reads_items = false;               // integers in input tensors are known, and guarded
    std::vector<uint64_t> hooks_of_copies;  // steps that give a hook to a tensor which is written later
    std::vector<PyCodeObject*> as_nodes;    // functions allowed in graphs that are called by a node
  };
  Manner manner;
  const Marks marks;
  NoSignals* signals = nullptr;  // what keeps them waiting; lent
  std::function<void()> at_stop;
  uint64_t end_step = 0;
  PyCodeObject* end_allowed = nullptr;  // see allowed_code
  bool node_failed = false;             // a function in `as_nodes` could not be called by a node
  /// The step to stop before so that every frame that stands now, or stands then, can be gone on in.
  uint64_t resumable_step() const;
  /// The step of the outermost frame's instruction at that moment.
  uint64_t outer_step = 0;
  /// Which places of the start hold something, of those that were looked at, for a start in the middle of a frame.
  std::vector<BoundPlace> bound_places() const;
  /// The step that raised an exception of this capture, as one that can be stopped before.
  uint64_t raise_step(Value* exception) const;
  /// How the instruction that runs uses the result of the call it makes last; taken by the call that is inlined.
  Continuation continuation = Continuation::Opaque;

  // ---- making values
  ValueArena arena;
  Value* none();
  Value* boolean(bool value);
  ConstantValue* constant(Ref object);  // literal or identity, decided by type
  ConstantValue* constant(PyObject* borrowed) { return constant(Ref::borrow(borrowed)); }
  Value* integer(int64_t value);
  SequenceValue* tuple(std::vector<Value*> items);
  SequenceValue* list(std::vector<Value*> items);
  DictValue* dict();
  /// The value of an outside object. Mutable objects and tensors are one value however they are reached.
  Value* wrap(PyObject* object, Source* source);
  /// Whether a value stands for this outside object.
  bool has_seen(PyObject* object) const { return by_object_.contains(object); }
  /// A value for an object that torch or a pure function returned during capture.
  Value* wrap_result(PyObject* object);

  // ---- looking at values (these emit guards)
  /// The object behind a constant, guarded; null if the value is no constant.
  PyObject* constant_of(Value* value);
  /// Whether the frame that the capture began in holds it.
  bool is_variable(PyObject* object) const;
  /// What that frame held when the capture began.
  const std::vector<Ref>& first_values() const { return values_; }
  /// Whether what stands there is known to change from call to call, and whether so: a break.
  bool is_varying(const Source* source) const;
  void refuse_varying(const Source* source) const;
  /// A Python object equal to the value made of literals only, else null. New reference.
  Ref literal_of(Value* value);
  PyTypeObject* type_of(Value* value);
  bool truth(Value* value);
  bool is_same(Value* a, Value* b);
  std::optional<Py_ssize_t> length_of(Value* value);
  /// The fake of a tensor value; makes it a graph input on first use.
  PyObject* fake_of(TensorValue* tensor);
  /// Arguments for a torch call: fakes in place of tensors, containers rebuilt. Throws Break if impossible.
  Ref to_torch(Value* value);

  // ---- sequences, dicts, sets
  Value* item(SequenceValue* sequence, size_t index);
  std::vector<Value*> unpack(Value* iterable);  // all items; drains iterators
  Value* iterate(Value* iterable);              // iter(x)
  Value* next(Value* iterator);                 // null at the end
  Value* dict_get(DictValue* dict, Value* key);
  void dict_set(DictValue* dict, Value* key, Value* value);
  bool dict_delete(DictValue* dict, Value* key);
  void realise(DictValue* dict);
  Value* entry_value(DictValue* dict, size_t index);  // of an entry that is there
  /// The list, dict or set part of a value: itself, or the base of an instance of a subclass.
  DictValue* dict_part(Value* value);
  SequenceValue* list_part(Value* value);
  void mutated(Value* container);  // logs the effect if the container is outside
  /// The program drops an outside object here: where that may run code, it must not happen later, so it is a break.
  void let_go(PyObject* object) const;  // null: nothing is dropped
  void let_go(const Source* source) const;
  void let_go(const Value* value) const { let_go(value ? value->source : nullptr); }
  void let_go(const Frame& from, int slot) const;
  /// Anything that the outside object held when the capture began may be dropped here.
  void let_go_of_parts(const Value* container) const;
  /// The first of these, from an index on, whose end may run code; null if there is none.
  const Value* ends_aloud(const std::vector<Value*>& stack, size_t from) const;
  /// Whether the program changed this outside object, or what stands behind it.
  bool is_changed(PyObject* object) const;
  /// What the program changed must not be another outside object that it looked at, should a later call bring one
  /// object in two places. Once, when all effects are known.
  void guard_distinct();
  /// Logs a method call on an outside instance of a built-in class, to be made again when the plan ends.
  void replay_method(Value* target, const char* method, std::vector<Value*> arguments);

  // ---- operations of the language
  Value* get_attr(Value* value, PyObject* name);
  Value* find_attr(Value* value, PyObject* name);  // null when there is none
  void set_attr(Value* value, PyObject* name, Value* to);
  void del_attr(Value* value, PyObject* name);
  Value* get_item(Value* value, Value* key);
  void set_item(Value* value, Value* key, Value* to);
  void del_item(Value* value, Value* key);
  Value* binary(int op, Value* a, Value* b);
  Value* unary(pycompat::Op op, Value* value);
  Value* compare(int op, Value* a, Value* b);
  bool contains(Value* container, Value* item);
  Value* call(Value* callee, CallArgs args);
  Value* call_function(FunctionValue* function, CallArgs args);
  /// Runs the body of a class statement, which fills the namespace; gives what the body returns.
  Value* run_class_body(FunctionValue* body, DictValue* names);
  Value* call_method(Value* self, const char* name, std::vector<Value*> args);
  Value* instantiate(PyTypeObject* type, CallArgs args);
  Value* load_global(Frame& frame, PyObject* name);
  Value* format(Value* value, int conversion, Value* spec);
  bool is_instance(Value* value, Value* classes);
  Value* bind_descriptor(PyObject* descriptor, PyTypeObject* owner, Value* self, PyObject* name);
  FunctionValue* outside_function(PyObject* function, Source* source);
  void open_closure(FunctionValue* function);

  // ---- torch
  TorchTracer torch;
  Value* call_torch(PyObject* callable, const CallArgs& args);
  /// A call into torch whose arguments may be numbers that depend on data: `call` is made again, with the tensors that
  /// hold them, where it takes them as tensors.
  template <class F>
  Value* with_numbers(F&& call) {
    try {
      return call();
    } catch (const Break&) {
      if (numbers_as_tensors_ || !torch.wants_number_as_tensor()) throw;
    }
    NumbersAsTensors scope(numbers_as_tensors_);
    return call();
  }
  /// Makes a call of torch's on values: recorded on their fakes, or by the `__torch_function__` that overrides it.
  Value* apply(std::span<Value* const> values, const char* what, const TorchCall& call);
  std::vector<Value*> modes;          // torch-function modes that are active, outermost first
  std::vector<Value*> outside_modes;  // those at the start
  Overriding overriding = Overriding::Enabled, outside_overriding = Overriding::Enabled;
  Asking* asking = nullptr;  // the question that is being put to a binding
  /// Tells the tracer which line of the program records now.
  void locate();
  uint32_t location_of(Frame& frame);
  template <class F>
  Value* torch_result(F&& call, const char* what) {
    locate();
    Ref result = torch.record(std::forward<F>(call));
    if (!result) torch_failed(what);
    return wrap_result(result.get());
  }
  [[noreturn]] void torch_failed(const char* what);
  /// Whether a transform of `torch.func`, or a level of forward-mode AD, is open that the program opened. They are open
  /// for real then, around fakes; a break in between moves out to before the first was opened.
  bool in_transform = false;
  /// To be called after what opens or closes one.
  void look_at_levels();
  /// The step to stop before so that the graph's node is not recorded; 0: there is none.
  uint64_t step_of_node(size_t node) const;

  /// Truths of numbers that the graph verifies, by the number's text.
  std::unordered_map<std::string, bool> assumed;

  // ---- guards
  SourceTree& sources() { return *sources_; }
  /// Once, when the capture is over: all that a later call has.
  std::unique_ptr<SourceTree> take_sources();
  void guard(Source* source, FactKind kind, PyObject* object = nullptr, int64_t number = 0);
  /// After the last instruction, for what no single line needs.
  void guard_at_end(Source* source, FactKind kind, int64_t number);
  void guard_type(Source* source, PyTypeObject* type) {
    guard(source, FactKind::TypeIs, reinterpret_cast<PyObject*>(type));
  }
  /// Everything looked up on the class stays as it is.
  void guard_class(PyTypeObject* type);
  void guard_same(Source* a, Source* b, bool same);

  // ---- frames
  Frame* frame = nullptr;
  Value* run_frame(Frame& frame);
  Value* local(Frame& frame, int slot);  // null if unbound
  std::vector<StackLine> stack_lines() const;
  /// Where the break or uncaught exception that ended `run` arose.
  std::vector<StackLine> end_stack;
  bool end_is_error = false;
  UserLine user_line() const;
  std::vector<Effect> effects;
  uint64_t mutations = 0;  // changes of containers so far, whether or not they made a new effect
  /// While set: the first so many values are not to be changed.
  std::optional<size_t> frozen_values;
  /// Breaks if the value is one of them; to be called before any change of it.
  void refuse_frozen(const Value* value) const;
  /// Names that the program wrote in globals and Python modules (null: deleted), by their dict.
  std::unordered_map<PyObject*, std::vector<std::pair<PyObject*, Value*>>> globals_written;
  /// Data that the program wrote to classes, newest first.
  std::unordered_map<PyTypeObject*, std::vector<std::pair<PyObject*, Value*>>> classes_written;
  /// What the program put into caches of functools.
  struct CacheFill {
    PyObject* function;
    Ref key;
    Value* result;
  };
  std::vector<CacheFill> cache_fills;
  /// Weak references that the program made, by what they refer to: there is one for all who ask.
  std::unordered_map<const Value*, ObjectValue*> weak_references;
  /// Classes and descriptors that the program made, and what stands for its values in them.
  Prototypes prototypes;
  std::vector<GeneratorValue*> generators;            // all that the program made
  std::vector<TensorValue*> inputs;                   // by graph input number
  std::unordered_map<PyObject*, ArrayValue*> arrays;  // by their objects of `stator.arrays`
  int depth = 0;

  [[noreturn]] void raise(PyObject* type, const std::string& message);

 private:
  struct NumbersAsTensors {
    explicit NumbersAsTensors(bool& f) : flag(f) { flag = true; }
    ~NumbersAsTensors() { flag = false; }
    bool& flag;
  };
  Value* wrap_fresh(PyObject* object, Source* source);

  void note_end();
  bool ends_aloud(PyObject* object) const;
  /// Whether nothing but a place of the frame that the capture began in is known to hold the object. What was reached
  /// by way of another object is held by that; arguments are held by the caller.
  bool is_held_by_slot(const Source* source) const;
  /// What stood on the stack at the start nobody else may hold: its end is noticed however it is passed on.
  void watch(Source* source);
  void look_after_watched(const Frame& current) const {
    if (!watched_.empty()) find_watched(current);
  }
  void find_watched(const Frame& current) const;
  void open_start(Frame& top, const pycompat::Code& code);

  Ref function_;
  PyCodeObject* code_;
  int32_t offset_, depth_;
  TransformState levels_at_start_;
  uint64_t opened_at_ = 0;  // the step of the outermost frame that opened the transform
  const std::unordered_set<std::string>* varying_;
  bool break_is_error_;
  const WithoutFunctionModes* hidden_;  // of the start; null: none
  std::optional<bool> policy_;          // of the compiled function that is called next
  DictValue* next_names_ = nullptr;     // of the class body that is entered next
  std::vector<Ref> values_;             // of the start: slots, then stack
  std::vector<bool> looked_at_;         // by slot: whether it mattered that something, or nothing, stands there
  std::unique_ptr<SourceTree> sources_;
  std::unordered_map<PyObject*, Value*> by_object_;             // identity of outside objects
  std::unordered_map<PyObject*, ObjectValue*> instance_dicts_;  // outside instances by their __dict__
  std::vector<const Source*> watched_;
  PointerMap<TensorValue*> by_fake_;
  std::unordered_map<PyTypeObject*, bool> guarded_classes_;
  bool unwinding_ = false;
  void take_modes();
  Value* apply(std::span<Value* const> values, const char* what, const TorchCall& call, bool overridden);
  bool numbers_as_tensors_ = false;
  uint64_t steps_ = 0;
  std::vector<std::pair<size_t, uint64_t>> node_steps_;  // from which node on, the step that recorded it
  Value* last_raised_ = nullptr;
  std::unordered_map<Value*, uint64_t> raise_steps_;
  Value* none_ = nullptr;
  Value* true_ = nullptr;
  Value* false_ = nullptr;
};

}  // namespace stator::capture
