// The part of TorchTracer for numbers that depend on data.
#include <torch/csrc/autograd/python_variable.h>
#include <torch/csrc/utils/pybind.h>
#include <torch/csrc/utils/python_symnode.h>

#include <algorithm>

#include "capture/call/number_nodes.h"
#include "capture/interpreter/state/tracer.h"
#include "capture/interpreter/state/tracer_impl.h"
#include "core/fake/fake_tensor.h"
#include "core/graph/aliasing.h"
#include "core/shapes/sym_node.h"

namespace stator::capture {
namespace {

Ref object_of(shapes::Ex expr) {
  if (expr->is_constant()) {
    if (auto integer = expr->int_constant()) return Ref::steal(PyLong_FromLongLong(*integer));
    if (expr->type == shapes::Type::Bool) return Ref::steal(PyBool_FromLong(expr->constant.truth()));
    return Ref::steal(PyFloat_FromDouble(expr->constant.real()));
  }
  auto node = shapes::to_node(expr);
  switch (expr->type) {
    case shapes::Type::Int:
      return Ref::steal(py::cast(c10::SymInt(std::move(node))).release().ptr());
    // Torch has no function that makes these objects from such a node.
    case shapes::Type::Float:
      return Ref::steal(torch::get_symfloat_class()(py::cast(std::move(node))).release().ptr());
    case shapes::Type::Bool:
      return Ref::steal(torch::get_symbool_class()(py::cast(std::move(node))).release().ptr());
  }
  return {};
}

/// The expression of a number; null for anything that a graph does not compute with.
shapes::Expr expression_of(shapes::ShapeEnv& env, PyObject* object) {
  if (PyBool_Check(object)) return env.constant(object == Py_True);
  if (PyLong_CheckExact(object)) {
    int overflow = 0;
    const int64_t value = PyLong_AsLongLongAndOverflow(object, &overflow);
    return overflow != 0 ? nullptr : env.constant(value);
  }
  if (PyFloat_CheckExact(object)) return env.constant(PyFloat_AS_DOUBLE(object));
  const py::handle handle(object);
  if (torch::is_symint(handle)) {
    const auto number = handle.cast<c10::SymInt>();
    if (auto plain = number.maybe_as_int()) return env.constant(*plain);
    return shapes::expression_of(number);
  }
  if (torch::is_symfloat(handle)) return shapes::expression_of(handle.cast<c10::SymFloat>().toSymNodeImplUnowned());
  if (torch::is_symbool(handle)) return shapes::expression_of(handle.cast<c10::SymBool>().toSymNodeImplUnowned());
  return nullptr;
}

}  // namespace

void TorchTracer::install_numbers() { install_number_nodes(); }

PyTypeObject* TorchTracer::number_type(PyObject* object) {
  const py::handle handle(object);
  if (torch::is_symint(handle)) return &PyLong_Type;
  if (torch::is_symfloat(handle)) return &PyFloat_Type;
  if (torch::is_symbool(handle)) return &PyBool_Type;
  return nullptr;
}

Ref TorchTracer::add_number_input(const std::string& name) {
  return run_on_fakes([&] {
    auto node = impl_->tracer.add_number_input(name);
    return object_of(shapes::expression_of(node.get())).release();
  });
}

Ref TorchTracer::add_number_input(const std::string& name, int64_t hint) {
  return run_on_fakes([&] {
    auto node = impl_->tracer.add_number_input(name, hint);
    return object_of(shapes::expression_of(node.get())).release();
  });
}

Ref TorchTracer::item(PyObject* fake) {
  return run_on_fakes([&] {
    auto node = impl_->tracer.item(THPVariable_Unpack(fake));
    return object_of(shapes::expression_of(node.get())).release();
  });
}

Ref TorchTracer::number_result(const char* name, PyObject* a, PyObject* b, bool* can_fail) {
  return run_on_fakes([&]() -> PyObject* {
    shapes::ShapeEnv& env = impl_->tracer.symbols();
    const auto op = shapes::find_op(name);
    const auto x = expression_of(env, a), y = b != nullptr ? expression_of(env, b) : nullptr;
    const bool has_operands = op && x && (b == nullptr || y);
    shapes::Ex result = has_operands ? env.apply(*op, x, y) : nullptr;
    if (result == nullptr) throw std::runtime_error(std::string("no ") + name + " of these numbers");
    const shapes::Derived& derived = env.derived(result);
    // What follows from sizes of tensors is not so large in practice. If it is, a run that uses it fails.
    *can_fail = derived.may_fail || (derived.may_leave_int64 && result->has_unbacked);
    return object_of(result).release();
  });
}

Ref TorchTracer::number_fake(PyObject* symbol) {
  return run_on_fakes([&] {
    const auto expr = expression_of(impl_->tracer.symbols(), symbol);
    return THPVariable_Wrap(impl_->tracer.number(shapes::to_node(expr).get()));
  });
}

bool TorchTracer::has_symbolic_sizes(PyObject* fake) {
  return THPVariable_Unpack(fake).unsafeGetTensorImpl()->has_symbolic_sizes_strides();
}

bool TorchTracer::is_written(PyObject* object) const { return impl_->tracer.is_written(THPVariable_Unpack(object)); }

bool TorchTracer::has_no_dimensions(PyObject* fake) { return THPVariable_Unpack(fake).dim() == 0; }

bool TorchTracer::holds_truth(PyObject* fake) { return THPVariable_Unpack(fake).scalar_type() == at::kBool; }

bool TorchTracer::wants_number_as_tensor() const { return failure_.find(tracer::kNumberAsTensor) != std::string::npos; }

}  // namespace stator::capture
