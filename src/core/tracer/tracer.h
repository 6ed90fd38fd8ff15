#pragma once

#include <ATen/core/Tensor.h>
#include <ATen/core/stack.h>
#include <c10/core/SymNodeImpl.h>

#include <memory>
#include <string>

#include "core/base/export.h"
#include "core/fake/fake_tensor.h"
#include "core/graph/graph.h"

namespace stator::tracer {

/// Registers the boxed fallback on the mode key above autograd; called once at load. Empty string, or the reason.
STATOR_API std::string install();

/// Records every operator call made on fakes inside a `TraceScope` into one graph, at the level above autograd
/// (composites whole) and, where asked for, at the level below it (`Graph::below`). One tracer serves one capture on
/// one thread. Every tensor it has seen stays alive as long as it and its graph have their fakes, so that addresses
/// identify tensors.
class STATOR_API Tracer {
 public:
  /// The one that records on this thread now, or null.
  static Tracer* running();

  explicit Tracer(std::string graph_name);
  ~Tracer();

  /// Also keeps the list below autograd, which costs about as much again. To be asked for before anything is added.
  void record_below();

  /// Results may have sizes that depend on data (see `number`). Not where the list below is kept.
  void allow_symbols();

  /// A fake for a real input tensor; becomes the next graph input.
  at::Tensor add_input(const at::Tensor& real, std::string name);
  /// A fake for a tensor whose value is fixed at capture (a constructor's literal data): each run of the graph
  /// gets a fresh copy of `data`, which the graph owns.
  at::Tensor add_constant(const at::Tensor& data);
  /// The value of a tensor this tracer made or saw; kNoValue for others.
  graph::ValueId value_of(const at::Tensor& fake) const;
  /// torch's factory bindings hand out a shallow copy of what the recorded op made. If `fake` is such a copy of a
  /// result of the newest node, it stands for that result from now on.
  bool adopt(const at::Tensor& fake);
  /// To be called after each end of an `autocast` block: once the outermost has ended, later nodes start with an
  /// empty cache of casts, as they do in eager.
  void autocast_ended();
  /// Adds a node for a call that ran outside of any scope: `args` is what the operator takes, `results` the fakes that
  /// came of it. Throws as an operator in a scope does; there is no form of it below autograd.
  void add_call(const c10::OperatorHandle& op, const torch::jit::Stack& args, const torch::jit::Stack& results);
  /// The one element of a fake as a number: a node reads it at this point of a run. Refuses what has other elements, or
  /// a dtype that is no plain number's.
  c10::SymNode item(const at::Tensor& fake);
  /// The tensor, without dimensions, that holds such a number, a size or what was computed of them; nodes that compute
  /// it are added where they are missing. Refuses a number that the graph cannot tell.
  at::Tensor number(const c10::SymNodeImpl* node);
  /// A symbol of its own for such a number, which is computed at this point of a run.
  c10::SymNode named(const c10::SymNodeImpl* node);
  /// Where the program is now; used for nodes recorded from here on. Cheap.
  void set_location(uint32_t location);

  graph::Graph& graph();
  /// The same graph, to be kept beyond the tracer.
  std::shared_ptr<graph::Graph> share_graph();
  /// That graph with its outputs, and with `below` where it was asked for. The trace ends here. Throws for a tensor
  /// that is no value of the graph.
  std::shared_ptr<graph::Graph> finish(c10::ArrayRef<at::Tensor> outputs);
  /// Number of nodes so far; `rollback(n)` forgets the nodes from the n-th on (their values must be unused). Inputs
  /// added since stay. What in-place ops did to the metadata of older fakes is not undone.
  size_t mark() const;
  void rollback(size_t mark);
  /// The nodes from the `mark`-th on, as a graph of their own that takes `inputs`, values of this one, and gives those
  /// of `outputs` that these nodes made (`made`). They are gone from this graph: the outputs become values again with
  /// the `add_call` that stands for the part, which writes to values of the rest wherever one of the nodes did.
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

/// RAII around one call into torch: the tracer is current on this thread and both keys are in TLS.
/// Each op called inside becomes a node, except `profiler::` ops and ops that only answer a question about metadata.
/// An op that cannot be recorded (a tensor the tracer does not know, a generator, a symbolic number, a functorch
/// wrapper, ...) poisons and throws fake::Unsupported. An op that throws leaves no node.
/// Guards that save all of TLS (`inference_mode`) must be entered and left outside of any TraceScope.
class STATOR_API TraceScope {
 public:
  explicit TraceScope(Tracer& tracer);
  ~TraceScope();
  TraceScope(const TraceScope&) = delete;

 private:
  Tracer* previous_;
  bool was_included_;
  bool symbols_;
  fake::FakeScope fake_;
};

/// Puts the hook above autograd into this thread's key set or takes it out; returns what it was. Where no tracer is
/// current, operators are answered on fakes as in a trace, and nothing is recorded.
STATOR_API bool set_hook(bool on);

}  // namespace stator::tracer
