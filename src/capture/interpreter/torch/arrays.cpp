#include "capture/interpreter/torch/arrays.h"

#include <cstring>

#include "capture/guards/array_layout.h"
#include "capture/interpreter/protocol/arguments.h"
#include "capture/interpreter/protocol/models.h"
#include "capture/interpreter/state/known_types.h"

namespace stator::capture {
namespace {

/// A member of stator.arrays, which the module keeps alive.
PyObject* helper(const char* name) {
  static PyObject* const module = PyImport_ImportModule("stator.arrays");
  PyObject* found = module ? PyObject_GetAttrString(module, name) : nullptr;
  if (!found) throw Break{BreakId::numpy, take_error_text()};
  Py_DECREF(found);  // the module keeps it
  return found;
}

PyTypeObject* type_at(const char* path) { return reinterpret_cast<PyTypeObject*>(known_object(path)); }
PyTypeObject* ndarray_type() {
  static PyTypeObject* const type = type_at("numpy.ndarray");
  return type;
}
bool is_number_class(PyTypeObject* type) {
  static PyTypeObject* const generic = type_at("numpy.generic");
  return generic && PyType_IsSubtype(type, generic);
}

/// Runs `call` with recording on; a failure is a break.
template <class F>
Ref recorded(Interpreter& in, F&& call) {
  if (in.frames.current()) in.torch.locate();
  Ref result = in.torch.tracer.record(std::forward<F>(call));
  if (!result) throw Break{BreakId::numpy, in.torch.tracer.failure()};
  return result;
}

/// The object of stator.arrays that represents the array.
PyObject* array_object(Interpreter& in, ArrayValue* array) {
  if (!array->array) {
    array->array = Ref::steal(PyObject_CallOneArg(helper("Array"), in.fake_of(array->tensor)));
    in.objects.array(array->array.get()) = array;
  }
  return array->array.get();
}

/// An argument as stator.arrays expects it.
Ref argument(Interpreter& in, Value* value) {
  if (auto* array = as<ArrayValue>(value)) return Ref::borrow(array_object(in, array));
  if (auto* sequence = as_sequence(value)) {
    Ref list = Ref::steal(PyList_New(0));
    for (size_t i = 0; i < sequence->items.size(); ++i)
      PyList_Append(list.get(), argument(in, in.item(sequence, i)).get());
    return value->kind == Kind::List ? std::move(list) : Ref::steal(PyList_AsTuple(list.get()));
  }
  Ref literal = in.literal_of(value);
  if (!literal) throw Break{BreakId::numpy, std::string("a ") + in.type_of(value)->tp_name + " as an argument"};
  return literal;
}

Value* run(Interpreter& in, PyObject* target, const CallArgs& args) {
  Ref positional = Ref::steal(PyTuple_New(args.positional.size())), keywords = Ref::steal(PyDict_New());
  for (size_t i = 0; i < args.positional.size(); ++i)
    PyTuple_SET_ITEM(positional.get(), i, argument(in, args.positional[i]).release());
  for (auto& [name, value] : args.keywords) PyDict_SetItem(keywords.get(), name.get(), argument(in, value).get());
  PyObject* function = helper("run");
  Ref result = recorded(
      in, [&] { return PyObject_CallFunctionObjArgs(function, target, positional.get(), keywords.get(), nullptr); });
  return in.wrap_result(result.get());
}

/// NumPy functions that accept a tensor, as the array that shares its memory.
bool takes_tensors(PyObject* callable) {
  static PyObject* const functions[] = {known_object("numpy.asarray"), known_object("numpy.array")};
  return callable == functions[0] || callable == functions[1];
}

Value* array_of_tensor(Interpreter& in, Value* tensor) {
  PyObject* fake = in.fake_of(static_cast<TensorValue*>(tensor));
  PyObject* function = helper("of_tensor");
  return in.wrap_result(recorded(in, [&] { return PyObject_CallOneArg(function, fake); }).get());
}

Value* tensor_numpy(Interpreter& in, CallArgs& args) {
  if (in.frames.in_transform()) throw Break{BreakId::numpy, "an array inside of a transform"};
  if (args.positional.size() != 1 || !args.keywords.empty() || args.positional[0]->kind != Kind::Tensor)
    throw Break{BreakId::data_exit, "Tensor.numpy with arguments"};
  return array_of_tensor(in, args.positional[0]);
}

Value* from_numpy(Interpreter& in, CallArgs& args) {
  auto* array = as<ArrayValue>(args.positional[0]);
  if (!array) throw Break{BreakId::numpy, "torch.from_numpy of something that is not an array of the capture"};
  return tensor_of_array(in, array, false);
}

constexpr ModelRow kRows[] = {
    {"torch._C.TensorBase.numpy", tensor_numpy, 0, ModelRow::kAny, "*"},
    {"torch.from_numpy", from_numpy, 1, 1},
};

}  // namespace

std::span<const ModelRow> array_models() { return kRows; }

Value* wrap_array(Interpreter& in, PyObject* object, Source* source) {
  if (Py_TYPE(object) != ndarray_type()) return nullptr;
  Ref layout = array_layout(object);
  Ref real = layout ? Ref::steal(PyObject_CallOneArg(known_object("torch.from_numpy"), object)) : Ref();
  PyErr_Clear();
  if (!real) {
    // No tensor represents the array, so a use of it is likely to be a break. Arrays of other layouts need not break.
    // The class comes first: a class of the program may define how its memory is read.
    in.guards.add_for_break(source, {FactKind::TypeIs, Ref::borrow(reinterpret_cast<PyObject*>(ndarray_type()))});
    in.guards.add_for_break(source, {FactKind::ArrayLayout, std::move(layout)});
    return nullptr;
  }
  in.guards.add_type(source, Py_TYPE(object));
  auto* array = in.arena.make<ArrayValue>();
  array->source = source;
  array->tensor = in.arena.make<TensorValue>(Ref(), TorchTracer::tensor_type());
  array->tensor->source = source;
  array->tensor->real = std::move(real);
  array->tensor->layout = std::move(layout);
  return array;
}

Value* array_result(Interpreter& in, PyObject* object) {
  if (std::strcmp(Py_TYPE(object)->tp_name, "Array") != 0 ||
      reinterpret_cast<PyObject*>(Py_TYPE(object)) != helper("Array"))
    return nullptr;
  ArrayValue*& known = in.objects.array(object);
  if (!known) {
    known = in.arena.make<ArrayValue>();
    known->array = Ref::borrow(object);
  }
  return known;
}

bool is_numpy_callable(PyObject* callable) {
  static PyTypeObject* const ufunc = type_at("numpy.ufunc");
  PyTypeObject* type = Py_TYPE(callable);
  if (type == ufunc) return ufunc;
  if (PyType_Check(callable)) return is_number_class(reinterpret_cast<PyTypeObject*>(callable));
  if (type == &PyMethodDescr_Type || type == &PyWrapperDescr_Type) {
    PyTypeObject* owner = reinterpret_cast<PyDescrObject*>(callable)->d_type;
    return owner == ndarray_type() || is_number_class(owner);
  }
  if (PyCFunction_Check(callable)) {
    PyObject* module = reinterpret_cast<PyCFunctionObject*>(callable)->m_module;
    return module && PyUnicode_Check(module) && PyUnicode_CompareWithASCIIString(module, "numpy") == 0;
  }
  return std::strcmp(type->tp_name, "numpy._ArrayFunctionDispatcher") == 0;
}

Value* call_numpy(Interpreter& in, PyObject* callable, const CallArgs& args) {
  if (in.frames.in_transform()) throw Break{BreakId::numpy, "an array inside of a transform"};
  bool is_method = Py_TYPE(callable) == &PyMethodDescr_Type || Py_TYPE(callable) == &PyWrapperDescr_Type;
  PyObject* target = is_method ? reinterpret_cast<PyDescrObject*>(callable)->d_name : callable;
  if (!takes_tensors(callable) || args.positional.empty() || args.positional[0]->kind != Kind::Tensor)
    return run(in, target, args);
  CallArgs changed = args;
  changed.positional[0] = array_of_tensor(in, args.positional[0]);
  return run(in, target, changed);
}

Value* array_method(Interpreter& in, const char* name, std::vector<Value*> given) {
  Ref target = Ref::steal(PyUnicode_InternFromString(name));
  return run(in, target.get(), arguments(std::move(given)));
}

Value* array_binary(Interpreter& in, const char* method, const char* reflected, Value* a, Value* b) {
  for (Value* value : {a, b})
    if (value->kind == Kind::Tensor || value->kind == Kind::Object)
      throw Break{BreakId::numpy, std::string("an array and a ") + in.type_of(value)->tp_name};
  return a->kind == Kind::Array ? array_method(in, method, {a, b}) : array_method(in, reflected, {b, a});
}

PyTypeObject* array_type(Interpreter& in, ArrayValue* array) {
  if (array->source) return ndarray_type();
  Ref type = recorded(in, [&] { return PyObject_GetAttrString(array_object(in, array), "type"); });
  return type.as<PyTypeObject>();  // classes of NumPy live as long as the process
}

Value* array_attribute(Interpreter& in, ArrayValue* array, PyObject* name) {
  PyTypeObject* type = array_type(in, array);
  PyObject* found = look_up(type, name);
  if (!found) return nullptr;
  if (Py_TYPE(found) == &PyMethodDescr_Type || Py_TYPE(found) == &PyWrapperDescr_Type)
    return in.arena.make<MethodValue>(in.constant(found), array);
  PyObject* object = array_object(in, array);
  PyObject* function = helper("attribute");
  Ref result = recorded(in, [&] { return PyObject_CallFunctionObjArgs(function, object, name, nullptr); });
  return in.wrap_result(result.get());
}

PyObject* array_fake(Interpreter& in, ArrayValue* array) {
  PyObject* object = array_object(in, array);
  Ref fake = recorded(in, [&] { return PyObject_GetAttrString(object, "tensor"); });
  return fake.get();  // the object keeps it
}

PyObject* array_maker(Interpreter& in, ArrayValue* array) {
  Ref scalar = Ref::steal(PyObject_GetAttrString(array_object(in, array), "scalar"));
  return helper(scalar.get() == Py_True ? "made_scalar" : "made_array");
}

Value* tensor_of_array(Interpreter& in, ArrayValue* array, bool copy) {
  PyObject* object = array_object(in, array);
  PyObject* function = helper("to_tensor");
  Ref result =
      recorded(in, [&] { return PyObject_CallFunctionObjArgs(function, object, copy ? Py_True : Py_False, nullptr); });
  return in.wrap_result(result.get());
}

Value* tensor_of_data(Interpreter& in, Value* data, bool copy) {
  auto* array = as<ArrayValue>(data);
  return array ? tensor_of_array(in, array, copy) : nullptr;
}

}  // namespace stator::capture
