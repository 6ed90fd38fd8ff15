#include "capture/interpreter/state/tracer.h"

#include <ATen/core/List.h>
#include <ATen/core/Tensor.h>
#include <torch/csrc/autograd/python_variable.h>

#include <algorithm>
#include <optional>
#include <unordered_set>

#include "capture/call/python_node.h"
#include "capture/interpreter/state/known_types.h"
#include "capture/interpreter/state/tracer_impl.h"
#include "capture/interpreter/state/warning_rule.h"
#include "capture/pycompat/text.h"
#include "core/base/check.h"
#include "core/fake/fake_tensor.h"
#include "core/graph/exec_state.h"
#include "core/graph/graph.h"
#include "core/shapes/float_markers.h"
#include "core/shapes/sym_node.h"

namespace stator::capture {

TorchTracer::TorchTracer(const std::string& graph_name, bool takes_float_parameters)
    : impl_(std::make_unique<Impl>(graph_name)), takes_float_parameters_(takes_float_parameters) {
  impl_->tracer.allow_symbols();
  install_numbers();
}
TorchTracer::~TorchTracer() = default;

void TorchTracer::fix_dtypes() { impl_->tracer.fix_dtypes(); }

Ref TorchTracer::add_input(PyObject* real, const std::string& name, const shapes::InputLayout& layout) {
  try {
    at::Tensor fake = impl_->tracer.add_input(THPVariable_Unpack(real), name, layout);
    return Ref::steal(THPVariable_Wrap(fake));
  } catch (const std::exception& error) {
    failure_ = error.what();
    return {};
  }
}

Ref TorchTracer::add_constant(PyObject* real) {
  try {
    return Ref::steal(THPVariable_Wrap(impl_->tracer.add_constant(THPVariable_Unpack(real))));
  } catch (const std::exception& error) {
    failure_ = error.what();
    return {};
  }
}

template <class Scope>
Ref TorchTracer::in_scope(Scope&& scope, void* call, PyObject* (*run)(void*)) {
  failure_.clear();
  refused_ = false;
  Ref result;
  try {
    const auto entered = scope();
    result = Ref::steal(run(call));
  } catch (const std::exception& error) {
    failure_ = error.what();
    fake::note_error(failure_);
    result = Ref();
  }
  if (!result && PyErr_Occurred()) {
    failure_ = take_error_text();
    fake::note_error(failure_);
  }
  if (fake::is_poisoned()) {
    PyErr_Clear();
    failure_ = fake::take_poison();
    refused_ = true;
    return {};
  }
  return result;
}

Ref TorchTracer::record_erased(void* call, PyObject* (*run)(void*)) {
  std::optional<WarningRule> rule;
  if (refuses_warnings_) rule.emplace(WarningRule::Action::Error);
  has_refused_warnings_ = has_refused_warnings_ || refuses_warnings_;
  impl_->tracer.forget_failure();
  std::optional<shapes::FloatMarkers> markers;
  if (takes_float_parameters_) {
    markers.emplace();
  } else {
    impl_->tracer.record_for_compilers();  // only graphs for Python backends take no symbolic floats there
  }
  Ref result = in_scope([&] { return tracer::TraceScope(impl_->tracer); }, call, run);
  if (!result || !markers || markers->all_taken()) return result;
  failure_ = "a float that changes, which is not an argument of an operator";
  refused_ = true;
  return {};
}

Ref TorchTracer::run_erased(void* call, PyObject* (*run)(void*)) {
  return in_scope([] { return fake::FakeScope(); }, call, run);
}

bool TorchTracer::add_call(PyObject* callable, const std::vector<PyObject*>& tensors, PyObject* results,
                           CallNode kind) {
  Ref done = run_on_fakes([&] {
    c10::List<at::Tensor> given, made;
    for (PyObject* tensor : tensors) given.push_back(THPVariable_Unpack(tensor));
    for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(results); ++i)
      made.push_back(THPVariable_Unpack(PyTuple_GET_ITEM(results, i)));
    impl_->tracer.add_call(python_node(kind), {given, held_object(callable)}, {made});
    return Py_NewRef(Py_None);
  });
  return static_cast<bool>(done);
}

/// The tensor inside functorch's wrappers.
static Ref unwrapped(PyObject* tensor) {
  static PyObject* const unwrap = known_object("torch._C._functorch.get_unwrapped");
  Ref inner = Ref::borrow(tensor);
  while (inner && TorchTracer::is_wrapped(inner.get())) inner = Ref::steal(PyObject_CallOneArg(unwrap, inner.get()));
  PyErr_Clear();
  return inner;
}

bool TorchTracer::is_wrapped(PyObject* tensor) {
  return THPVariable_Unpack(tensor).key_set().has_any(
      c10::DispatchKeySet({c10::DispatchKey::FuncTorchBatched, c10::DispatchKey::FuncTorchGradWrapper}));
}

bool TorchTracer::share_storage(PyObject* fake, PyObject* other) {
  const at::Tensor &a = THPVariable_Unpack(fake), &b = THPVariable_Unpack(other);
  return a.has_storage() && b.has_storage() && a.storage().unsafeGetStorageImpl() == b.storage().unsafeGetStorageImpl();
}

bool TorchTracer::knows(PyObject* tensor) {
  Ref inner = unwrapped(tensor);
  if (!inner) return false;
  const at::Tensor& fake = THPVariable_Unpack(inner.get());
  return impl_->tracer.value_of(fake) != graph::kNoValue || impl_->tracer.adopt(fake);
}

bool TorchTracer::fills_storage(PyObject* fake) {
  if (is_wrapped(fake)) return false;
  const at::Tensor& tensor = THPVariable_Unpack(fake);
  if (has_symbolic_sizes(fake)) return false;
  return tensor.is_contiguous() && tensor.storage_offset() == 0 &&
         tensor.storage().nbytes() == static_cast<size_t>(tensor.numel()) * tensor.element_size();
}

/// Whether two sizes are equal; a guard where they are symbols. One that depends on data equals itself only.
static bool same_size(const c10::SymInt& a, const c10::SymInt& b) {
  const auto is_open = [](const c10::SymInt& size) {
    const shapes::Expr expr = size.is_heap_allocated() ? shapes::expression_of(size.toSymNode().get()) : nullptr;
    return expr && expr->has_unbacked;
  };
  if (!is_open(a) && !is_open(b)) return a == b;
  const shapes::Expr x = a.is_heap_allocated() ? shapes::expression_of(a.toSymNode().get()) : nullptr;
  const shapes::Expr y = b.is_heap_allocated() ? shapes::expression_of(b.toSymNode().get()) : nullptr;
  return x && y && x->env->simplify(x) == y->env->simplify(y);
}

static bool same_sizes(c10::SymIntArrayRef a, c10::SymIntArrayRef b) {
  return std::equal(a.begin(), a.end(), b.begin(), b.end(), same_size);
}

bool TorchTracer::is_alike(PyObject* a, PyObject* b) {
  const at::Tensor &left = THPVariable_Unpack(a), &right = THPVariable_Unpack(b);
  const c10::DispatchKeySet bits(
      {c10::DispatchKey::Conjugate, c10::DispatchKey::Negative, c10::DispatchKey::ZeroTensor});
  return left.dtype() == right.dtype() && left.device() == right.device() &&
         same_sizes(left.sym_sizes(), right.sym_sizes()) && same_sizes(left.sym_strides(), right.sym_strides()) &&
         left.is_inference() == right.is_inference() && (left.key_set() & bits) == (right.key_set() & bits);
}

bool TorchTracer::is_truth(PyObject* fake) {
  const at::Tensor& tensor = THPVariable_Unpack(fake);
  if (tensor.scalar_type() != at::kBool) return false;
  return tensor.dim() == 0 || (same_size(tensor.sym_numel(), 1));
}

bool TorchTracer::is_differentiable(PyObject* fake) {
  const at::Tensor& tensor = THPVariable_Unpack(fake);
  return tensor.is_floating_point() || tensor.is_complex();
}

bool TorchTracer::have_same_rows(PyObject* a, PyObject* b) {
  const at::Tensor &left = THPVariable_Unpack(a), &right = THPVariable_Unpack(b);
  if (left.dim() == 0 || right.dim() == 0) return false;
  const c10::SymInt size = left.sym_size(0);
  const shapes::Expr expr = size.is_heap_allocated() ? shapes::expression_of(size.toSymNode().get()) : nullptr;
  return !(expr && expr->has_unbacked) && size >= 1 && same_size(size, right.sym_size(0));
}

bool TorchTracer::has_known_strides(PyObject* fake) {
  const auto sizes = THPVariable_Unpack(fake).sym_sizes();
  return std::all_of(sizes.begin(), sizes.end(), [](const c10::SymInt& size) {
    if (!size.is_heap_allocated()) return size.expect_int() >= 2;
    const shapes::Expr expr = shapes::expression_of(size.toSymNode().get());
    return expr && !expr->has_unbacked && expr->env->derived(expr->env->simplify(expr)).range.low >= 2;
  });
}

int64_t TorchTracer::element_count(PyObject* fake) { return THPVariable_Unpack(fake).numel(); }

bool TorchTracer::in_autocast_block() { return graph::in_autocast_block(); }

void TorchTracer::autocast_ended() { impl_->tracer.autocast_ended(); }

void TorchTracer::enter_inference_mode(bool enabled) {
  auto keys = c10::impl::tls_local_dispatch_key_set();
  impl_->before_inference.push_back({c10::AutogradState::get_tls_state(), keys});
  c10::AutogradState::set_tls_state(c10::AutogradState(!enabled, enabled, !enabled, !enabled));
  if (enabled) {
    keys.included_ = keys.included_.remove(c10::DispatchKey::ADInplaceOrView);
    keys.excluded_ = keys.excluded_ | c10::autograd_dispatch_keyset;
  } else {
    keys.included_ = keys.included_.add(c10::DispatchKey::ADInplaceOrView);
    keys.excluded_ = keys.excluded_ - c10::autograd_dispatch_keyset;
  }
  c10::impl::_force_tls_local_dispatch_key_set(keys);
}

void TorchTracer::leave_inference_mode() {
  STATOR_CHECK(!impl_->before_inference.empty(), "an inference-mode block ends that never began");
  auto& before = impl_->before_inference.back();
  c10::AutogradState::set_tls_state(before.autograd);
  c10::impl::_force_tls_local_dispatch_key_set(before.keys);
  impl_->before_inference.pop_back();
}

bool TorchTracer::in_inference_block() const { return !impl_->before_inference.empty(); }

uint32_t TorchTracer::add_location(PyObject* file, PyObject* function, int line, uint32_t caller,
                                   std::pair<std::string, std::string> module) {
  return impl_->tracer.graph().add_location(
      {text_of(file), text_of(function), line, caller, std::move(module.first), std::move(module.second)});
}

std::pair<std::string, std::string> TorchTracer::module_at(uint32_t location) const {
  const graph::Location& known = impl_->tracer.graph().locations[location];
  return {known.module_path, known.module_class};
}

void TorchTracer::use_location(uint32_t location) { impl_->tracer.set_location(location); }

void TorchTracer::open_range(const std::string& name) { impl_->tracer.open_range(name); }
void TorchTracer::close_range() { impl_->tracer.close_range(); }

bool TorchTracer::open_region() { return impl_->tracer.open_region(); }
void TorchTracer::close_region() { impl_->tracer.close_region(); }

struct TorchTracer::Reentry::State {
  tracer::OutsideScope outside;
  tracer::Tracer& tracer;
  const bool refused;
  explicit State(tracer::Tracer& t) : tracer(t), refused(t.refuse_gradients(true)) {}
  ~State() { tracer.refuse_gradients(refused); }
};
TorchTracer::Reentry::Reentry(TorchTracer& tracer) : state_(std::make_unique<State>(tracer.impl_->tracer)) {}
TorchTracer::Reentry::~Reentry() = default;

bool TorchTracer::failed_by_data() const { return impl_->tracer.failed_by_data(); }

size_t TorchTracer::node_count() const { return impl_->tracer.graph().nodes.size(); }

void TorchTracer::record_below() { impl_->tracer.record_below(); }

std::shared_ptr<graph::Graph> TorchTracer::finish(const std::vector<PyObject*>& outputs, std::vector<uint32_t>& kept) {
  std::vector<at::Tensor> fakes;
  fakes.reserve(outputs.size());
  for (PyObject* output : outputs) fakes.push_back(THPVariable_Unpack(output));
  auto graph = impl_->tracer.finish(fakes);
  kept = graph->drop_unused_inputs();
  return graph;
}

bool TorchTracer::is_plain_tensor(PyObject* object) {
  const at::Tensor& tensor = THPVariable_Unpack(object);
  return tensor.defined() && tensor.layout() == c10::kStrided && !tensor.is_nested() && !tensor.is_quantized() &&
         !tensor.key_set().has(c10::DispatchKey::Python) && !is_wrapped(object) &&
         !tensor.key_set().has(c10::DispatchKey::Fake) && !tensor.is_meta();
}

bool TorchTracer::is_wrapper(PyObject* object) {
  const at::Tensor& tensor = THPVariable_Unpack(object);
  return tensor.defined() && tensor.key_set().has(c10::DispatchKey::Python) && !is_wrapped(object) &&
         tensor.layout() == c10::kStrided && !tensor.is_nested() && !tensor.is_quantized() && tensor.has_storage() &&
         tensor.storage().data() == nullptr;
}

bool TorchTracer::is_tensor(PyObject* object) {
  // Torch's own check reads `__class__` and so may run code of the object.
  return PyObject_TypeCheck(object, reinterpret_cast<PyTypeObject*>(THPVariableClass));
}
PyTypeObject* TorchTracer::tensor_type() { return reinterpret_cast<PyTypeObject*>(THPVariableClass); }

PyTypeObject* TorchTracer::parameter_type() {
  static PyTypeObject* type = nullptr;
  if (!type) {
    Ref module = Ref::steal(PyImport_ImportModule("torch.nn.parameter"));
    type = reinterpret_cast<PyTypeObject*>(PyObject_GetAttrString(module.get(), "Parameter"));
  }
  return type;
}

bool is_true_of(PyObject* object, const char* name) {
  Ref value = Ref::steal(PyObject_GetAttrString(object, name));
  PyErr_Clear();
  return value.get() == Py_True;
}

std::string take_error_text() {
  PyObject *type, *value, *trace;
  PyErr_Fetch(&type, &value, &trace);
  PyErr_NormalizeException(&type, &value, &trace);
  Ref owned_type = Ref::steal(type), owned_value = Ref::steal(value), owned_trace = Ref::steal(trace);
  std::string text = type ? reinterpret_cast<PyTypeObject*>(type)->tp_name : "error";
  if (value) {
    Ref message = Ref::steal(PyObject_Str(value));
    if (message) text += ": " + text_of(message.get());
    PyErr_Clear();
  }
  return text;
}

}  // namespace stator::capture
