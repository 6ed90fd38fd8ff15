#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "capture/call/call_node.h"
#include "capture/pycompat/ref.h"

namespace stator::graph {
class Graph;
}

namespace stator::capture {

/// The interpreter's door to tensors, in Python objects only: makes fakes, calls torch's bindings on them while every
/// operator is recorded, and hands out the finished graph. One per capture.
class TorchTracer {
 public:
  explicit TorchTracer(const std::string& graph_name);
  ~TorchTracer();

  /// The graph also gets the list below autograd. To be called before anything else.
  void record_below();

  /// The fake that stands for a real tensor; it becomes the graph's next input.
  /// Null (with `failure()` telling why) for tensors that have no fake.
  Ref add_input(PyObject* real, const std::string& name);
  /// A fake of data that is fixed now; each run of the graph gets a fresh copy.
  Ref add_constant(PyObject* real);

  /// Runs `call` (which returns a new reference, or null with a Python error set) with recording on.
  /// Null when it raised, or when data of a fake was asked for even if the error was swallowed: see `failure()`.
  template <class F>
  Ref record(F&& call) {
    return record_erased(&call, [](void* f) { return (*static_cast<std::remove_reference_t<F>*>(f))(); });
  }
  /// Like `record`, with recording off: what is made is unknown to the graph until `add_call` tells of it.
  template <class F>
  Ref run_on_fakes(F&& call) {
    return run_erased(&call, [](void* f) { return (*static_cast<std::remove_reference_t<F>*>(f))(); });
  }
  /// A node that calls a Python object with these fakes; it stands for what made `results`, a tuple of fakes.
  /// False, with `failure()`, where it cannot be recorded.
  bool add_call(PyObject* callable, const std::vector<PyObject*>& tensors, PyObject* results, CallNode kind);
  /// The nodes from the `first`-th on become a graph of their own, which a node that is to be added calls. `inputs` are
  /// the fakes that it takes; `made`, a tuple, those of `outputs` that it gives. No graph where that cannot be.
  struct Part {
    std::shared_ptr<graph::Graph> graph;
    std::vector<Ref> inputs;
    Ref made;
    bool writes = false;   // to memory of an input
    bool aliases = false;  // an output is no memory of its own: it is an input's, or another output's
  };
  Part cut(size_t first, const std::vector<PyObject*>& outputs);
  // ---- numbers that depend on data, as torch's objects for symbolic ones
  /// The one element of a fake. Null, with `failure()`, where it is no plain number.
  Ref item(PyObject* fake);
  /// Python's `a op b` (`b` null: of one operand) of such objects and of plain numbers, by the names of
  /// shapes::op_name; a plain number where the result is known. Null, with `failure()`, where Python's result is of a
  /// type that depends on the data. `can_fail`: whether a run may raise in it.
  Ref number_result(const char* op, PyObject* a, PyObject* b, bool* can_fail);
  /// The fake of the tensor that holds such a number. Null, with `failure()`, where the graph cannot tell it.
  Ref number_fake(PyObject* symbol);
  /// int, float or bool for such an object; null for others.
  static PyTypeObject* number_type(PyObject* object);
  /// Whether a size of the fake depends on data.
  static bool has_symbolic_sizes(PyObject* fake);
  /// Whether something was written to the fake's memory so far.
  bool is_written(PyObject* fake) const;
  static bool holds_truth(PyObject* fake);
  static bool has_no_dimensions(PyObject* fake);
  /// The last failure was one of a number in a tensor's place: the call takes `number_fake`.
  bool wants_number_as_tensor() const;

  /// While set, a call that warns fails.
  bool refuses_warnings = false;
  /// Whether something was recorded while that was so.
  bool recorded_silently = false;

  /// Why the last call gave null; cleared by the next.
  const std::string& failure() const { return failure_; }
  /// The last failure was a poisoned fake (data asked for) or a refused operator, not an ordinary error.
  bool was_refused() const { return refused_; }

  /// Whether the tensor stands for a value of the graph (a factory's shallow copy does from now on), or is a wrapper of
  /// functorch's around one.
  bool knows(PyObject* tensor);
  static bool is_wrapped(PyObject* tensor);
  /// Whether a fake is contiguous and has its storage for itself.
  static bool fills_storage(PyObject* fake);
  /// Whether two fakes differ in their data alone, and in how autograd follows them.
  static bool is_alike(PyObject* a, PyObject* b);
  /// Whether it is one bool.
  static bool is_truth(PyObject* fake);
  /// Whether it can have a gradient.
  static bool is_differentiable(PyObject* fake);
  /// Of the first dimension; 0 without one.
  static int64_t length(PyObject* fake);
  /// An `autocast` block of the program ended.
  void autocast_ended();
  /// A `torch.inference_mode` block of the program begins or ends; blocks end in reverse order.
  void enter_inference_mode(bool enabled);
  void leave_inference_mode();
  /// A line of the program, called from another one (0: none).
  uint32_t add_location(PyObject* file, PyObject* function, int line, uint32_t caller);
  /// Location of the nodes recorded from here on.
  void use_location(uint32_t location);
  size_t node_count() const;

  /// The graph with these fakes as outputs. Inputs that nothing uses are dropped; `kept` gets the old index of each
  /// input that stays.
  std::shared_ptr<graph::Graph> finish(const std::vector<PyObject*>& outputs, std::vector<uint32_t>& kept);

  /// Whether a tensor, of whatever class, is of a kind that has a fake.
  static bool is_plain_tensor(PyObject* object);
  /// Any torch.Tensor instance, subclasses too.
  static bool is_tensor(PyObject* object);
  /// torch.Tensor and torch.nn.Parameter: no other class has a say in what operators do.
  static bool is_plain_class(const PyTypeObject* type) { return type == tensor_type() || type == parameter_type(); }
  static PyTypeObject* tensor_type();
  static PyTypeObject* parameter_type();

 private:
  Ref record_erased(void* call, PyObject* (*run)(void*));
  Ref run_erased(void* call, PyObject* (*run)(void*));
  template <class Scope>
  Ref in_scope(Scope&& scope, void* call, PyObject* (*run)(void*));

  struct Impl;
  std::unique_ptr<Impl> impl_;
  std::string failure_;
  bool refused_ = false;
};

/// The message of the current Python error, which is cleared.
std::string take_error_text();
/// Whether an attribute of an object is True: a fact of a fake.
bool is_true_of(PyObject* object, const char* name);

}  // namespace stator::capture
