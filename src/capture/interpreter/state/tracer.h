#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "capture/call/call_node.h"
#include "capture/guards/shape_guards.h"
#include "capture/pycompat/ref.h"
#include "capture/values/specialised.h"
#include "core/shapes/input_layout.h"

namespace stator::graph {
class Graph;
enum class ControlOp : uint8_t;
}  // namespace stator::graph

namespace stator::capture {

struct Varying;

/// How the recorded nodes changed a graph input, in increasing order.
enum class InputWrite : uint8_t {
  None,
  Data,
  Facts,     // sizes, strides, storage or requires_grad of the tensor object
  Followed,  // data, by a node that autograd follows: the autograd history of its views changes as well
};

/// The interpreter's interface to tensors, in terms of Python objects: makes fakes, calls torch's bindings on them
/// while operators are recorded, and returns the finished graph. One per capture.
class TorchTracer {
 public:
  /// `takes_float_parameters`: symbolic floats may be arguments of operators that take a plain float.
  explicit TorchTracer(const std::string& graph_name, bool takes_float_parameters = true);
  ~TorchTracer();

  /// Also records the list below autograd. Must be called before anything else.
  void record_below();

  /// The fake that represents a real tensor; it becomes the graph's next input.
  /// Null (with the reason in `failure()`) for tensors that have no fake. `layout`: its symbolic sizes.
  Ref add_input(PyObject* real, const std::string& name, const shapes::InputLayout& layout = {});
  /// While the default dtype differs from that at the start of the attempt, operators that make tensors are recorded
  /// with the dtype they give, so that the graph gives the same results under the default dtype of the start. See
  /// tracer::Tracer for what is refused.
  void fix_dtypes();
  /// Whether sizes of inputs may be symbolic.
  bool takes_symbols() const;
  /// Whether an operator was recorded that states where its result begins in a storage.
  bool states_offsets() const;
  /// The sizes of inputs and the ints that these symbolic numbers follow from, as the text of a break names them; empty
  /// if one depends on data.
  std::string sizes_in(const std::vector<PyObject*>& numbers) const;
  /// The truth of a symbolic number: known from facts, or that for the sizes at capture, which is guarded. None for one
  /// that depends on data.
  std::optional<bool> truth_of(PyObject* number);
  /// The value of an int that follows from sizes and ints of the inputs, guarded, if that leaves them more than one
  /// value each (`min(3, n)`, `n // 4`).
  std::optional<int64_t> value_of(PyObject* number);
  /// Later questions are answered by this truth of a symbolic bool. A node of the graph verifies it.
  void learn(PyObject* number, bool truth);
  /// The guards on symbolic sizes; the inputs refer to those of the graph. Null if no size is symbolic.
  std::shared_ptr<ShapeGuards> shape_guards();
  /// Guards that a number computed from sizes, and all that it is computed from, fits 64 bits and does not raise. False
  /// if it depends on data.
  bool guard_number(PyObject* number);
  /// Adds a guard that a backend took, over symbols of the captured sizes. False if it is not a truth about them, or
  /// does not hold for the sizes at capture.
  bool add_guard(const std::string& truth);
  /// The sizes and ints whose symbols have these names.
  Varying numbers_named(const std::vector<std::string>& symbols) const;
  /// The symbolic sizes and ints that guards made constants.
  Varying constant_numbers();
  /// The symbolic sizes and ints that turned out to be one value.
  std::vector<Specialised> specialised();
  /// Sets the function that names the program line and operator behind a symbolic guard. `Mentions`: whether the guard
  /// is about this number.
  using Mentions = std::function<bool(PyObject* number)>;
  void set_locator(std::function<Question(const Mentions&)> locator);
  /// The name of the operator that is being answered; empty if there is none.
  std::string running_operator() const;
  /// The name of a parameter of a torch function, given by its place; its number where no operator has the function's
  /// name.
  static std::string parameter(const std::string& function, size_t place);
  /// A fake for constant data; each run of the graph gets a new copy.
  Ref add_constant(PyObject* real);

  /// Runs `call` (which returns a new reference, or null with a Python error set) with recording on.
  /// Null if it raised, or if data of a fake was read even if the error was swallowed: see `failure()`.
  template <class F>
  Ref record(F&& call) {
    return record_erased(&call, [](void* f) { return (*static_cast<std::remove_reference_t<F>*>(f))(); });
  }
  /// Like `record`, with recording off: the results are unknown to the graph until `add_call` adds them.
  template <class F>
  Ref run_on_fakes(F&& call) {
    return run_erased(&call, [](void* f) { return (*static_cast<std::remove_reference_t<F>*>(f))(); });
  }
  /// Adds a node that calls a Python object with these fakes and returns `results`, a tuple of fakes.
  /// False, with `failure()`, where it cannot be recorded.
  bool add_call(PyObject* callable, const std::vector<PyObject*>& tensors, PyObject* results, CallNode kind);
  /// Cuts the nodes from number `first` on out of the graph into a sub-graph; the caller adds the node that runs it.
  /// `inputs`: the fakes that the sub-graph takes. `made`: a tuple of those of `outputs` that it computes. `graph` is
  /// null, with `failure()`, if the nodes cannot be a sub-graph.
  struct Part {
    std::shared_ptr<graph::Graph> graph;
    std::vector<Ref> inputs;
    Ref made;
    std::vector<PyObject*> written;  // the inputs to whose memory it writes
    bool aliases = false;            // an output shares memory with an input or another output
  };
  Part cut(size_t first, const std::vector<PyObject*>& outputs);
  /// Makes the part's graph take these fakes in this order; they must include all that it uses.
  static void arrange_inputs(Part& part, const std::vector<PyObject*>& fakes);
  /// A node of an operator with sub-graphs (core/graph/control_ops.h). An operand is a sub-graph, one fake, a list of
  /// fakes, a flag, or a flag or text that may be missing. `results`: a tuple of fakes. False, with `failure()`, where
  /// it cannot be recorded.
  using ControlOperand = std::variant<std::shared_ptr<graph::Graph>, PyObject*, std::vector<PyObject*>, bool,
                                      std::optional<bool>, std::optional<std::string>>;
  bool add_control(graph::ControlOp op, const std::vector<ControlOperand>& operands, PyObject* results);
  /// Copies of the fakes in the tuple `made`, as a tuple: the results of one autograd node over `made` and `operands`
  /// (see core/backend/join_gradients.h). Null, with `failure()`, if a fake has a forward-mode gradient.
  Ref join_gradients(graph::ControlOp op, PyObject* made, const std::vector<PyObject*>& operands);
  /// Makes the tuple of fakes the results of a reentrant checkpoint of `arguments`. False, with `failure()`, where that
  /// cannot be.
  bool attach_checkpoint(PyObject* made, const std::vector<PyObject*>& arguments);
  /// Stacks copies of each fake along a new first dimension, which is as long as the first dimension of `like`; a
  /// tuple. Null, with `failure()`, for a fake that is not contiguous, if that length is symbolic.
  Ref stack_rows(const std::vector<PyObject*>& rows, PyObject* like);
  // ---- numbers that depend on data, as torch's objects for symbolic numbers
  /// A float that becomes the graph's next input. Null, with `failure()`, if the graph takes none.
  Ref add_number_input(const std::string& name);
  /// The same for an int, whose value at capture is `hint`.
  Ref add_number_input(const std::string& name, int64_t hint);
  /// The only element of a fake. Null, with `failure()`, if it is not a plain number.
  Ref item(PyObject* fake);
  /// Python's `a op b` (`b` null: of one operand) of such objects and of plain numbers, by the names of
  /// shapes::op_name; a plain number if the result is known. Null, with `failure()`, if Python's result has a
  /// type that depends on the data. `can_fail`: whether a run may raise in it.
  Ref number_result(const char* op, PyObject* a, PyObject* b, bool* can_fail);
  /// The fake of the tensor that holds such a number. Null, with `failure()`, if the graph cannot compute it.
  Ref number_fake(PyObject* symbol);
  /// int, float or bool for such an object; null for others.
  static PyTypeObject* number_type(PyObject* object);
  /// Whether a size of the fake depends on data.
  static bool has_symbolic_sizes(PyObject* fake);
  /// Whether the fake's memory was written to so far.
  bool is_written(PyObject* fake) const;
  /// How each input was changed so far, by its number.
  std::vector<InputWrite> input_writes() const;
  static bool holds_truth(PyObject* fake);
  static bool has_no_dimensions(PyObject* fake);
  /// Whether the last failure was a symbolic number in a tensor's place: the call needs `number_fake`.
  bool wants_number_as_tensor() const;

  /// Whether a call that warns fails, from here on.
  void refuse_warnings(bool refuse) { refuses_warnings_ = refuse; }
  /// Whether something was recorded while such calls failed.
  bool has_refused_warnings() const { return has_refused_warnings_; }

  /// While it lives, code that torch calls runs as outside of the recorded call: what it records are nodes of their
  /// own. Autograd sees none of them, so those are refused that it would record. See tracer::OutsideScope.
  class Reentry {
   public:
    explicit Reentry(TorchTracer& tracer);
    ~Reentry();
    Reentry(const Reentry&) = delete;

   private:
    struct State;
    std::unique_ptr<State> state_;
  };

  /// Whether the last call failed outside of operators, or in one that may raise depending on data.
  bool failed_by_data() const;
  /// The reason why the last call returned null; cleared by the next call.
  const std::string& failure() const { return failure_; }
  /// Whether the last failure was a poisoned fake (its data was read) or a refused operator, not an ordinary error.
  bool was_refused() const { return refused_; }

  /// Whether the tensor is a value of the graph, or a functorch wrapper around one. Torch's bindings for factories
  /// return a shallow copy of what the newest node made: this call makes such a copy that value, too.
  bool knows(PyObject* tensor);
  /// Whether two fakes have one storage.
  static bool share_storage(PyObject* fake, PyObject* other);
  static bool is_wrapped(PyObject* tensor);
  /// Whether a fake is contiguous and does not share its storage.
  static bool fills_storage(PyObject* fake);
  /// Whether two fakes differ only in their data and in their autograd history.
  static bool is_alike(PyObject* a, PyObject* b);
  /// Whether the fake is one bool.
  static bool is_truth(PyObject* fake);
  /// Whether the fake can have a gradient.
  static bool is_differentiable(PyObject* fake);
  /// Whether both have as many rows (places in the first dimension), at least one. False where it depends on data.
  static bool have_same_rows(PyObject* a, PyObject* b);
  /// Whether the strides of a fake are those of the real tensor for all sizes that its symbols stand for: sizes 0 and 1
  /// leave strides open.
  static bool has_known_strides(PyObject* fake);
  /// The number of elements; the sizes are known.
  static int64_t element_count(PyObject* fake);
  /// Whether some `autocast` block, enabled or not, is open on this thread.
  static bool in_autocast_block();
  /// An `autocast` block of the program ended.
  void autocast_ended();
  /// A `torch.inference_mode` block of the program begins or ends; blocks end in reverse order.
  void enter_inference_mode(bool enabled);
  void leave_inference_mode();
  /// Whether the program has opened such a block.
  bool in_inference_block() const;
  /// A line of the program, called from another one (0: none). `module`: the path and class of the torch.nn.Module
  /// whose method it is in; empty texts for none.
  uint32_t add_location(PyObject* file, PyObject* function, int line, uint32_t caller,
                        std::pair<std::string, std::string> module);
  /// The path and class of the module at a location, as they were given to `add_location`.
  std::pair<std::string, std::string> module_at(uint32_t location) const;
  /// Location of the nodes recorded from here on.
  void use_location(uint32_t location);
  /// A `record_function` block of the program begins, or the innermost one ends.
  void open_range(const std::string& name);
  void close_range();
  /// A call of a function marked by `torch.compiler.nested_compile_region` begins: false inside of another one. Or the
  /// call for which `open_region` gave true ends.
  bool open_region();
  void close_region();
  size_t node_count() const;

  /// The graph with these fakes as outputs. Inputs that nothing uses are dropped; `kept` gets the old index of each
  /// input that stays.
  std::shared_ptr<graph::Graph> finish(const std::vector<PyObject*>& outputs, std::vector<uint32_t>& kept);

  /// Whether a tensor of any class has a layout and device for which there is a fake.
  static bool is_plain_tensor(PyObject* object);
  /// Whether operators on the tensor call the `__torch_dispatch__` of its class, and it has no data of its own.
  static bool is_wrapper(PyObject* object);
  /// Any torch.Tensor instance, including subclasses.
  static bool is_tensor(PyObject* object);
  /// torch.Tensor and torch.nn.Parameter, which do not override operators.
  static bool is_plain_class(const PyTypeObject* type) { return type == tensor_type() || type == parameter_type(); }
  static PyTypeObject* tensor_type();
  static PyTypeObject* parameter_type();

 private:
  static void install_numbers();
  Ref record_erased(void* call, PyObject* (*run)(void*));
  Ref run_erased(void* call, PyObject* (*run)(void*));
  template <class Scope>
  Ref in_scope(Scope&& scope, void* call, PyObject* (*run)(void*));

  struct Impl;
  std::unique_ptr<Impl> impl_;
  std::string failure_;
  bool refused_ = false;
  const bool takes_float_parameters_;
  bool refuses_warnings_ = false;
  bool has_refused_warnings_ = false;
};

/// The message of the current Python error, which is cleared.
std::string take_error_text();
/// Whether an attribute of an object is True: a fact of a fake.
bool is_true_of(PyObject* object, const char* name);

}  // namespace stator::capture
