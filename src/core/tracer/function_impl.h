#pragma once

#include <unordered_map>
#include <unordered_set>

#include "core/fake/composite.h"
#include "core/fake/fake_tensor.h"
#include "core/fake/observer.h"
#include "core/fake/twin.h"
#include "core/shapes/current.h"
#include "core/tracer/function_recorder.h"

namespace stator::tracer {

inline constexpr auto kAboveKey = c10::DispatchKey::DeferredInit;

/// What a trace asks of an operator's registration, found once per operator.
struct OperatorFacts {
  const c10::FunctionSchema* schema = nullptr;
  bool is_split = false;          // composite: autograd decomposes it before the `Fake` key
  bool reads_data = false;        // returns a number that depends on data
  bool is_random = false;         // draws from a generator
  bool has_open_shape = false;    // the sizes of its results depend on data
  bool is_lift = false;           // brings a tensor that a constructor made into the program
  bool is_collective = false;     // of c10d: gives tensors that follow from its arguments, and a Work object
  bool is_free = false;           // recorded nowhere: profiler ranges, questions about metadata
  std::vector<uint32_t> written;  // arguments that it writes to
};
const OperatorFacts& facts_of(const c10::OperatorHandle& op);

struct FunctionTracer::Impl final : fake::Observer, shapes::AssertSink {
  Impl(std::string name, FunctionTracerOptions options, FunctionTracerHost host);

  // ---- dispatch
  /// At the key above autograd. `keys` are those below it.
  void above(const c10::OperatorHandle& op, c10::DispatchKeySet keys, torch::jit::Stack* stack);
  /// Redispatches to autograd and the keys below.
  void pass_on(const c10::OperatorHandle& op, c10::DispatchKeySet keys, torch::jit::Stack* stack);
  /// Records a composite that can't run on fakes as one node, above or below autograd. Refuses gradients.
  void as_one_node(const fake::CompositeAnswer& composite, const c10::OperatorHandle& op, c10::DispatchKeySet keys,
                   torch::jit::Stack* stack);
  /// At the `Fake` key.
  bool intercept(const c10::OperatorHandle& op, c10::DispatchKeySet keys, torch::jit::Stack* stack) override;
  void before(const c10::OperatorHandle&, const torch::jit::Stack&) override {}
  void after(const c10::OperatorHandle&, const torch::jit::Stack&) override {}
  /// A node that raises if the truth does not hold in a run.
  void asserted(shapes::Ex truth) override;

  // ---- recording
  template <class Run>
  void record(const c10::OperatorHandle& op, torch::jit::Stack* stack, const Run& run);
  /// Runs the operator below autograd: on twins, or by its shape function.
  void run(const c10::OperatorHandle& op, torch::jit::Stack* stack);
  void run_on_twins(const c10::OperatorHandle& op, torch::jit::Stack* stack);
  /// At the key above autograd, an operator on a tensor subclass that is a value. The key of the subclass lies above
  /// `Fake`, so it is recorded here; one that has a gradient by a mode, which autograd's kernel calls.
  void above_on_subclass(const c10::OperatorHandle& op, c10::DispatchKeySet keys, torch::jit::Stack* stack);
  void call_on_subclass(const c10::OperatorHandle& op, torch::jit::Stack* stack);
  void record_on_subclass(const c10::OperatorHandle& op, torch::jit::Stack* stack);
  /// An operator on a tensor inside of a tensor subclass: autograd copies both; others are refused.
  void on_forbidden(const c10::OperatorHandle& op, c10::DispatchKeySet keys, torch::jit::Stack* stack,
                    const std::string& message);
  const std::string* forbidden_among(at::ArrayRef<c10::IValue> arguments) const;
  bool find_copy(const at::Tensor& tensor);
  void find_copies(at::ArrayRef<c10::IValue> arguments);
  /// The subclass computes it.
  void run_on_subclass(const c10::OperatorHandle& op, torch::jit::Stack* stack);
  bool takes_subclass_value(at::ArrayRef<c10::IValue> arguments) const;
  /// Tells the host of tensor subclasses among the results.
  void note_subclasses(const torch::jit::Stack& stack, size_t count) const;
  /// Runs the shape function. If it takes no symbolic sizes, guards the sizes at capture and uses those. An ATen
  /// operator without a shape function runs on sample arguments.
  void run_on_fakes(const c10::OperatorHandle& op, torch::jit::Stack* stack);
  /// On tensors of the meta device that are no fakes: torch's kernels use them to compute metadata.
  void run_on_meta(const c10::OperatorHandle& op, torch::jit::Stack* stack);
  void run_specialised(const c10::OperatorHandle& op, torch::jit::Stack* stack);
  /// A composite operator by the operators that it calls; with the given sizes, which are guarded, if it looks at plain
  /// ones.
  void run_composite(const c10::OperatorHandle& op, c10::DispatchKeySet keys, torch::jit::Stack* stack);
  /// Runs it with the given sizes, which are guarded, if it looks at plain ones.
  void run_or_specialise(const c10::OperatorHandle& op, torch::jit::Stack* stack, const std::function<void()>& run);
  /// Symbolic sizes of the arguments become plain ones. Throws if one depends on data.
  void specialise(const c10::OperatorHandle& op, torch::jit::Stack* stack);
  /// A collective (c10d) gives its arguments back, or new tensors of sizes that follow from its arguments.
  void run_collective(const c10::OperatorHandle& op, torch::jit::Stack* stack);
  /// An operator of torch without a shape function, or on tensors that have no fakes: its kernel runs on ones, and on
  /// zeros for integers.
  void run_on_samples(const c10::OperatorHandle& op, torch::jit::Stack* stack);
  /// Refuses a question about what a tensor without a fake holds, unless the program has stated the answer: it was
  /// computed from sample arguments.
  void check_own_data(const c10::OperatorHandle& op, const torch::jit::Stack& stack);
  void lift(const c10::OperatorHandle& op, torch::jit::Stack* stack);
  void read(const c10::OperatorHandle& op, torch::jit::Stack* stack);
  void set_place();

  // ---- tensors from outside
  /// Replaces real tensors among the arguments by the fakes of attributes. `is_above`: before autograd, which must
  /// still reach the real tensor's gradient edge.
  void bring_in(const c10::OperatorHandle& op, torch::jit::Stack* stack, bool is_above);
  at::Tensor bring_in(const c10::OperatorHandle& op, const at::Tensor& tensor, bool is_above);
  /// Replaces fakes of another library among the arguments.
  void bring_in_foreign(const c10::OperatorHandle& op, torch::jit::Stack* stack);
  at::Tensor attribute(const at::Tensor& real);
  /// Makes a fake that no recorded operator made an attribute: a value of the outer trace, or the fake's twin. False if
  /// it is neither.
  bool bring_in_fake(const at::Tensor& fake);
  /// Makes a symbol of the outer trace an attribute.
  bool bring_in_symbol(shapes::Ex symbol);
  /// The offset of an input may be a symbol: the node that reads it is made when an operator needs it, or changes it.
  void learn_offset(const at::Tensor& fake, graph::ValueId input);
  void keep_offsets(const c10::OperatorHandle& op);
  void add_offset(shapes::Ex symbol, graph::ValueId input);
  bool has(const at::Tensor& tensor) const;

  // ---- constants
  bool is_known(const at::Tensor& tensor) const;
  bool all_known(const torch::jit::Stack& stack, size_t count) const;
  /// Before an operator runs: whether it computes with constants alone. If not, what it writes to is unknown from now
  /// on.
  bool learn_writes(const c10::OperatorHandle& op, const torch::jit::Stack& stack);
  /// The results of an operator on constants are constants, if they are small.
  void learn_constants(at::ArrayRef<c10::IValue> results);

  [[noreturn]] void refuse(TraceFailure::Kind kind, std::string message);

  const FunctionTracerOptions options;
  const FunctionTracerHost host;
  Impl* const outer;  // null: none
  shapes::EnvPtr env;
  FunctionRecorder recorder;
  fake::FakeMode fakes;
  fake::Twins twins;
  std::vector<at::Tensor> attributes;
  std::vector<std::pair<shapes::Ex, graph::ValueId>> offsets;  // of inputs
  std::unordered_map<size_t, shapes::Ex> attribute_numbers;    // by attribute: of the outer trace
  struct Outside {
    at::Tensor real, fake;
    at::Tensor gradient;  // the real one's before the trace
    bool is_input = false;
  };
  /// A tensor that must not be used, and why. The weak reference keeps other tensors from its address.
  struct Forbidden {
    c10::weak_intrusive_ptr<c10::TensorImpl> tensor;
    std::string message;
  };
  std::unordered_map<const c10::TensorImpl*, Outside> outside;  // by the real tensor
  std::unordered_map<const c10::TensorImpl*, Forbidden> forbidden;
  std::unordered_set<const c10::StorageImpl*> known;  // storages of fakes whose twins hold constants
  std::optional<TraceFailure> failure;
  bool is_inside = false;  // a recorded operator runs: what it calls is not recorded
  bool is_paused = false;  // nothing is recorded
  bool is_plain = false;   // a subclass computes, on real tensors: its operators run as they are
  uint32_t state = 0;
};

}  // namespace stator::tracer
