#pragma once

#include <ATen/core/Tensor.h>
#include <ATen/core/stack.h>
#include <c10/core/SymNodeImpl.h>
#include <c10/core/impl/LocalDispatchKeySet.h>

#include <memory>
#include <string>

#include "core/base/export.h"
#include "core/fake/fake_tensor.h"
#include "core/graph/graph.h"
#include "core/shapes/current.h"
#include "core/shapes/env.h"
#include "core/shapes/input_layout.h"

namespace stator::tracer {

/// Registers the boxed fallback on the mode key above autograd; called once at load. Returns an empty string, or the
/// reason why that is not possible.
STATOR_API std::string install();

/// Records every operator call on fakes inside a `TraceScope` into one graph, above autograd (a composite operator
/// is one node) and, if requested, also below autograd (`Graph::below`). One tracer serves one capture on
/// one thread. The tracer and its graph own every tensor that was recorded, until `Graph::drop_fakes`: so addresses
/// identify tensors.
class STATOR_API Tracer {
 public:
  /// The tracer that records on this thread now, or null.
  static Tracer* running();

  explicit Tracer(std::string graph_name);
  ~Tracer();

  /// Also records the list below autograd, which about doubles the cost. Must be called before anything is added.
  void record_below();
  /// Refuses operators that torch's compilers do not run as they are (`ops::DiffersInCompilers`).
  void record_for_compilers();

  /// Refuses operators on tensors that require grad while grad mode is on; returns the earlier setting.
  bool refuse_gradients(bool refuse);

  /// Allows results whose sizes depend on data (see `number`). Not together with `record_below`.
  void allow_symbols();

  /// Whether sizes of inputs may be symbolic.
  bool takes_symbols() const;

  /// While the default dtype differs from that at the start of the trace, operators that make tensors are recorded with
  /// the dtype they give. Operators whose result has the default dtype for another reason are refused. So the graph
  /// gives the same results under the default dtype of the start.
  void fix_dtypes();

  /// A fake for a real input tensor; becomes the next graph input.
  at::Tensor add_input(const at::Tensor& real, std::string name);
  /// The same with symbols for the sizes that `layout` names. Their sources are tagged by `size_tag`.
  at::Tensor add_input(const at::Tensor& real, std::string name, const shapes::InputLayout& layout);
  /// A symbolic float that becomes the next graph input: a run gets it as a number tensor (core/shapes/number_ops.h).
  /// Throws if the trace also records below autograd: that list of nodes has no numbers as inputs.
  c10::SymNode add_number_input(std::string name);
  /// The same for an int: a backed symbol with this hint, whose source is tagged by `size_tag` with `kNumberTag`.
  c10::SymNode add_number_input(std::string name, int64_t hint);
  /// A fake for a tensor whose value is fixed at capture (a constructor's literal data): each run of the graph
  /// gets a new copy of `data`, which the graph owns.
  at::Tensor add_constant(const at::Tensor& data);
  /// The value of a tensor this tracer made or saw; kNoValue for others.
  graph::ValueId value_of(const at::Tensor& fake) const;
  /// Torch's factory bindings return a shallow copy of what the recorded operator made. If `fake` is such a copy of a
  /// result of the newest node, it represents that result from now on.
  bool adopt(const at::Tensor& fake);
  /// Must be called at each end of an `autocast` block: after the outermost one, later nodes start with an
  /// empty cache of casts, as in eager.
  void autocast_ended();
  /// Adds a node for a call that ran outside any scope: `args` are the operator's arguments, `results` the fakes that
  /// it returned. Throws as an operator in a scope does. It is not recorded below autograd.
  void add_call(const c10::OperatorHandle& op, const torch::jit::Stack& args, const torch::jit::Stack& results);
  /// The same for an operator with sub-graphs, which a stack cannot hold. It returns one list of tensors.
  void add_control(const c10::OperatorHandle& op, std::vector<graph::Argument> args, std::vector<at::Tensor> results);
  /// The fake as an operand of such a node. Refuses a tensor that is not a value of the graph.
  graph::Argument operand(const c10::OperatorHandle& op, const at::Tensor& fake) const;
  /// The only element of a fake as a symbolic number: a node reads it at this point. Refuses a fake with more elements
  /// or without a numeric dtype.
  c10::SymNode item(const at::Tensor& fake);
  /// The zero-dimensional tensor that holds a symbolic number, size or expression of them; nodes that compute
  /// it are added if missing. Refuses a number that the graph cannot compute.
  at::Tensor number(const c10::SymNodeImpl* node);
  /// Sets the program's location for the nodes recorded from now on. Cheap.
  void set_location(uint32_t location);
  /// Begins a profiler range of the program (`record_function`), or ends the innermost one. Nodes recorded in between
  /// belong to it.
  void open_range(std::string name);
  void close_range();
  /// A call of a marked region begins: nodes recorded until `close_region` belong to it. False inside of another one,
  /// to which they belong then.
  bool open_region();
  void close_region();

  /// The environment of the trace's symbolic numbers. It lives as long as the tracer or an expression of it.
  shapes::ShapeEnv& symbols();

  graph::Graph& graph();
  /// Shares ownership of the graph, which then may outlive the tracer.
  std::shared_ptr<graph::Graph> share_graph();
  /// Ends the trace. Returns the graph with its outputs, and with `below` if requested. Throws for a tensor
  /// that is not a value of the graph.
  std::shared_ptr<graph::Graph> finish(c10::ArrayRef<at::Tensor> outputs);
  /// The name of the operator that is being answered, or that threw last; empty if there is none.
  std::string running_operator() const;
  /// Whether the last operator that threw may raise depending on data. True also if none threw since `forget_failure`.
  bool failed_by_data() const;
  void forget_failure();

  /// Whether a recorded operator wrote to the storage of the tensor.
  bool is_written(const at::Tensor& tensor) const;

  /// Number of nodes so far. `rollback(n)` removes the nodes from the n-th on (their values must be unused). Inputs
  /// added since stay. Changes by in-place operators to the metadata of older fakes are not undone. Facts about
  /// symbolic numbers that were learned since the mark are forgotten.
  size_t mark() const;
  void rollback(size_t mark);
  /// Moves the nodes from the `mark`-th on to a new graph that takes `inputs`, values of this graph, and returns those
  /// of `outputs` that these nodes made (`made`). The nodes are removed from this graph. The caller must add one node
  /// that represents the part (`add_call`): it makes the outputs values again, and writes to the values of this graph
  /// that the removed nodes wrote to.
  struct Part {
    std::shared_ptr<graph::Graph> graph;
    std::vector<at::Tensor> inputs, made;
  };
  Part cut(size_t mark, c10::ArrayRef<at::Tensor> outputs);

 private:
  friend class TraceScope;
  struct Impl;
  std::unique_ptr<Impl> impl_;
  friend struct Hook;
};

/// Names a size of a graph input in the environment: the place of the input, and the dimension. A stride has the
/// dimension plus `kStrideTag`.
struct SizeTag {
  uint32_t input, dim;
};
inline constexpr uint32_t kStrideTag = 64;
/// In place of a dimension: the input is an int, not a tensor.
inline constexpr uint32_t kNumberTag = 255;
inline uint64_t size_tag(SizeTag size) { return uint64_t{size.input} << 8 | size.dim; }
inline SizeTag size_of_tag(uint64_t tag) { return {static_cast<uint32_t>(tag >> 8), static_cast<uint32_t>(tag & 255)}; }

/// RAII around one call into torch: the tracer is current on this thread and both keys are in TLS.
/// Each operator called inside becomes a node, except `profiler::` operators and operators that only read metadata.
/// An op that cannot be recorded (a tensor the tracer does not know, a generator, a symbolic number, a functorch
/// wrapper, ...) poisons and throws fake::Unsupported. An op that throws leaves no node.
/// Guards that save all of TLS (`inference_mode`) must be entered and left outside any TraceScope.
class STATOR_API TraceScope {
 public:
  explicit TraceScope(Tracer& tracer);
  ~TraceScope();
  TraceScope(const TraceScope&) = delete;

 private:
  Tracer* previous_;
  c10::impl::LocalDispatchKeySet previous_keys_;
  bool was_included_;
  shapes::EnvScope symbols_;
  fake::FakeScope fake_;
};

/// While it lives, in code that torch calls inside of a TraceScope, the dispatcher's keys are those from before the
/// innermost such scope: a new TraceScope records as usual.
class STATOR_API OutsideScope {
 public:
  OutsideScope();
  OutsideScope(const OutsideScope&) = delete;

 private:
  c10::impl::ForceDispatchKeyGuard keys_;
};

/// Adds the hook above autograd to this thread's key set, or removes it; returns the earlier setting. If no tracer is
/// current, operators run on fakes as in a trace, but are not recorded.
STATOR_API bool set_hook(bool on);

}  // namespace stator::tracer
