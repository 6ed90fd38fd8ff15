#pragma once

#include <cstdint>
#include <exception>
#include <memory>
#include <span>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "capture/call/break.h"
#include "capture/guards/function_modes.h"
#include "capture/guards/transforms.h"
#include "capture/interpreter/state/frame_stack.h"
#include "capture/interpreter/state/tracer.h"
#include "capture/values/value.h"

namespace stator::capture {

class OverrideQuery;
struct DispatchTable;
/// How many operators a `__torch_dispatch__` of the program has answered. `table` may be null.
size_t answered_operators(const DispatchTable* table);

/// A call into torch on fakes, as messages name it.
struct RunningCall {
  // NOLINTNEXTLINE: a name alone is one
  RunningCall(const char* what, std::span<Value* const> values = {}, PyObject* names = nullptr)
      : function(what), arguments(values), keywords(names) {}
  const char* function;
  std::span<Value* const> arguments;  // as far as they are known
  PyObject* keywords;                 // the names of the last of these, a tuple; null: none
};

/// What holds for the operations that run now. Each field is set by a `ScopedValue`, or by an object that works like
/// one, and has its earlier value again where that ends.
struct TorchScope {
  const RunningCall* call = nullptr;      // the call that is being recorded; null: none
  OverrideQuery* query = nullptr;         // the question that is being put to a binding; null: none
  bool arguments_are_detached = false;    // the part of a reentrant checkpoint runs as its backward pass runs it
  bool gives_numbers_as_tensors = false;  // symbolic numbers are given to torch as the tensors that hold them
};

/// A field has another value while this lives.
template <class T>
class ScopedValue {
 public:
  ScopedValue(T& field, T value) : field_(field), before_(std::exchange(field, value)) {}
  ~ScopedValue() { field_ = before_; }
  ScopedValue(const ScopedValue&) = delete;
  ScopedValue& operator=(const ScopedValue&) = delete;

 private:
  T& field_;
  T before_;
};

/// The capture's dealings with torch: the tracer, and the state of torch that the program sees.
///
/// Invariant: `inputs[i]` is the graph's input number i. The modes of the thread are hidden from the capture;
/// `modes` is what the program sees in their place. Nodes are recorded under the line and step of the current frame.
class TorchSession {
 public:
  /// `takes_float_parameters`: see TorchTracer.
  TorchSession(const std::string& graph_name, FrameStack& frames, bool takes_float_parameters = true);

  TorchTracer tracer;
  TorchScope scope;
  std::vector<TensorValue*> inputs;                // by graph input number
  std::shared_ptr<ShapeGuards> added_size_guards;  // those of the recorded fact, for what a backend adds; null: none
  std::vector<Value*> modes;                       // torch-function modes that are active, outermost first
  std::vector<Value*> modes_at_start;
  /// An input is written to, and another one shares its memory but not its storage: torch takes them for independent.
  bool has_hidden_aliases = false;
  /// A graph for a Python backend computes a number that Python may refuse to compute: that must be known before it
  /// runs.
  bool has_unsure_numbers = false;
  const bool starts_in_autocast = TorchTracer::in_autocast_block();
  std::shared_ptr<DispatchTable> dispatch;  // tensors that have a `__torch_dispatch__`; null: none
  /// What such a method threw, inside of a call into torch: the capture goes on with it once torch has returned.
  std::exception_ptr thrown;
  Overriding overriding = Overriding::Enabled, overriding_at_start = Overriding::Enabled;
  std::vector<MarkedSize> marked;            // sizes that the user marked as dynamic
  std::shared_ptr<ShapeGuards> size_guards;  // of an attempt that ended
  /// Truths of symbolic numbers that the graph verifies, by the text of the number.
  std::unordered_map<std::string, bool> assumed;
  /// The first unbacked size of each name that `mark_unbacked` gives to equal sizes.
  std::unordered_map<std::string, Value*> named_sizes;
  /// With a spec of the arguments: which conditions of it are due (`Wiring` in python/stator/shapes_spec.py), and the
  /// sizes and ints of arguments that were used, by name.
  Ref spec_wiring;
  std::unordered_map<std::string, Value*> spec_slots;

  /// Tells the tracer which line of the program records nodes from here on. There must be a current frame.
  void locate();
  /// The step to stop before so that the graph's node is not recorded; 0: there is none.
  uint64_t step_of_node(size_t node) const;
  /// Finds out whether a transform is open; to be called after what opens or closes one.
  void refresh_transform_state();

  /// Records a call on fakes under the current line. Null, with the tracer's failure, if it failed.
  template <class F>
  Ref record(F&& call, const RunningCall& what) {
    locate();
    const ScopedValue running(scope.call, &what);
    return tracer.record(std::forward<F>(call));
  }
  /// Throws `thrown`, or breaks with the tracer's last failure.
  [[noreturn]] void fail(const char* what);

  /// Makes a call into torch whose arguments may be symbolic numbers. Where it takes those as tensors only, it is made
  /// again with the tensors that hold them.
  template <class F>
  Value* with_numbers(F&& call) {
    const size_t before = answered_operators(dispatch.get());
    try {
      return call();
    } catch (const Break&) {
      // The program's code must not run twice.
      const bool ran_code = answered_operators(dispatch.get()) != before;
      if (ran_code || scope.gives_numbers_as_tensors || !tracer.wants_number_as_tensor()) throw;
    }
    const ScopedValue as_tensors(scope.gives_numbers_as_tensors, true);
    return call();
  }

 private:
  uint32_t location_of(Frame& frame);
  Question question(const TorchTracer::Mentions& mentions) const;

  FrameStack& frames_;
  const TransformState transforms_at_start_;
  std::vector<std::pair<size_t, uint64_t>> node_steps_;  // from which node on, the step that recorded it
};

}  // namespace stator::capture
