#pragma once

#include <memory>
#include <span>
#include <vector>

#include "capture/guards/check_array.h"
#include "capture/guards/function_modes.h"
#include "capture/pycompat/ref.h"

namespace stator::capture {

/// Runs a captured graph: natively, or by calling what a Python backend returned.
class GraphRunner {
 public:
  explicit GraphRunner(size_t outputs) : outputs_(outputs) {}
  virtual ~GraphRunner() = default;
  /// `tensors`: borrowed Python tensors, one per graph input; ints for inputs that are sizes. Fills all of `outputs`,
  /// one per graph output. No torch-function mode and no torch-dispatch mode may be active. False with a Python error
  /// set if an operator raised; `undone` then says whether all its writes were undone.
  virtual bool run(std::span<PyObject* const> tensors, std::span<Ref> outputs, bool& undone) const = 0;
  /// After a run that raised and was undone: whether an operator of the graph is what raises, so that the program
  /// itself is to run. If not, the backend failed, and its error stands. Keeps the Python error; undoes what it wrote.
  virtual bool is_programs_error(std::span<PyObject* const>) const { return true; }
  size_t output_count() const { return outputs_; }
  /// If torch warns during a run, the run fails instead, provided that its writes can be undone.
  bool refuses_warnings = false;

 private:
  size_t outputs_;
};

/// Steps run in order. Each makes an object, or replays a side effect on an external object. It may refer to the
/// results of earlier steps.
enum class StepKind : uint8_t {
#define STATOR_STEP(name, make, text, a, b, observes) name,
#include "capture/call/plan_steps.def"
#undef STATOR_STEP
};

/// What `Plan::prepare` found out about a step.
enum class StepHint : uint8_t {
  None,
  Fresh,       // FillDict: the dict was made by this plan and is empty
  Merged,      // SetAttribute: left out, since a later step stores the value or overwrites it
  Overwrites,  // SetAttribute: also does the work of merged stores to the same attribute; items: their values
};

/// What the calling instruction does with the result when an inlined call returns after a graph break.
enum class Continuation : uint8_t {
  Opaque,   // C code is between the two frames: the caller cannot be resumed
  Push,     // pushes the result
  Discard,  // drops the result: what the instruction leaves is on the stack already (a constructor call)
};

/// An object that a step needs. Owned at first; after `disown` something else must keep it alive.
class StepObject {
 public:
  StepObject() = default;
  StepObject(Ref object) : owner_(std::move(object)), object_(owner_.get()) {}
  void disown() { owner_ = Ref(); }

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
  StepObject object;
  std::vector<int32_t> items;
  StepHint hint = StepHint::None;
  uint64_t number = 0;  // SetAttributes: version of the class for which no name is that of a data descriptor
  Ref extra;
};

/// A local or stack slot of a frame, and whether it is bound.
struct BoundPlace {
  int32_t index;
  bool bound;
};

/// How a frame stands at a graph break. `slots`, `stack` and `function` are numbers of steps; -1 is NULL.
struct FrameState {
  int32_t function = -1;        // of an inlined frame; -1: the frame that the plan began in
  std::vector<int32_t> places;  // the local slots that are filled, in the order of `slots`; others stay unchanged
  std::vector<int32_t> slots, stack;
  int32_t offset = 0;  // of the instruction that breaks; in all but the innermost frame, of the call in progress
  int32_t unit = 0;    // code unit of that instruction, as f_lasti shows it
  int32_t next = 0;    // offset at which the frame continues after the call in progress
  Continuation continuation = Continuation::Opaque;  // what the caller does with this frame's result
};

/// The stack of torch-function modes at the end of a plan.
struct ModesAtEnd {
  int64_t kept = -1;            // how many of the modes at the start stay; -1: nothing changes
  std::vector<int32_t> pushed;  // steps that make the modes pushed on top of them
  Overriding state = Overriding::Enabled;
};

/// What a run of a plan gave.
struct PlanResult {
  Ref result;                    // what the frame returns; null if it has frames to continue in
  std::vector<Ref> made;         // the results of all steps, if there are such frames
  bool operator_failed = false;  // the graph raised, and the program could not observe any effect yet
};

/// A graph input that is a size of a tensor, or an int.
struct SizeInput {
  int32_t tensor;  // the slot of the check array that holds it
  int32_t dim;     // -1: the slot holds the int itself
};
/// A leading input of a graph: the size of dimension `dim` of a tensor, or, for dim -1, the int in the slot itself.
Ref leading_input(PyObject* object, int32_t dim);
/// Converts a Python float or int that is a graph input to a 0-d tensor. An int must fit 64 bits. The tensor is a
/// wrapped number (it promotes as a Python number does) unless `as_tensor`. Null with a Python error set on failure.
Ref number_tensor_of(PyObject* number, bool as_tensor);

/// What a hit executes: gather inputs, run the graph, make the results, replay the side effects.
class Plan {
 public:
  std::vector<int32_t> inputs;         // slots of the check array that hold the graph's inputs
  std::vector<SizeInput> size_inputs;  // the graph's inputs before these: integers
  std::vector<size_t> array_inputs;    // indices of inputs that are NumPy arrays
  std::vector<size_t> number_inputs;   // indices of inputs that are numbers, which the graph gets as number tensors
  bool numbers_as_tensors = false;     // see `number_tensor_of`
  Ref from_array;                      // makes a tensor over the memory of such an array
  bool has_subclasses = false;         // some input is of a subclass of Tensor: the graph runs without overriding
  std::unique_ptr<GraphRunner> graph;  // null: no operator was captured
  std::vector<Step> steps;
  int32_t result = -1;
  std::vector<FrameState> frames;                   // outermost first; empty: the frame returns `result`
  std::shared_ptr<const GlobalState> state_at_end;  // torch's state at the end; null: the same as at the start
  bool hides_modes = false;  // torch-function modes are active at the start, or overriding is disabled
  ModesAtEnd modes_at_end;
  bool skips_rest = false;  // CPython runs the rest of the innermost frame
  bool is_cut = false;      // the capture was cut before an instruction that it could have captured in the next graph

  /// Merges steps that can run together and leaves out those without effect. Called once, when all steps are there.
  void prepare();
  /// Gives up the references to classes, functions and modules that the steps name, and has the guards watch them: when
  /// one dies, the entry is dead. Otherwise a cycle (program, code, entry, plan) would keep the program alive.
  void disown_watched(CheckArray& guards);
  /// False with a Python error set. The guards must just have held on this thread.
  bool run(const CheckArray& guards, PlanResult& result) const;

 private:
  bool run_graph(const CheckArray& guards, std::span<PyObject*> tensors, std::span<Ref> outputs, bool& undone) const;
  bool run_with_modes(const CheckArray& guards, Ref* made, PlanResult& result) const;
  bool run_steps(const CheckArray& guards, Ref* made, PlanResult& result) const;

  std::vector<PyObject*> disowned_;     // alive when a run begins, since the guards hold; a run owns them meanwhile
  std::vector<int32_t> slots_, order_;  // steps that read slots, and all others but the merged ones
};

}  // namespace stator::capture
