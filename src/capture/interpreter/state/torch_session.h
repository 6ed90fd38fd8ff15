#pragma once

#include <cstdint>
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

/// The capture's dealings with torch: the tracer, and the state of torch that the program sees.
///
/// Invariant: `inputs[i]` is the graph's input number i. The modes of the thread are hidden from the capture;
/// `modes` is what the program sees in their place. Nodes are recorded under the line and step of the current frame.
class TorchSession {
 public:
  TorchSession(const std::string& graph_name, FrameStack& frames);

  TorchTracer tracer;
  std::vector<TensorValue*> inputs;                // by graph input number
  std::shared_ptr<ShapeGuards> added_size_guards;  // those of the recorded fact, for what a backend adds; null: none
  std::vector<Value*> modes;                       // torch-function modes that are active, outermost first
  std::vector<Value*> modes_at_start;
  /// While the part of a reentrant checkpoint is captured as its backward pass runs it: on detached arguments.
  bool arguments_are_detached = false;
  /// An input is written to, and another one shares its memory but not its storage: torch takes them for independent.
  bool has_hidden_aliases = false;
  const bool starts_in_autocast = TorchTracer::in_autocast_block();
  Overriding overriding = Overriding::Enabled, overriding_at_start = Overriding::Enabled;
  OverrideQuery* override_query = nullptr;   // the question that is being put to a binding
  const char* calling = nullptr;             // the torch function that is being called on fakes; null: none
  std::span<Value* const> arguments;         // of that call, as far as they are known
  PyObject* keywords = nullptr;              // the names of the last of these, a tuple; null: none
  std::vector<MarkedSize> marked;            // sizes that the user marked as dynamic
  std::shared_ptr<ShapeGuards> size_guards;  // of an attempt that ended
  /// Truths of symbolic numbers that the graph verifies, by the text of the number.
  std::unordered_map<std::string, bool> assumed;

  /// Tells the tracer which line of the program records nodes from here on. There must be a current frame.
  void locate();
  /// The step to stop before so that the graph's node is not recorded; 0: there is none.
  uint64_t step_of_node(size_t node) const;
  /// Finds out whether a transform is open; to be called after what opens or closes one.
  void refresh_transform_state();

  /// Breaks with the tracer's last failure.
  [[noreturn]] void fail(const char* what) const;

  /// Whether symbolic numbers are given to torch as the tensors that hold them.
  bool gives_numbers_as_tensors() const { return numbers_as_tensors_; }
  /// Makes a call into torch whose arguments may be symbolic numbers. Where it takes those as tensors only, it is made
  /// again with the tensors that hold them.
  template <class F>
  Value* with_numbers(F&& call) {
    try {
      return call();
    } catch (const Break&) {
      if (numbers_as_tensors_ || !tracer.wants_number_as_tensor()) throw;
    }
    struct Scope {
      bool& flag;
      explicit Scope(bool& f) : flag(f) { flag = true; }
      ~Scope() { flag = false; }
    } scope(numbers_as_tensors_);
    return call();
  }

 private:
  uint32_t location_of(Frame& frame);
  Question question(const TorchTracer::Mentions& mentions) const;

  FrameStack& frames_;
  const TransformState transforms_at_start_;
  std::vector<std::pair<size_t, uint64_t>> node_steps_;  // from which node on, the step that recorded it
  bool numbers_as_tensors_ = false;
};

}  // namespace stator::capture
