// Attributes of tensors: read from the fake, recorded as operators, kept as effects, or refused.
#include "capture/interpreter/torch/tensor_attributes.h"

#include "capture/guards/tensor_expectation.h"
#include "capture/interpreter/protocol/arguments.h"
#include "capture/interpreter/state/known_types.h"
#include "capture/interpreter/state/shared_dicts.h"
#include "capture/interpreter/torch/overrides.h"
#include "capture/pycompat/binary_ops.h"
#include "capture/pycompat/facts.h"
#include "capture/tensors/tensor_object.h"
#include "capture/values/rows_by_name.h"

namespace stator::capture {
namespace {

struct RefusedRow {
  const char* name;
  const char* why;
  BreakId id = BreakId::tensor_internals;
};
// Attributes for which a fake gives another answer than the real tensor.
constexpr RefusedRow kRefused[] = {
    {"_grad", "the gradient of a tensor"},
    {"_base", "the base of a view"},
    {"_version", "the version counter"},
    {"output_nr", "autograd's graph"},
    {"_backward_hooks", "hooks"},
    {"_post_accumulate_grad_hooks", "hooks"},
    {"retains_grad", "autograd's graph"},
    {"data_ptr", "an address"},
    {"const_data_ptr", "an address"},
    {"_use_count", "who owns a tensor"},
    {"_fix_weakref", "who owns a tensor"},
    {"_is_view", "the base of a view"},
    {"untyped_storage", "storage"},
    {"storage", "storage"},
    {"_typed_storage", "storage"},
    {"tolist", "reads the data", BreakId::data_exit},
    {"set_", "storage"},
    {"resize_", "storage"},
    {"resize_as_", "storage"},
    {"share_memory_", "storage"},
    {"is_shared", "storage"},
    {"pin_memory", "storage"},
    {"is_pinned", "storage"},
    {"apply_", "a Python function over data", BreakId::data_exit},
    {"map_", "a Python function over data", BreakId::data_exit},
    {"map2_", "a Python function over data", BreakId::data_exit},
    {"__array__", "reads the data", BreakId::data_exit},
    {"__dlpack__", "reads the data", BreakId::data_exit},
    {"__cuda_array_interface__", "reads the data", BreakId::data_exit},
    {"__reduce_ex__", "pickling", BreakId::data_exit},
    {"__deepcopy__", "copying", BreakId::data_exit},
    {"__setstate__", "pickling"},
    {"names", "named tensors"},
    {"volatile", "an old attribute"},
    {"__format__", "text", BreakId::data_exit},
    {"__repr__", "text", BreakId::data_exit},
    {"__str__", "text", BreakId::data_exit},
    {"__hash__", "the address of a tensor"},
    {"__dict__", "the attributes of a tensor"},
};

const RefusedRow* refusal(PyObject* name) {
  static const auto& rows = *new RowsByName<RefusedRow>(kRefused);
  return rows.find(name);
}

[[noreturn]] void refuse(const char* name, const char* why, BreakId id = BreakId::tensor_internals) {
  throw Break{id, std::string("Tensor.") + name + ": " + why};
}

/// Calls an operator by its name: the binding of this attribute bypasses the dispatcher, and would not be recorded.
Value* recorded(Interpreter& in, const char* name, const std::vector<Value*>& arguments) {
  PyObject* operation = known_operator(name);
  if (!operation) throw Break{BreakId::no_shape_function, name};
  CallArgs args;
  args.positional = arguments;
  return in.call_torch(operation, args);
}

/// The fake of an input starts as a leaf. While it is one, the real tensor's property is read and guarded. Without
/// requires_grad every tensor is a leaf.
bool is_leaf(Interpreter& in, TensorValue* tensor) {
  if (in.torch.scope.arguments_are_detached) refuse("is_leaf", "in a reentrant checkpoint");
  PyObject* fake = in.fake_of(tensor);
  const bool is_untouched = is_leaf_tensor(fake) && is_true_of(fake, "requires_grad");
  if (!tensor->source || tensor->written || !is_untouched) return is_leaf_tensor(fake);
  bool leaf = is_leaf_tensor(tensor->real.get());
  in.guards.add(tensor->source, FactKind::Leaf, nullptr, leaf);
  return leaf;
}

void refuse_in_transform(Interpreter& in, const TensorValue* tensor, const char* name) {
  if (in.frames.in_transform() || tensor->wrapped_at) refuse(name, "inside of a transform");
}

Value* read_data(Interpreter& in, TensorValue* tensor) {
  refuse_in_transform(in, tensor, "data");
  return recorded(in, "data", {tensor});
}

/// The bytes of its elements, which follow from its sizes.
Value* read_nbytes(Interpreter& in, TensorValue* tensor) {
  PyObject* fake = in.fake_of(tensor);
  auto call = [&](const char* method) {
    return in.torch_result([&] { return PyObject_CallMethod(fake, method, nullptr); }, method);
  };
  return in.binary(pycompat::kMultiply, call("numel"), call("element_size"));
}

Value* read_is_leaf(Interpreter& in, TensorValue* tensor) { return in.boolean(is_leaf(in, tensor)); }

Value* read_grad_fn(Interpreter& in, TensorValue* tensor) {
  if (is_leaf(in, tensor)) return in.none();
  return in.arena.make<OpaqueValue>("a node of autograd's graph");
}

Value* read_grad(Interpreter& in, TensorValue* tensor) {
  refuse_in_transform(in, tensor, "grad");
  if (tensor->grad) return tensor->grad;
  // Torch warns if it is read on a tensor that is not a leaf.
  if (!is_leaf(in, tensor)) refuse("grad", "of a tensor that is not a leaf");
  PyObject* object = tensor->source ? gradient_of(tensor->real.get()) : nullptr;
  if (object) {
    tensor->grad = in.wrap(object, in.guards.sources().child(tensor->source, SourceKind::Gradient, 0, nullptr, object));
  } else {
    if (tensor->source) in.guards.add(tensor->source, FactKind::NoGradient);
    tensor->grad = in.none();
  }
  return tensor->grad;
}

/// Whether two fakes have the same dtype, device, sizes and strides.
bool are_laid_out_alike(PyObject* fake, PyObject* other) {
  for (const char* name : {"dtype", "device", "shape"}) {
    const Ref a = Ref::steal(PyObject_GetAttrString(fake, name)), b = Ref::steal(PyObject_GetAttrString(other, name));
    if (!a || !b || PyObject_RichCompareBool(a.get(), b.get(), Py_EQ) != 1) return PyErr_Clear(), false;
  }
  const Ref a = Ref::steal(PyObject_CallMethod(fake, "stride", nullptr));
  const Ref b = Ref::steal(PyObject_CallMethod(other, "stride", nullptr));
  if (a && b && PyObject_RichCompareBool(a.get(), b.get(), Py_EQ) == 1) return true;
  PyErr_Clear();
  return false;
}

void write_data(Interpreter& in, TensorValue* tensor, Value* to) {
  refuse_in_transform(in, tensor, "data");
  if (tensor->dispatching) refuse("data", "of a tensor with a __torch_dispatch__");
  auto* data = as<TensorValue>(to);
  if (!data) throw Break{BreakId::raises, "something else than a tensor as data"};
  // Torch's compilers copy the new data into an input, so it must fit.
  if (in.options.for_python_backend && !are_laid_out_alike(in.fake_of(tensor), in.fake_of(data)))
    throw Break{BreakId::mutation, "data of another layout, in a graph for a Python backend"};
  recorded(in, "set_data", {tensor, to});
}

/// Whether a tensor that the graph made may begin to require gradients in a graph for a Python backend, which gets a
/// new leaf for it in each run (python/stator/fx_leaves.py). Torch's compilers take what shares an input's memory for a
/// view of that input.
bool may_become_leaf(Interpreter& in, const TensorValue* tensor, PyObject* fake) {
  if (tensor->source || TorchTracer::has_symbolic_sizes(fake)) return false;
  const at::Tensor& made = tensor_of(fake);
  if (!made.has_storage() || made.is_inference()) return false;
  return std::ranges::none_of(in.torch.inputs, [&](TensorValue* input) {
    PyObject* other = in.fake_of(input);
    if (!is_tensor_object(other)) return false;
    const at::Tensor& given = tensor_of(other);
    return given.has_storage() && given.storage().unsafeGetStorageImpl() == made.storage().unsafeGetStorageImpl();
  });
}

void write_requires_grad(Interpreter& in, TensorValue* tensor, Value* to) {
  refuse_in_transform(in, tensor, "requires_grad");
  PyObject* flag = in.constant_of(to);
  if (!flag || !PyBool_Check(flag)) throw Break{BreakId::raises, "requires_grad must be a bool"};
  if (tensor->dispatching && !is_true_of(in.fake_of(tensor), "requires_grad") && flag == Py_False) return;
  if (tensor->dispatching) refuse("requires_grad", "of a tensor with a __torch_dispatch__");
  if (!is_leaf(in, tensor)) throw Break{BreakId::raises, "requires_grad of a tensor that is not a leaf"};
  // Functions that torch's compilers make of a graph return no new leaves, so the change would be lost.
  if (in.options.for_python_backend) {
    PyObject* fake = in.fake_of(tensor);
    if (is_true_of(fake, "requires_grad") == (flag == Py_True)) return;
    if (flag != Py_True || !may_become_leaf(in, tensor, fake))
      throw Break{BreakId::mutation, "requires_grad of a tensor changes, in a graph for a Python backend"};
  }
  tensor->written = true;
  recorded(in, "requires_grad_", {tensor, to});
}

void write_grad(Interpreter& in, TensorValue* tensor, Value* to) {
  static PyObject* const name = PyUnicode_InternFromString("grad");
  refuse_in_transform(in, tensor, "grad");
  if (tensor->dispatching) refuse("grad", "of a tensor with a __torch_dispatch__");
  // Setting it on the fake makes torch's checks; the plan sets it on the real tensor.
  Ref value = in.to_torch(to);
  PyObject* fake = in.fake_of(tensor);
  if (PyObject_SetAttr(fake, name, value.get()) < 0) throw Break{BreakId::torch_error, take_error_text()};
  tensor->grad = to;
  in.effects.add({EffectKind::SetAttr, tensor, in.constant(name), to});
}

/// Breaks if the program also holds the dict of the tensor's attributes as a value.
void refuse_shared_dict(Interpreter& in, TensorValue* tensor) {
  PyObject* dict = nullptr;
  if (!tensor->source || stator_instance_dict(tensor->real.get(), &dict) != kStatorDictObject) return;
  if (const Value* other = in.objects.claim_dict(dict, tensor))
    break_on_shared_dict(in.guards, tensor->source, dict, other, "a tensor whose __dict__ is that of another object");
}

/// An attribute in the tensor's `__dict__`.
Value* own_attribute(Interpreter& in, TensorValue* tensor, PyObject* name) {
  refuse_shared_dict(in, tensor);
  for (auto& [known, value] : tensor->own)
    if (PyUnicode_Compare(known.get(), name) == 0) return value;
  if (!tensor->source) return nullptr;
  PyObject* found = stator_instance_value(tensor->real.get(), name);
  if (found)
    return in.wrap(found, in.guards.sources().child(tensor->source, SourceKind::Attribute, kOwnAttribute, name, found));
  in.guards.add(tensor->source, FactKind::NoAttribute, name);
  return nullptr;
}

/// Whether the tensor has an attribute of its own that hides what the class has: a method, but no data descriptor.
bool hides(const TensorValue* tensor, PyObject* on_class, PyObject* name) {
  if (!on_class || Py_TYPE(on_class)->tp_descr_set) return false;
  for (auto& [known, value] : tensor->own)
    if (PyUnicode_Compare(known.get(), name) == 0) return true;
  return tensor->source && stator_instance_value(tensor->real.get(), name);
}

void set_own_attribute(Interpreter& in, TensorValue* tensor, PyObject* name, Value* to) {
  refuse_shared_dict(in, tensor);
  in.fake_of(tensor);
  tensor->own.insert(tensor->own.begin(), {Ref::borrow(name), to});
  if (tensor->dispatching && !tensor->source) return;  // a plan that makes the tensor also sets its attributes
  in.effects.add({EffectKind::SetAttr, tensor, in.constant(name), to});
}

/// Whether it is a field of Tensor that torch's bindings define.
bool is_field(PyObject* descriptor) {
  static PyTypeObject* const owner = reinterpret_cast<PyTypeObject*>(known_object("torch._C.TensorBase"));
  return descriptor && Py_TYPE(descriptor) == &PyGetSetDescr_Type &&
         reinterpret_cast<PyDescrObject*>(descriptor)->d_type == owner;
}

struct PropertyRow {
  const char* name;
  Value* (*read)(Interpreter&, TensorValue*);
  void (*write)(Interpreter&, TensorValue*, Value*);  // null: no setter is modelled
};
constexpr PropertyRow kProperties[] = {
    {"data", read_data, write_data},    {"grad", read_grad, write_grad},
    {"is_leaf", read_is_leaf, nullptr}, {"grad_fn", read_grad_fn, nullptr},
    {"nbytes", read_nbytes, nullptr},   {"requires_grad", nullptr, write_requires_grad},
};

const PropertyRow* property(PyObject* name) {
  static const auto& rows = *new RowsByName<PropertyRow>(kProperties);
  return rows.find(name);
}

}  // namespace

Value* tensor_attribute(Interpreter& in, TensorValue* tensor, PyObject* name) {
  static PyObject* const getattr = PyUnicode_InternFromString("__getattr__");
  PyTypeObject* type = in.type_of(tensor);
  in.guards.add_class(type);
  if (TorchTracer::is_plain_class(type)) return tensor_field(in, tensor, name);
  if (class_overrides(in, tensor, "__getattribute__"))
    throw Break{BreakId::tensor_subclass, std::string(type->tp_name) + " has its own __getattribute__"};
  PyObject* on_class = look_up(type, name);
  if (on_class != look_up(TorchTracer::tensor_type(), name)) {
    // Attributes of the subclass are read as those of any instance.
    if (!Py_TYPE(on_class)->tp_descr_set)
      if (Value* own = own_attribute(in, tensor, name)) return own;
    return in.bind_descriptor(on_class, type, tensor, name);
  }
  if (Value* found = tensor_field(in, tensor, name)) return found;
  PyObject* fallback = look_up(type, getattr);
  if (!fallback) return nullptr;
  return in.call(in.bind_descriptor(fallback, type, tensor, getattr), arguments({in.constant(name)}));
}

void refuse_tensor_method(PyObject* callable, const CallArgs& args) {
  if (Py_TYPE(callable) != &PyMethodDescr_Type && Py_TYPE(callable) != &PyWrapperDescr_Type) return;
  if (args.positional.empty() || args.positional[0]->kind != Kind::Tensor) return;
  auto* owner = reinterpret_cast<PyObject*>(PyDescr_TYPE(callable));
  if (!PySequence_Contains(TorchTracer::tensor_type()->tp_mro, owner) || PyDescr_TYPE(callable) == &PyBaseObject_Type)
    return;
  if (const RefusedRow* row = refusal(PyDescr_NAME(callable))) refuse(row->name, row->why, row->id);
}

Value* tensor_field(Interpreter& in, TensorValue* tensor, PyObject* name) {
  PyTypeObject* type = in.type_of(tensor);
  PyObject* on_class = look_up(TorchTracer::is_plain_class(type) ? type : TorchTracer::tensor_type(), name);
  if (hides(tensor, on_class, name)) return own_attribute(in, tensor, name);
  if (tensor->source && on_class && !Py_TYPE(on_class)->tp_descr_set)
    in.guards.add(tensor->source, FactKind::NoAttribute, name);
  if (is_field(on_class) && is_overridden(in, tensor)) {
    Value* const self = tensor;
    return in.apply(std::span(&self, 1), name_text(name).c_str(),
                    [&](PyObject* const* x) { return PyObject_GetAttr(x[0], name); });
  }
  if (const RefusedRow* row = refusal(name)) refuse(row->name, row->why, row->id);
  if (!on_class) return own_attribute(in, tensor, name);
  if (const PropertyRow* row = property(name); row && row->read) return row->read(in, tensor);
  static PyObject* const class_name = PyUnicode_InternFromString("__class__");
  if (PyUnicode_Compare(name, class_name) == 0) return in.constant(reinterpret_cast<PyObject*>(type));
  PyTypeObject* kind = Py_TYPE(on_class);
  if (kind == &PyMethodDescr_Type || kind == &PyWrapperDescr_Type)
    return in.arena.make<MethodValue>(in.constant(on_class), tensor);
  bool inlined = kind == &PyFunction_Type || kind == &PyClassMethod_Type ||
                 (kind == &PyProperty_Type && is_overridden(in, tensor));
  // Fakes are instances of torch.Tensor: they do not have what its subclass Parameter defines.
  const bool is_redefined = !kind->tp_descr_set && on_class != look_up(TorchTracer::tensor_type(), name);
  if (inlined || is_redefined) return in.bind_descriptor(on_class, type, tensor, name);
  PyObject* fake = in.fake_of(tensor);
  return in.torch_result([&] { return PyObject_GetAttr(fake, name); }, name_text(name).c_str());
}

static void set_tensor_field(Interpreter& in, TensorValue* tensor, PyObject* name, Value* to);

void set_tensor_attribute(Interpreter& in, TensorValue* tensor, PyObject* name, Value* to) {
  PyTypeObject* type = tensor->type;
  in.guards.add_class(type);
  PyObject* on_class = look_up(type, name);
  bool is_redefined = class_overrides(in, tensor, name_text(name).c_str());
  if (class_overrides(in, tensor, "__setattr__"))
    throw Break{BreakId::mutation, std::string(type->tp_name) + " has its own __setattr__"};
  if (is_redefined && Py_TYPE(on_class) == &PyProperty_Type) {
    Ref setter = Ref::steal(PyObject_GetAttrString(on_class, "fset"));
    if (setter && PyFunction_Check(setter.get())) {
      Value* function = in.wrap(setter.get(), in.guards.sources().pinned(setter.get(), "a setter"));
      in.call(function, arguments({tensor, to}));
      return;
    }
  }
  if (is_redefined && Py_TYPE(on_class)->tp_descr_set)
    throw Break{BreakId::mutation, "attribute '" + name_text(name) + "' of a tensor subclass"};
  if (is_redefined) return set_own_attribute(in, tensor, name, to);
  set_tensor_field(in, tensor, name, to);
}

void set_tensor_field(Interpreter& in, TensorValue* tensor, PyObject* name, Value* to) {
  PyObject* on_class = look_up(TorchTracer::tensor_type(), name);
  if (is_field(on_class) && is_overridden(in, tensor)) {
    Value* const both[] = {tensor, to};
    in.apply(both, name_text(name).c_str(), [&](PyObject* const* x) -> PyObject* {
      if (PyObject_SetAttr(x[0], name, x[1]) < 0) return nullptr;
      Py_RETURN_NONE;
    });
    return;
  }
  const PropertyRow* row = property(name);
  if (!row && (!on_class || !Py_TYPE(on_class)->tp_descr_set)) return set_own_attribute(in, tensor, name, to);
  if (!row || !row->write) throw Break{BreakId::mutation, "attribute '" + name_text(name) + "' of a tensor"};
  row->write(in, tensor, to);
}

Value* call_tensor_field(Interpreter& in, PyObject* method, const CallArgs& args) {
  Ref field = Ref::steal(PyObject_GetAttrString(method, "__self__")),
      which = Ref::steal(PyObject_GetAttrString(method, "__name__"));
  PyErr_Clear();
  if (!which || !is_field(field.get()) || !args.keywords.empty()) return nullptr;
  auto* descriptor = field.as<PyDescrObject>();
  auto* tensor = as<TensorValue>(at_or_null(args, 0));
  if (!tensor) return nullptr;
  if (PyUnicode_CompareWithASCIIString(which.get(), "__get__") == 0)
    return tensor_field(in, tensor, descriptor->d_name);
  if (PyUnicode_CompareWithASCIIString(which.get(), "__set__") == 0 && args.positional.size() == 2) {
    set_tensor_field(in, tensor, descriptor->d_name, args.positional[1]);
    return in.none();
  }
  return nullptr;
}

static Ref grad_fn_of(PyObject* fake) {
  Ref node = Ref::steal(PyObject_GetAttrString(fake, "grad_fn"));
  PyErr_Clear();
  return node;
}

OpaqueValue* defer_on_tensor(Interpreter& in, const char* method, const char* what, const CallArgs& args) {
  auto* tensor = args.positional.empty() ? nullptr : as<TensorValue>(args.positional[0]);
  if (!tensor || !args.keywords.empty()) throw Break{BreakId::unknown_call, method};
  refuse_in_transform(in, tensor, method);
  // The class would see the plan's call as another one.
  if (!TorchTracer::is_plain_class(tensor->type)) throw Break{BreakId::tensor_subclass, method};
  PyObject* fake = in.fake_of(tensor);
  if (!is_true_of(fake, "requires_grad"))
    throw Break{BreakId::raises, std::string(method) + " of a tensor without gradient"};
  // Torch's compilers make one autograd node of a graph: no gradient passes through a tensor inside.
  if (in.options.for_python_backend && (!tensor->source || !is_leaf_tensor(fake)))
    throw Break{BreakId::tensor_internals, std::string(method) + " of a tensor inside a graph for a Python backend"};
  auto* made = in.arena.make<OpaqueValue>(what);
  made->callable = Ref::borrow(known_object(method));
  made->arguments = args.positional;
  made->grad_fn = grad_fn_of(fake);
  made->step = in.frames.resumable_step();
  in.effects.add({EffectKind::Make, made});
  return made;
}

bool is_as_deferred(Interpreter& in, const OpaqueValue* made) {
  PyObject* fake = in.fake_of(static_cast<TensorValue*>(made->arguments[0]));
  return is_true_of(fake, "requires_grad") && grad_fn_of(fake).get() == made->grad_fn.get();
}

Value* tensor_requires_grad(Interpreter& in, CallArgs& args) {
  auto* tensor = args.positional.empty() ? nullptr : as<TensorValue>(args.positional[0]);
  if (!tensor || args.count() > 2) throw Break{BreakId::raises, "requires_grad_ called with wrong arguments"};
  // Functorch decides whether it may be set on its wrappers; on other tensors it stays set.
  if (in.frames.in_transform() || tensor->wrapped_at) {
    if (!tensor->wrapped_at && tensor->source) throw Break{BreakId::mutation, "requires_grad inside of a transform"};
    return in.call_torch(known_object("torch._C.TensorBase.requires_grad_"), args);
  }
  Value* flag = args.positional.size() > 1 ? args.positional[1] : args.keyword("requires_grad");
  if (!flag && args.count() > 1) throw Break{BreakId::raises, "requires_grad_ called with wrong arguments"};
  write_requires_grad(in, tensor, flag ? flag : in.boolean(true));
  return tensor;
}

}  // namespace stator::capture
