#include "capture/interpreter/torch/tensor_items.h"

#include <algorithm>

#include "capture/interpreter/state/known_types.h"
#include "capture/interpreter/torch/number_subscripts.h"
#include "capture/interpreter/torch/overrides.h"
#include "capture/interpreter/torch/symbolic_numbers.h"
#include "capture/interpreter/torch/trial.h"

namespace stator::capture {
namespace {

/// Whether torch's binding takes a list for a tuple of indices: a short one with an index that is not a number.
bool is_tuple_of_indices(PyObject* list) {
  constexpr Py_ssize_t kShort = 32;
  if (PyList_GET_SIZE(list) >= kShort) return false;
  PyObject *const *first = PySequence_Fast_ITEMS(list), *const *last = first + PyList_GET_SIZE(list);
  return std::any_of(first, last, [](PyObject* index) {
    return index == Py_None || index == Py_Ellipsis || PySlice_Check(index) || PySequence_Check(index);
  });
}

/// One index of a tensor subscript, or a tuple of them. A list of indices becomes a constant of the graph: torch's
/// binding would make a tensor of it and write the indices through the data pointer, which a fake does not have.
Ref subscript_index(Interpreter& in, Value* key) {
  if (key->kind == Kind::List) {
    Ref literal = in.literal_of(key);
    if (!literal) return in.to_torch(key);
    Ref made = Ref::steal(PyObject_CallOneArg(known_object("torch.tensor"), literal.get()));
    if (!made) throw Break{BreakId::torch_error, take_error_text()};
    Ref fake = in.torch.tracer.add_constant(made.get());
    if (!fake) throw Break{BreakId::no_shape_function, in.torch.tracer.failure()};
    return fake;
  }
  if (key->kind == Kind::Tuple) {
    auto* sequence = static_cast<SequenceValue*>(key);
    Ref tuple = Ref::steal(PyTuple_New(sequence->items.size()));
    for (size_t i = 0; i < sequence->items.size(); ++i)
      PyTuple_SET_ITEM(tuple.get(), i, subscript_index(in, in.item(sequence, i)).release());
    return tuple;
  }
  return in.to_torch(key);
}

/// The key of a tensor subscript.
Ref tensor_key(Interpreter& in, Value* key) {
  Ref literal = key->kind == Kind::List ? in.literal_of(key) : Ref();
  if (!literal || !PyList_Check(literal.get()) || !is_tuple_of_indices(literal.get())) return subscript_index(in, key);
  std::vector<Value*> indices = in.unpack(key);
  Ref tuple = Ref::steal(PyTuple_New(static_cast<Py_ssize_t>(indices.size())));
  for (size_t i = 0; i < indices.size(); ++i)
    PyTuple_SET_ITEM(tuple.get(), i, subscript_index(in, indices[i]).release());
  return tuple;
}

/// The tensor that torch's binding makes of a number that is stored into `fake`. It is a constant of the graph, because
/// the binding would write the number through the data pointer.
Ref number_like(Interpreter& in, PyObject* fake, PyObject* number) {
  Ref dtype = Ref::steal(PyObject_GetAttrString(fake, "dtype")),
      device = Ref::steal(PyObject_GetAttrString(fake, "device"));
  Ref shape = Ref::steal(PyTuple_New(0));
  Ref arguments = Ref::steal(PyTuple_Pack(1, shape.get())), options = Ref::steal(PyDict_New());
  PyDict_SetItemString(options.get(), "dtype", dtype.get());
  PyDict_SetItemString(options.get(), "device", device.get());
  Ref made = Ref::steal(PyObject_Call(known_object("torch.zeros"), arguments.get(), options.get()));
  // `made` is a real tensor, so torch's own error is raised for a number that it cannot hold.
  if (!made || PyObject_SetItem(made.get(), shape.get(), number) < 0)
    throw Break{BreakId::torch_error, take_error_text()};
  in.torch.locate();
  Ref constant = in.torch.tracer.add_constant(made.get());
  if (!constant) throw Break{BreakId::no_shape_function, in.torch.tracer.failure()};
  return constant;
}

}  // namespace

Value* tensor_item(Interpreter& in, TensorValue* tensor, Value* key) {
  Value* const both[] = {tensor, key};
  if (is_overridden(in, tensor) || is_overridden(in, key))
    return in.apply(both, "subscript", [](PyObject* const* x) { return PyObject_GetItem(x[0], x[1]); });
  if (Value* view = subscript_by_numbers(in, tensor, key)) return view;
  Ref index = tensor_key(in, key);
  PyObject* const objects[] = {in.fake_of(tensor), index.get()};
  return tried_result(in, objects, "subscript", [](PyObject* const* x) { return PyObject_GetItem(x[0], x[1]); });
}

void set_tensor_item(Interpreter& in, TensorValue* tensor, Value* key, Value* to) {
  auto store = [](PyObject* const* x) -> PyObject* {
    if (PyObject_SetItem(x[0], x[1], x[2]) < 0) return nullptr;
    Py_RETURN_NONE;
  };
  const char* what = "subscript assignment";
  Value* const all[] = {tensor, key, to};
  if (is_overridden(in, tensor) || is_overridden(in, key) || is_overridden(in, to)) {
    in.apply(all, what, store);
    return;
  }
  if (Value* view = subscript_by_numbers(in, tensor, key))
    return set_tensor_item(in, static_cast<TensorValue*>(view), in.constant(Py_Ellipsis), to);
  Ref index = tensor_key(in, key);
  PyObject* fake = in.fake_of(tensor);
  if (is_symbolic_number(to)) needs_number(in, to, "is stored into a tensor");
  Ref stored = to->kind == Kind::Constant ? number_like(in, fake, in.constant_of(to)) : in.to_torch(to);
  PyObject* const objects[] = {fake, index.get(), stored.get()};
  in.torch_result([&] { return store(objects); }, what);
}

Value* tensor_length(Interpreter& in, TensorValue* tensor) {
  if (Value* length = symbolic_length(in, tensor)) return length;
  PyObject* fake = in.fake_of(tensor);
  if (TorchTracer::has_no_dimensions(fake))
    raise_on_trial(in, std::span(&fake, 1), [](PyObject* const* x) -> PyObject* {
      return PyObject_Size(x[0]) < 0 ? nullptr : Py_NewRef(Py_None);
    });
  return in.torch_result(
      [&]() -> PyObject* {
        Py_ssize_t length = PyObject_Size(fake);
        return length < 0 ? nullptr : PyLong_FromSsize_t(length);
      },
      "len");
}

Value* tensor_iterator(Interpreter& in, TensorValue* tensor) {
  PyObject* fake = in.fake_of(tensor);
  static PyObject* const unbind = PyUnicode_InternFromString("unbind");
  if (TorchTracer::has_no_dimensions(fake))
    raise_on_trial(in, std::span(&fake, 1), [](PyObject* const* x) { return PyObject_GetIter(x[0]); });
  return in.iterate(
      in.torch_result([&] { return PyObject_CallMethodObjArgs(fake, unbind, nullptr); }, "iteration over a tensor"));
}

}  // namespace stator::capture
