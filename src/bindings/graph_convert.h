#pragma once

#include <ATen/core/ivalue.h>
#include <ATen/core/jit_type.h>

#include "capture/pycompat/ref.h"
#include "core/graph/graph.h"

/// Conversion of parts of a graph to Python objects.
namespace stator::bindings {

/// Thrown when a Python exception is set; caught where C++ returns to Python.
struct PythonError {};
/// Steals the reference; throws PythonError if it is null.
Ref owned(PyObject* object);

/// A constant where the schema says `real_type`: enumerations become torch.dtype, torch.layout, torch.memory_format;
/// wrapped numbers become Python numbers again.
Ref constant_object(const c10::IValue& value, const c10::Type& real_type);
/// A value becomes an instance of `value_type` (a subclass of int), a list of operands a list, a sub-graph a Graph.
Ref argument_object(const graph::Argument& argument, const c10::Type& real_type, PyObject* value_type);
Ref value_object(graph::ValueId id, PyObject* value_type);  // None for kNoValue
/// An int if facts of the capture say so; else the text of the expression, as Python.
Ref number_object(const shapes::Expr& number);
/// (dtype, sizes, strides, device, requires_grad). Symbolic sizes and strides are as `number_object` makes them.
Ref meta_object(const graph::TensorMeta& meta);
Ref dtype_object(c10::ScalarType dtype);
Ref text_object(std::string_view text);

template <class Items, class Each>
Ref list_of(const Items& items, const Each& each) {
  auto list = owned(PyList_New(static_cast<Py_ssize_t>(items.size())));
  Py_ssize_t i = 0;
  for (const auto& item : items) PyList_SET_ITEM(list.get(), i++, each(item).release());
  return list;
}

}  // namespace stator::bindings
