#pragma once

#include <ATen/core/Tensor.h>
#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/core/stack.h>
#include <c10/core/SymNodeImpl.h>

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "core/base/export.h"
#include "core/graph/graph.h"
#include "core/shapes/env.h"

namespace stator::tracer {

/// Registers the boxed fallback on the key above autograd that `FunctionTracer` uses. Empty string, or why it failed.
STATOR_API std::string install_function_tracer();

/// Real: operators also run on the caller's tensors. Fake: nothing runs, sizes are plain. Symbolic: sizes of the inputs
/// are symbols.
enum class TraceMode : uint8_t { Real, Fake, Symbolic };

class FunctionTracer;
struct Memories;

struct FunctionTracerOptions {
  TraceMode mode = TraceMode::Real;
  /// Record above autograd: a composite operator is one node.
  bool above = false;
  /// Fake and symbolic: real tensors from outside become constants. Otherwise they are an error.
  bool allow_real = false;
  /// Real: a read of traced data is an error. Otherwise the number that was read becomes a constant of the trace.
  bool refuse_reads = true;
  /// The trace in which this one is a sub-graph. The two share their symbols, and a value of the outer trace that the
  /// function uses becomes an attribute. Outlives this trace.
  FunctionTracer* outer = nullptr;
};

/// What a trace asks of the language that the program is written in. Each function may be null.
struct FunctionTracerHost {
  /// Computes an operator by others. True if it did: the results replaced the arguments on top of the stack.
  std::function<bool(const c10::OperatorHandle&, torch::jit::Stack*)> decompose;
  /// The Python number for which torch's binding passed this placeholder tensor; null if none.
  std::function<c10::SymNode(const at::Tensor&)> number_of;
  /// The form in which the language's bindings take a symbolic float or truth.
  std::function<c10::SymNode(c10::SymNode)> wrap_number;
  /// The fake of this trace for a tensor of another library's fakes; undefined for other tensors.
  std::function<at::Tensor(const at::Tensor&)> foreign;
  /// Puts a mode on the thread's stack while the result lives. The mode gives operators to `call_on_subclass`.
  std::function<std::shared_ptr<void>()> subclass_mode;
  /// An operator on a tensor subclass gave this one.
  std::function<void(const at::Tensor&)> subclass_made;
  /// For an instance of a tensor subclass that autograd copied, such as a saved tensor: the value of the original;
  /// kNoValue if none.
  std::function<graph::ValueId(const at::Tensor&)> subclass_original;
  /// The location of the program for the node that is recorded next.
  std::function<uint32_t(graph::Graph&)> locate;
};

/// Why a trace failed. The first failure counts: no handler of the program can hide it.
struct TraceFailure {
  enum class Kind : uint8_t { RealTensor, DataRead, Unsupported };
  Kind kind = Kind::Unsupported;
  std::string message;
};

/// Records the operators that a function calls, as a graph. The graph's first inputs are the inputs of the function.
/// Tensors from outside that the function uses are its last inputs: the attributes.
///
/// The function gets fakes. In the real mode each has a twin, the caller's tensor, on which operators run when they
/// have passed autograd; results are fakes with twins again. So the program cannot read data unseen, and formulas of
/// autograd do not look at it.
///
/// One tracer records one call, on the thread of its scope. Traces nest: the inner one records alone.
class STATOR_API FunctionTracer {
 public:
  struct FakeGeometry {
    std::vector<c10::SymInt> sizes, strides;
    c10::SymInt offset = 0;
  };

  FunctionTracer(std::string graph_name, FunctionTracerOptions options, FunctionTracerHost host = {});
  ~FunctionTracer();
  FunctionTracer(const FunctionTracer&) = delete;

  /// The innermost tracer that records on this thread; null if there is none.
  static FunctionTracer* current();

  const FunctionTracerOptions& options() const;

  /// The fake that the function gets for a tensor. The same tensor again: the same fake, which is the later input.
  at::Tensor add_input(const at::Tensor& real, std::string name);
  /// Of a tensor of another library's fakes, which has no data: by its metadata. `base`: a fake of this trace with
  /// which it shares memory; may be undefined. `is_attribute`: the tensor comes from outside.
  at::Tensor add_input(const at::Tensor& foreign, const FakeGeometry& geometry, const at::Tensor& base,
                       std::string name, bool is_attribute = false);
  /// A tensor subclass that dispatches its operators itself. Operators on it are nodes. `made` is what the function
  /// gets: the tensor itself in the real mode, otherwise one over fakes of this trace.
  void add_subclass_input(const at::Tensor& real, const at::Tensor& made, std::string name);
  /// A fake of a tensor that is not an input.
  at::Tensor fake_of(const at::Tensor& real, const std::string& name);
  /// An operator below autograd, among whose arguments is a tensor subclass: see `subclass_mode`.
  void call_on_subclass(const c10::OperatorHandle& op, torch::jit::Stack* stack);
  /// A value for a copy of a tensor subclass that autograd made; see `subclass_original`. False if there is none.
  bool find_copy(const at::Tensor& tensor);
  /// From now on a use of this tensor is an error: a graph cannot depend on it.
  void forbid(const at::Tensor& tensor, std::string message);
  /// The number of nodes so far.
  size_t position() const;
  /// Makes a backed symbol for a size, stride or offset of an input added by `add_input`; `hint` is its value now.
  c10::SymInt add_symbol(int64_t hint, std::string source);
  /// The symbol that the function gets for an integer, in the symbolic mode. A plain integer for 0 and 1.
  c10::SymInt add_integer_input(int64_t number, std::string name);

  /// To be called after the last input. A gradient that an input has already becomes an attribute.
  void add_gradients();

  /// The value of a result; tensors from outside become attributes. Throws if the graph does not have it.
  graph::ValueId output(const at::Tensor& result);
  graph::ValueId output(const c10::SymNodeImpl* number);

  /// Adds a node that the language computes: `stator::traced_call(int function, ...)`. `results` are fakes that were
  /// made while the trace was paused. A number is a symbolic or plain integer, float or truth.
  void record_call(int64_t function, std::vector<at::Tensor> tensors, const std::vector<c10::IValue>& numbers,
                   const std::vector<at::Tensor>& results);
  /// Whether this trace, or an enclosing one, has recorded the tensor as a graph value.
  bool has(const at::Tensor& tensor) const;

  /// The tensors from outside, in the order of the last inputs. Fakes are values of the outer trace.
  const std::vector<at::Tensor>& attributes() const;
  /// The number of the outer trace that an attribute stands for; null for tensors.
  c10::SymNode attribute_number(size_t attribute) const;
  /// The real tensor of a fake of this trace, in the real mode; undefined for others.
  at::Tensor real_of(const at::Tensor& fake) const;
  /// The symbols of the trace.
  shapes::ShapeEnv& symbols();

  /// While on, operators run and are not recorded. What they make is a tensor from outside to the operators after that,
  /// in the real mode. Returns the earlier setting.
  bool pause(bool on);

  /// Runs `calls`. If it returns false, or torch refuses a call, what it recorded is removed, and the answer is false.
  bool attempt(const std::function<bool()>& calls);

  /// To be called after the function. A backward pass gave gradients to tensors from outside: in the real mode these
  /// become real tensors, in other modes the tensors get what they had.
  void settle_gradients();

  Memories memories() const;
  /// To be called when the graph has been made. In the real mode, tensors of the trace that the program has kept become
  /// real tensors, with the data that operators computed.
  void release();

  const std::optional<TraceFailure>& failure() const;
  void fail(TraceFailure failure);

  /// Ends the trace.
  std::shared_ptr<graph::Graph> finish(std::vector<graph::ValueId> outputs);
  std::shared_ptr<graph::Graph> share_graph();

  struct Impl;

 private:
  friend class FunctionTraceScope;
  std::unique_ptr<Impl> impl_;
};

/// RAII: the tracer records what this thread calls. At the end the thread's dispatch keys, grad mode, inference mode
/// and autocast are what they were, whatever the function left.
class STATOR_API FunctionTraceScope {
 public:
  explicit FunctionTraceScope(FunctionTracer& tracer);
  ~FunctionTraceScope();
  FunctionTraceScope(const FunctionTraceScope&) = delete;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace stator::tracer
