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
#include "core/graph/definition.h"

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

class Graph;

/// One operand: a value, a constant, a list of operands (Tensor[], Tensor?[]), or a sub-graph (see control_ops.h).
struct STATOR_API Argument {
  enum class Kind : uint8_t { Value, Constant, List, Graph };
  Kind kind = Kind::Constant;
  ValueId value = kNoValue;     // Kind::Value
  c10::IValue constant;         // Kind::Constant; a tensor here is owned by the graph and never written to
  std::vector<Argument> items;  // Kind::List

  static Argument of_value(ValueId v);
  static Argument of_constant(c10::IValue v);
  static Argument of_list(std::vector<Argument> items);
  static Argument of_graph(std::shared_ptr<Graph> graph);

  /// Of Kind::Graph. Copies of the argument share the sub-graph.
  const std::shared_ptr<Graph>& graph() const;
};

/// What one schema return became: one tensor, or a list of tensors of the traced length.
/// Undefined tensors and non-tensor returns are kNoValue: they were constants at trace time.
///
/// A value is a tensor object, not its contents: a return that is a tensor already known (an in-place op's `self`, an
/// `out=` argument, a no-op `to`) names the existing value again, and a replay stores the return there. Its metadata
/// may differ from then on: metadata belongs to a definition.
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
  uint32_t range = 0;                   // index into Graph::ranges
  uint32_t region = 0;                  // the call of a marked region that it belongs to, see passes/regions.h; 0: none
  /// What the node defines, by consecutive ids: its results, then values that it writes to and does not return. None
  /// where no metadata is known.
  DefinitionId first_definition = 0;
  uint32_t num_definitions = 0;
};

/// A line of the user's program, with the chain of inlined callers (0: none).
struct Location {
  std::string file;
  std::string function;
  int line = 0;
  uint32_t caller = 0;
  /// Of the torch.nn.Module whose method the function is: how the program reaches it (`L['self'].layers[0]`), and its
  /// class. Empty for other functions.
  std::string module_path = {};
  std::string module_class = {};
};

/// A block of the program that names itself to the profiler, and the block around it (0: none). The text form of a
/// graph leaves these out.
struct Range {
  std::string name;
  uint32_t outer = 0;
};

struct ValueInfo {
  std::string name;                         // empty: derived from the producer when asked for, see names.h
  at::Tensor fake;                          // as the last in-place op left it; undefined after drop_fakes()
  uint32_t producer = UINT32_MAX;           // node index, or UINT32_MAX for graph inputs
  DefinitionId definition = kNoDefinition;  // the first one
  ValueType type = ValueType::Tensor;
  shapes::Expr number;  // of a number: what it is in terms of the graph's symbols; null: not known
};

class STATOR_API Graph {
 public:
  std::string name = "graph";
  std::vector<ValueInfo> values;
  Definitions definitions;
  std::vector<ValueId> inputs;
  std::vector<ValueId> outputs;
  std::vector<Node> nodes;
  std::vector<ExecState> states;        // states[0] is the state at entry
  std::vector<Location> locations{1};   // locations[0] is "unknown"
  std::vector<Range> ranges{1};         // ranges[0] is "none"
  uint32_t autocast_region_at_end = 0;  // differs from the last node's region if an outermost `autocast` ended after it
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

  /// Records the metadata of a value that a node, the newest, gives back or writes to.
  DefinitionId define(uint32_t node, ValueId value, const at::Tensor& tensor);
  DefinitionId define(uint32_t node, ValueId value, const TensorMeta& meta);
  /// The definition of a value by a node; kNoDefinition where it makes none.
  DefinitionId definition_of(uint32_t node, ValueId value) const;

  /// Removes the inputs that no node reads and that are not outputs, here and in `below`; the positions of the others.
  std::vector<uint32_t> drop_unused_inputs();

  /// Gives the graph other inputs, in this order: inputs it has, by position, or new ones that nothing uses (kNoInput).
  /// An input that is not listed must be unused.
  static constexpr uint32_t kNoInput = UINT32_MAX;
  void arrange_inputs(const std::vector<uint32_t>& order);

  /// Drops all fake tensors; the graph stays runnable, and keeps the metadata of its definitions.
  void drop_fakes();

 private:
  DefinitionId own_definition(uint32_t node, ValueId value, DefinitionId id);
};

}  // namespace stator::graph
