// Calls into torch's bindings on fakes.
#include "capture/guards/literals.h"
#include "capture/interpreter/handlers.h"
#include "capture/interpreter/known_types.h"
#include "capture/interpreter/tensor_attributes.h"

namespace stator::capture {

Ref Interpreter::to_torch(Value* value) {
  switch (value->kind) {
    case Kind::Tensor:
      return Ref::borrow(fake_of(static_cast<TensorValue*>(value)));
    case Kind::Constant:
      return Ref::borrow(constant_of(value));
    case Kind::Tuple:
    case Kind::List: {
      auto* sequence = static_cast<SequenceValue*>(value);
      size_t size = sequence->items.size();
      Ref made = Ref::steal(value->kind == Kind::List ? PyList_New(size) : PyTuple_New(size));
      for (size_t i = 0; i < size; ++i) {
        PyObject* part = to_torch(item(sequence, i)).release();
        if (value->kind == Kind::List)
          PyList_SET_ITEM(made.get(), i, part);
        else
          PyTuple_SET_ITEM(made.get(), i, part);
      }
      return made;
    }
    case Kind::Dict: {
      Ref made = Ref::steal(PyDict_New());
      for (auto& [key, part] : mapping_items(*this, value)) {
        Ref k = to_torch(key), v = to_torch(part);
        PyDict_SetItem(made.get(), k.get(), v.get());
      }
      return made;
    }
    case Kind::Slice: {
      auto* slice = static_cast<SliceValue*>(value);
      Ref a = to_torch(slice->start), b = to_torch(slice->stop), c = to_torch(slice->step);
      return Ref::steal(PySlice_New(a.get(), b.get(), c.get()));
    }
    case Kind::Iterator:
      return to_torch(list(unpack(value)));
    default:
      throw Break{BreakId::unknown_object, std::string("a ") + type_of(value)->tp_name + " as an argument of torch"};
  }
}

void Interpreter::torch_failed(const char* what) {
  std::string text = std::string(what) + ": " + torch.failure();
  throw Break{torch.was_refused() ? BreakId::torch_refused : BreakId::torch_error, text};
}

Value* Interpreter::call_torch(PyObject* callable, const CallArgs& args) {
  std::vector<Ref> owned;
  std::vector<PyObject*> flat;
  owned.reserve(args.count());
  flat.reserve(args.count() + 1);
  flat.push_back(nullptr);  // room for PY_VECTORCALL_ARGUMENTS_OFFSET
  for (Value* value : args.positional) {
    owned.push_back(to_torch(value));
    flat.push_back(owned.back().get());
  }
  Ref names;
  if (!args.keywords.empty()) {
    names = Ref::steal(PyTuple_New(args.keywords.size()));
    for (size_t i = 0; i < args.keywords.size(); ++i) {
      Py_INCREF(args.keywords[i].first.get());
      PyTuple_SET_ITEM(names.get(), i, args.keywords[i].first.get());
      owned.push_back(to_torch(args.keywords[i].second));
      flat.push_back(owned.back().get());
    }
  }
  locate();
  Ref result = torch.record([&] {
    return PyObject_Vectorcall(callable, flat.data() + 1, args.positional.size() | PY_VECTORCALL_ARGUMENTS_OFFSET,
                               names.get());
  });
  if (!result) {
    Ref name = Ref::steal(PyObject_GetAttrString(callable, "__name__"));
    const char* text = name ? PyUnicode_AsUTF8(name.get()) : nullptr;
    PyErr_Clear();
    torch_failed(text ? text : "torch");
  }
  return wrap_result(result.get());
}

namespace {

struct AttributeRow {
  const char* name;
  const char* why;
};
// What a fake cannot answer as the real tensor would.
constexpr AttributeRow kRefused[] = {
    {"data", "reads around autograd"},
    {"grad", "the gradient of a tensor"},
    {"_grad", "the gradient of a tensor"},
    {"grad_fn", "autograd's graph"},
    {"_base", "the base of a view"},
    {"_version", "the version counter"},
    {"is_leaf", "whether a tensor is a leaf"},
    {"output_nr", "autograd's graph"},
    {"_backward_hooks", "hooks"},
    {"retains_grad", "autograd's graph"},
    {"data_ptr", "an address"},
    {"untyped_storage", "storage"},
    {"storage", "storage"},
    {"_typed_storage", "storage"},
    {"numpy", "data leaves torch"},
    {"tolist", "data leaves torch"},
    {"item", "data leaves torch"},
    {"backward", "runs autograd"},
    {"register_hook", "a hook on a tensor"},
    {"retain_grad", "autograd's graph"},
    {"register_post_accumulate_grad_hook", "a hook on a tensor"},
    {"requires_grad_", "changes whether a gradient is needed"},
    {"set_", "storage"},
    {"resize_", "storage"},
    {"resize_as_", "storage"},
    {"share_memory_", "storage"},
    {"is_shared", "storage"},
    {"pin_memory", "storage"},
    {"is_pinned", "storage"},
    {"new", "an old constructor"},
    {"new_tensor", "a constructor from data"},
    {"apply_", "a Python function over data"},
    {"map_", "a Python function over data"},
    {"map2_", "a Python function over data"},
    {"__array__", "data leaves torch"},
    {"__dlpack__", "data leaves torch"},
    {"__cuda_array_interface__", "data leaves torch"},
    {"__reduce_ex__", "pickling"},
    {"__deepcopy__", "copying"},
    {"__setstate__", "pickling"},
    {"names", "named tensors"},
    {"as_subclass", "subclasses"},
    {"_make_subclass", "subclasses"},
    {"volatile", "an old attribute"},
    {"__format__", "text"},
    {"__repr__", "text"},
    {"__str__", "text"},
    {"__hash__", "the address of a tensor"},
    {"__dict__", "the attributes of a tensor"},
};

const char* refusal(PyObject* name) {
  for (const AttributeRow& row : kRefused)
    if (PyUnicode_CompareWithASCIIString(name, row.name) == 0) return row.why;
  return nullptr;
}

}  // namespace

Value* tensor_attribute(Interpreter& in, TensorValue* tensor, PyObject* name) {
  PyTypeObject* type = tensor->type;
  in.guard_class(type);
  if (const char* why = refusal(name))
    throw Break{BreakId::data_exit, std::string("Tensor.") + PyUnicode_AsUTF8(name) + ": " + why};
  PyObject* on_class = _PyType_Lookup(type, name);
  if (!on_class) {
    // Attributes that the program hung on the tensor object itself.
    if (!tensor->real) return nullptr;
    PyObject** dict = _PyObject_GetDictPtr(tensor->real.get());
    if (!dict || !*dict || PyDict_GET_SIZE(*dict) == 0) return nullptr;
    throw Break{BreakId::unknown_attribute, std::string("an attribute of a tensor object: ") + PyUnicode_AsUTF8(name)};
  }
  static PyObject* const class_name = PyUnicode_InternFromString("__class__");
  if (PyUnicode_Compare(name, class_name) == 0) return in.constant(reinterpret_cast<PyObject*>(type));
  PyTypeObject* kind = Py_TYPE(on_class);
  if (kind == &PyMethodDescr_Type || kind == &PyWrapperDescr_Type)
    return in.arena.make<MethodValue>(in.constant(on_class), tensor);
  if (kind == &PyFunction_Type) return in.bind_descriptor(on_class, type, tensor, name);
  PyObject* fake = in.fake_of(tensor);
  return in.torch_result([&] { return PyObject_GetAttr(fake, name); }, PyUnicode_AsUTF8(name));
}

}  // namespace stator::capture
