#pragma once

#include <memory>
#include <span>
#include <vector>

#include "capture/guards/check_array.h"
#include "capture/pycompat/ref.h"

namespace stator::capture {

/// A captured graph made callable: native, or a Python backend's callable.
class GraphRunner {
 public:
  explicit GraphRunner(size_t outputs) : outputs_(outputs) {}
  virtual ~GraphRunner() = default;
  /// `tensors`: borrowed Python tensors, one per graph input. Fills all of `outputs`, one per graph output.
  /// False with a Python error set when an operator raised.
  virtual bool run(std::span<PyObject* const> tensors, std::span<Ref> outputs) const = 0;
  size_t output_count() const { return outputs_; }

 private:
  size_t outputs_;
};

/// What ends a plan: objects are made one after the other, and changes of outside objects replayed in program order.
/// Each step may refer to the results of earlier ones.
enum class StepKind : uint8_t {
  Constant,       // object
  Slot,           // a: guard slot
  Output,         // a: graph output
  Tuple,          // items
  NamedTuple,     // items; object: the class
  List,           // items
  Dict,           // object: the class; items: key, value, key, value ...; a: factory of a defaultdict
  Set,            // object: the elements, or items; a: 1 for a frozenset
  Slice,          // items: start, stop, step
  View,           // a: the dict; object: name of the method
  NewObject,      // object: the class; items: arguments of its built-in base's __new__
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
  SetAttributes,  // a: an object that this plan made, items: values; object: a dict with the names, in order
};

/// What is known of a step beforehand; found by `Plan::prepare`.
enum class StepHint : uint8_t {
  None,
  Fresh,        // FillDict: the dict was made by this plan and holds nothing yet
  Overwritten,  // SetAttribute: a later step stores to the same attribute, and nobody looks in between
  Merged,       // SetAttribute: a later SetAttributes does it
};

struct Step {
  StepKind kind;
  int32_t a = -1, b = -1;
  Ref object;
  std::vector<int32_t> items;
  StepHint hint = StepHint::None;
  uint64_t number = 0;  // SetAttributes: the class's version for which the names are plain attributes
};

/// What is done when the guards of an entry hold: gather inputs, run the graph, make the results, replay the effects.
class Plan {
 public:
  std::vector<int32_t> inputs;         // guard slots of the graph's inputs
  std::unique_ptr<GraphRunner> graph;  // null: no operator was captured
  std::vector<Step> steps;
  int32_t result = -1;

  /// Looks through the steps for what can be done together or left out. Once, when the plan is whole.
  void prepare();
  /// New reference, or null with a Python error set. The guards must just have held on this thread.
  PyObject* run(const CheckArray& guards) const;

 private:
  bool run_graph(const CheckArray& guards, std::span<Ref> outputs) const;
};

}  // namespace stator::capture
