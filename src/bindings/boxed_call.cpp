#include "bindings/boxed_call.h"

#include <torch/csrc/jit/python/pybind_utils.h>

#include "bindings/graph_convert.h"
#include "core/graph/defaults.h"

namespace stator::bindings {
namespace {

py::object given_object(const c10::IValue& value, const c10::Type& type) {
  if (value.isInt() || value.isNone() || value.isBool() || value.isDouble() || value.isString() || value.isDevice())
    return py::reinterpret_steal<py::object>(constant_object(value, type).release());
  return torch::jit::toPyObject(value);
}

}  // namespace

Ref object_of(const c10::IValue& value) { return Ref::steal(torch::jit::toPyObject(value).release().ptr()); }

bool call_boxed(PyObject* function, const c10::OperatorHandle& op, torch::jit::Stack* stack) {
  const auto& schema = op.schema();
  const auto& arguments = schema.arguments();
  const auto given = torch::jit::last(*stack, arguments.size());
  graph::Node node{op};
  for (const c10::IValue& value : given) node.args.push_back(graph::Argument::of_constant(value));
  const auto needed = graph::needed_arguments(node);
  py::tuple args(needed.positional);
  for (size_t i = 0; i < needed.positional; ++i) args[i] = given_object(given[i], *arguments[i].real_type());
  py::dict keywords;
  for (const size_t i : needed.keywords)
    keywords[arguments[i].name().c_str()] = given_object(given[i], *arguments[i].real_type());
  py::object result = py::reinterpret_borrow<py::object>(function)(*args, **keywords);
  if (result.ptr() == Py_NotImplemented) return false;
  torch::jit::drop(*stack, arguments.size());
  const auto& returns = schema.returns();
  if (returns.size() == 1) {
    stack->push_back(torch::jit::toIValue(result, returns[0].real_type()));
  } else if (!returns.empty()) {
    const auto items = py::cast<py::sequence>(result);
    TORCH_CHECK(items.size() == returns.size(), op.operator_name(), ": a Python implementation returned ", items.size(),
                " results instead of ", returns.size());
    for (size_t i = 0; i < returns.size(); ++i)
      stack->push_back(torch::jit::toIValue(items[i], returns[i].real_type()));
  }
  return true;
}

}  // namespace stator::bindings
