#pragma once

#include <ATen/core/Tensor.h>
#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/core/ivalue.h>
#include <c10/util/SmallVector.h>

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "core/base/export.h"

/// The IR: a list of operator calls in program order over SSA values.
/// A graph is plain data; it owns its constants and (until `drop_fakes`) the fake tensors of its values.
namespace stator::graph {

using ValueId = uint32_t;
inline constexpr ValueId kNoValue = UINT32_MAX;

/// The dispatcher's ambient state a node was traced under, and must be replayed under.
struct ExecState {
  bool grad_mode = true;
  bool inference_mode = false;
  /// Autocast per device type that was on: (device type, dtype); empty means off everywhere.
  std::vector<std::pair<c10::DeviceType, c10::ScalarType>> autocast;
  bool autocast_cache = true;
  /// Nodes of different regions never share a cached cast: eager empties the cache when the outermost `autocast` ends.
  uint32_t autocast_region = 0;
  bool operator==(const ExecState&) const = default;
};

/// One operand: a value, a constant, or a list of operands (Tensor[], Tensor?[]).
struct STATOR_API Argument {
  enum class Kind : uint8_t { Value, Constant, List };
  Kind kind = Kind::Constant;
  ValueId value = kNoValue;     // Kind::Value
  c10::IValue constant;         // Kind::Constant; a tensor here is owned by the graph and never written to
  std::vector<Argument> items;  // Kind::List

  static Argument of_value(ValueId v);
  static Argument of_constant(c10::IValue v);
  static Argument of_list(std::vector<Argument> items);
};

/// What one schema return became: one tensor, or a list of tensors of the traced length.
/// Undefined tensors and non-tensor returns are kNoValue: they were constants at trace time.
///
/// A value is a tensor object, not its contents: a return that is a tensor already known (an in-place op's `self`, an
/// `out=` argument, a no-op `to`) names the existing value again, and a replay stores the return there.
struct Result {
  bool is_list = false;
  c10::SmallVector<ValueId, 2> values;  // exactly one unless is_list
};

struct Node {
  c10::OperatorHandle op;
  std::vector<Argument> args;           // one per schema argument, in order
  c10::SmallVector<Result, 1> results;  // one per schema return, in order
  uint32_t state = 0;                   // index into Graph::states
  uint32_t location = 0;                // index into Graph::locations
};

/// A line of the user's program, with the chain of inlined callers (0: none).
struct Location {
  std::string file;
  std::string function;
  int line = 0;
  uint32_t caller = 0;
};

/// What is known of a tensor besides its data.
struct TensorMeta {
  c10::ScalarType dtype = c10::ScalarType::Float;
  c10::Device device = c10::kCPU;
  std::vector<int64_t> sizes;
  std::vector<int64_t> strides;
  bool requires_grad = false;
  bool operator==(const TensorMeta&) const = default;
};

/// Of a tensor; null when its sizes are symbolic.
STATOR_API std::shared_ptr<const TensorMeta> meta_of(const at::Tensor& tensor);

struct ValueInfo {
  std::string name;                        // empty: derived from the producer when asked for, see names.h
  at::Tensor fake;                         // metadata, as the last in-place op left it; undefined after drop_fakes()
  uint32_t producer = UINT32_MAX;          // node index, or UINT32_MAX for graph inputs
  std::shared_ptr<const TensorMeta> meta;  // stands in for `fake` in graphs that were not traced here
};

class STATOR_API Graph {
 public:
  std::string name = "graph";
  std::vector<ValueInfo> values;
  std::vector<ValueId> inputs;
  std::vector<ValueId> outputs;
  std::vector<Node> nodes;
  std::vector<ExecState> states;       // states[0] is the state at entry
  std::vector<Location> locations{1};  // locations[0] is "unknown"
  /// The same trace seen below autograd, where that was recorded: same inputs and outputs, for use without autograd.
  std::shared_ptr<Graph> below;

  ValueId add_input(std::string name, at::Tensor fake);
  /// Appends a node without arguments and results; the reference holds until the next call.
  Node& add_node(c10::OperatorHandle op);
  /// A fresh value made by node `node`; the caller lists it in that node's results.
  ValueId add_result_value(uint32_t node, at::Tensor fake);
  uint32_t intern_state(const ExecState& state);
  uint32_t add_location(Location location);
  /// A location with its callers, the outermost first; empty for "unknown".
  std::vector<Location> call_chain(uint32_t location) const;

  /// Of the fake when there is one, else as stored; null when nothing is known or sizes are symbolic.
  std::shared_ptr<const TensorMeta> meta(ValueId value) const;

  /// Removes the inputs that no node reads and that are no outputs, here and in `below`; the positions of the others.
  std::vector<uint32_t> drop_unused_inputs();

  /// Lets go of all fake tensors; the graph stays runnable and printable without shapes.
  void drop_fakes();
};

}  // namespace stator::graph
