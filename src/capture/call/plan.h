#pragma once

#include <memory>
#include <span>
#include <vector>

#include "capture/guards/check_array.h"
#include "capture/guards/function_modes.h"
#include "capture/pycompat/ref.h"

namespace stator::capture {

/// A captured graph made callable: native, or a Python backend's callable.
class GraphRunner {
 public:
  explicit GraphRunner(size_t outputs) : outputs_(outputs) {}
  virtual ~GraphRunner() = default;
  /// `tensors`: borrowed Python tensors, one per graph input. Fills all of `outputs`, one per graph output.
  /// False with a Python error set when an operator raised; `undone` then says whether it left no trace.
  virtual bool run(std::span<PyObject* const> tensors, std::span<Ref> outputs, bool& undone) const = 0;
  size_t output_count() const { return outputs_; }
  /// A run that would give a warning fails instead, if it can be undone.
  bool refuses_warnings = false;

 private:
  size_t outputs_;
};

/// What ends a plan: objects are made one after the other, and changes of outside objects replayed in program order.
/// Each step may refer to the results of earlier ones.
enum class StepKind : uint8_t {
  Constant,       // object
  Slot,           // a: guard slot
  Output,         // a: graph output; object: the subclass of Tensor that it is made one of, or null
  Tuple,          // items
  NamedTuple,     // items; object: the class, or b: the step that made it
  List,           // items
  Dict,           // object: the class; items: key, value, key, value ...; a: factory of a defaultdict
  Set,            // object: the elements, or items; a: 1 for a frozenset
  Slice,          // items: start, stop, step
  View,           // a: the dict; object: name of the method
  NewObject,      // object: the class, or b: the step that made it; items: arguments of its built-in base's __new__
  NewCell,        //
  Bound,          // a: function or descriptor, b: self
  Partial,        // items: function, args, keywords
  Function,       // object: code; items: globals, defaults, kwdefaults, closure cells (-1: none)
  SetAttribute,   // a: owner, b: value (-1: delete); object: name
  FillDict,       // a: dict; items: key, value ...; what it held goes
  FillList,       // a: list; items
  CallMethod,     // a: self; object: name of the method; items: arguments
  SetCell,        // a: cell, b: value
  SetItem,        // a: dict, b: value (-1: delete); object: key
  SetAttributes,  // a: an object that this plan made; items: values; object: a dict of the names, in order, with those
                  // values that are always the same; extra: tuple of all names
  Call,           // object: the callable; items: arguments, extra: names of the last of them, if any; a: how many
                  // items to take from the iterator that it gives
  Take,           // a: an iterator; b: how many items to take from it, its end counted as one
  Generator,      // items: function, then (a < 0, not started) args tuple and keywords, or slots and stack; a: how
                  // many slots, b: code unit of the yield it waits at
  Class,          // object: the metaclass; items: name, tuple of bases, dict of names
};

/// What is known of a step beforehand; found by `Plan::prepare`.
enum class StepHint : uint8_t {
  None,
  Fresh,       // FillDict: the dict was made by this plan and holds nothing yet
  Merged,      // SetAttribute: a later step does it: SetAttributes, or one that stores to the same attribute
  Overwrites,  // SetAttribute: the latter; items: the value that would have stood there before
};

/// How an instruction goes on when the call it made returns.
enum class Continuation : uint8_t {
  Opaque,   // code of another kind stands between: it cannot be resumed
  Push,     // the result is pushed
  Discard,  // the result is dropped: what is to be seen is on the stack already
};

/// An object that a step needs: owned, or, once lent, kept alive by others.
class Held {
 public:
  Held() = default;
  Held(Ref object) : owner_(std::move(object)), object_(owner_.get()) {}
  void lend() { owner_ = Ref(); }

  PyObject* get() const { return object_; }
  Ref ref() const { return Ref::borrow(object_); }
  explicit operator bool() const { return object_ != nullptr; }
  template <class T>
  T* as() const {
    return reinterpret_cast<T*>(object_);
  }

 private:
  Ref owner_;
  PyObject* object_ = nullptr;
};

struct Step {
  StepKind kind;
  int32_t a = -1, b = -1;
  Held object;
  std::vector<int32_t> items;
  StepHint hint = StepHint::None;
  uint64_t number = 0;  // SetAttributes: the class's version for which the names are plain attributes
  Ref extra;
};

/// A place of a frame, and whether it holds something.
struct BoundPlace {
  int32_t index;
  bool bound;
};

/// A frame as a plan leaves it at a break. Numbers refer to steps; -1 is NULL.
struct FrameImage {
  int32_t function = -1;        // -1: the frame that the plan began in
  std::vector<int32_t> places;  // its slots, all but those that stay as they are
  std::vector<int32_t> slots, stack;
  int32_t offset = 0;  // of the instruction that breaks, or (all but the last image) of the call that is under way
  int32_t unit = 0;    // its code unit, as f_lasti shows it
  int32_t next = 0;    // where the frame goes on after that call
  Continuation continuation = Continuation::Opaque;  // of that call
};

/// Torch-function modes as a plan leaves them.
struct ModesAtEnd {
  int64_t kept = -1;            // how many of those at the start stay; -1: all, and nothing else is changed
  std::vector<int32_t> pushed;  // steps that make the others
  Overriding state = Overriding::Enabled;
};

/// Where a plan ended: a result, or frames to go on in, outermost first, whose values are in `made`.
struct Outcome {
  Ref result;
  std::vector<Ref> made;
  bool operator_failed = false;  // the graph raised, and nothing that the program can see has happened yet
};

/// What is done when the guards of an entry hold: gather inputs, run the graph, make the results, replay the effects.
class Plan {
 public:
  std::vector<int32_t> inputs;       // guard slots of the graph's inputs
  std::vector<size_t> array_inputs;  // those that are NumPy arrays, of whose memory `from_array` makes a tensor
  Ref from_array;
  bool has_subclasses = false;         // some input is of a subclass of Tensor, which a graph knows nothing of
  std::unique_ptr<GraphRunner> graph;  // null: no operator was captured
  std::vector<Step> steps;
  int32_t result = -1;
  std::vector<FrameImage> frames;                   // empty: the frame returns `result`
  std::shared_ptr<const GlobalState> state_at_end;  // ambient state that the program goes on in, if it is another one
  bool hides_modes = false;  // some torch-function mode is active when it runs, or overriding is switched off
  ModesAtEnd modes_at_end;
  bool is_cut = false;  // the frames end before an instruction that does not break: only the capture was cut

  /// Looks through the steps for what can be done together or left out. Once, when the plan is whole.
  void prepare();
  /// Lends the classes, functions and modules it names to the guards, which are dead when one of them is. A program
  /// that is dropped would not die otherwise: its code owns the plan.
  void lend_to(CheckArray& guards);
  /// False with a Python error set. The guards must just have held on this thread.
  bool run(const CheckArray& guards, Outcome& outcome) const;

 private:
  bool run_graph(const CheckArray& guards, std::span<Ref> outputs, bool& undone) const;
  bool make_all(const CheckArray& guards, Ref* made, Outcome& outcome) const;
  bool make_steps(const CheckArray& guards, Ref* made, Outcome& outcome) const;

  std::vector<PyObject*> lent_;         // a run holds them as long as it takes
  std::vector<int32_t> slots_, order_;  // the steps that read slots, and all others that do something
};

}  // namespace stator::capture
