#include "capture/interpreter/torch/overrides.h"

#include <algorithm>

#include "capture/guards/function_modes.h"
#include "capture/guards/literals.h"
#include "capture/interpreter/protocol/special_methods.h"
#include "capture/interpreter/state/known_types.h"
#include "capture/interpreter/torch/trial.h"
#include "capture/pycompat/text.h"

namespace stator::capture {
namespace {

PyObject* const kTorchFunction = PyUnicode_InternFromString("__torch_function__");

/// A member of stator.overrides, which the module keeps alive.
PyObject* override_helper(const char* name) {
  static PyObject* const module = PyImport_ImportModule("stator.overrides");
  PyObject* found = module ? PyObject_GetAttrString(module, name) : nullptr;
  if (!found) throw Break{BreakId::internal, take_error_text()};
  Py_DECREF(found);  // the module keeps it
  return found;
}

PyObject* disabled_implementation() {
  static PyObject* const found = known_object("torch._C._disabled_torch_function_impl");
  return found;
}

/// While it lives, this mode is the only active one.
struct OnlyMode {
  explicit OnlyMode(PyObject* mode) { change_function_modes(0, std::span(&mode, 1)); }
  ~OnlyMode() { change_function_modes(0, {}); }
};

/// Whether an item may override. Items that were not read yet are checked without reading them.
bool may_override(const SequenceValue* sequence, size_t index) {
  return sequence->items[index] || !is_literal_type(Py_TYPE(PySequence_Fast_GET_ITEM(sequence->external.get(), index)));
}

Value* dispatch(Interpreter& in, const std::vector<PyTypeObject*>& types, const CallArgs& handed) {
  if (has_active_mode(in)) {
    struct Stashed {
      Interpreter& in;
      Value* mode;
      explicit Stashed(Interpreter& i) : in(i), mode(i.torch.modes.back()) { in.torch.modes.pop_back(); }
      ~Stashed() { in.torch.modes.push_back(mode); }
    } stashed(in);
    Value* result = in.call(in.get_attr(stashed.mode, kTorchFunction), handed);
    if (!is_not_implemented(in, result)) return result;
  }
  for (PyTypeObject* type : types) {
    Value* result = in.call(class_implementation(in, type, kTorchFunction), handed);
    if (!is_not_implemented(in, result)) return result;
  }
  throw Break{BreakId::raises, "every __torch_function__ gave NotImplemented"};
}

}  // namespace

std::vector<PyTypeObject*> in_override_order(const std::vector<PyTypeObject*>& found) {
  std::vector<PyTypeObject*> ordered;
  for (PyTypeObject* type : found) {
    if (std::find(ordered.begin(), ordered.end(), type) != ordered.end()) continue;
    auto place = std::find_if(ordered.begin(), ordered.end(),
                              [&](PyTypeObject* other) { return PyType_IsSubtype(type, other); });
    ordered.insert(place, type);
  }
  return ordered;
}

Value* class_implementation(Interpreter& in, PyTypeObject* type, PyObject* name) {
  in.guards.add_class(type);
  PyObject* found = look_up(type, name);
  bool bound_to_class = found && (Py_TYPE(found) == &PyClassMethod_Type || Py_TYPE(found) == &PyStaticMethod_Type ||
                                  PyCFunction_Check(found));
  if (!bound_to_class)
    throw Break{BreakId::tensor_subclass, std::string(type->tp_name) + "." + text_of(name) + " is not a class method"};
  return in.bind_descriptor(found, type, nullptr, name);
}

bool has_active_mode(const Interpreter& in) {
  return !in.torch.modes.empty() && in.torch.overriding != Overriding::AllDisabled;
}

bool is_overriding_class(Interpreter& in, PyTypeObject* type) {
  if (TorchTracer::is_plain_class(type)) return false;
  PyObject* found = look_up(type, kTorchFunction);
  if (!found) return false;
  in.guards.add_class(type);
  return found != disabled_implementation();
}

bool is_overriding(Interpreter& in, Value* value) {
  if (has_active_mode(in)) return true;
  if (in.torch.overriding != Overriding::Enabled) return false;
  if (auto* tensor = as<TensorValue>(value)) return is_overriding_class(in, tensor->type);
  auto* object = as<ObjectValue>(value);
  return object && is_overriding_class(in, object->type);
}

bool is_overridden(Interpreter& in, Value* value) {
  if (is_overriding(in, value)) return true;
  auto* sequence = in.torch.overriding == Overriding::Enabled ? as_sequence(value) : nullptr;
  for (size_t i = 0; sequence && i < sequence->items.size(); ++i)
    if (may_override(sequence, i) && is_overridden(in, in.item(sequence, i))) return true;
  return false;
}

bool may_be_overridden(const Interpreter& in, const CallArgs& args) {
  auto may = [](const Value* value) {
    if (value->kind == Kind::Tensor) return !TorchTracer::is_plain_class(static_cast<const TensorValue*>(value)->type);
    return value->kind == Kind::Object || value->kind == Kind::List || value->kind == Kind::Tuple;
  };
  if (has_active_mode(in)) return true;
  for (const Value* value : args.positional)
    if (may(value)) return true;
  for (auto& [name, value] : args.keywords)
    if (may(value)) return true;
  return false;
}

bool is_overridden(Interpreter& in, std::span<Value* const> values) {
  if (has_active_mode(in)) return true;
  for (Value* value : values)
    if (is_overridden(in, value)) return true;
  return false;
}

bool is_overridden(Interpreter& in, const CallArgs& args) {
  if (is_overridden(in, args.positional)) return true;
  for (auto& [name, value] : args.keywords)
    if (is_overridden(in, value)) return true;
  return false;
}

bool class_overrides(Interpreter& in, TensorValue* tensor, const char* name) {
  if (TorchTracer::is_plain_class(tensor->type)) return false;
  in.guards.add_class(tensor->type);
  return class_lookup(tensor->type, name) != class_lookup(TorchTracer::tensor_type(), name);
}

OverrideQuery::OverrideQuery(Interpreter& in) : in_(in), outer_(std::exchange(in.torch.scope.query, this)) {}
OverrideQuery::~OverrideQuery() { leave(); }

void OverrideQuery::leave() {
  if (in_.torch.scope.query == this) in_.torch.scope.query = outer_;
  for (auto& [object, plain] : std::exchange(probe_arguments_, {}))
    if (plain && PyObject_SetAttrString(object.get(), "__class__", plain.get()) < 0) PyErr_Clear();
}

void OverrideQuery::probe_argument(TensorValue* tensor, PyObject* fake) {
  if (values_.count(fake)) return;
  note(fake, tensor);
  if (in_.torch.overriding != Overriding::Enabled || !is_overriding_class(in_, tensor->type)) return;
  Ref type =
      Ref::steal(PyObject_CallFunction(override_helper("probe_argument"), "nO", probe_arguments_.size(), Py_True));
  Ref plain = Ref::borrow(reinterpret_cast<PyObject*>(Py_TYPE(fake)));
  if (!type || PyObject_SetAttrString(fake, "__class__", type.get()) < 0)
    throw Break{BreakId::tensor_subclass, take_error_text()};
  probe_arguments_.emplace_back(Ref::borrow(fake), std::move(plain));
  types_.push_back(tensor->type);
}

Ref OverrideQuery::probe_argument(Value* object) {
  for (auto& [known, value] : values_)
    if (value == object) return Ref::borrow(known);
  PyTypeObject* type = in_.type_of(object);
  if (in_.torch.overriding != Overriding::Enabled || !is_overriding_class(in_, type))
    throw Break{BreakId::unknown_object, std::string("a ") + type->tp_name + " as an argument of torch"};
  Ref made =
      Ref::steal(PyObject_CallFunction(override_helper("probe_argument"), "nO", probe_arguments_.size(), Py_False));
  if (made) made = Ref::steal(PyObject_CallNoArgs(made.get()));
  if (!made) throw Break{BreakId::tensor_subclass, take_error_text()};
  note(made.get(), object);
  probe_arguments_.emplace_back(made, Ref());
  types_.push_back(type);
  return made;
}

Value* OverrideQuery::value_of(PyObject* object) {
  auto found = values_.find(object);
  if (found != values_.end()) return found->second;
  if (PyTuple_CheckExact(object)) {
    std::vector<Value*> items;
    for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(object); ++i) items.push_back(value_of(PyTuple_GET_ITEM(object, i)));
    return in_.tuple(std::move(items));
  }
  if (PyDict_CheckExact(object)) {
    DictValue* made = in_.dict();
    Py_ssize_t position = 0;
    PyObject *key, *value;
    while (PyDict_Next(object, &position, &key, &value)) in_.dict_set(made, value_of(key), value_of(value));
    return made;
  }
  if (PyFunction_Check(object)) return in_.wrap(object, in_.guards.sources().pinned(object, "a function of torch"));
  return in_.wrap_result(object);
}

Value* OverrideQuery::run(const TorchCall& call, PyObject* const* objects, const char* what) {
  Ref watch = Ref::steal(PyObject_CallNoArgs(override_helper("Watch")));
  if (!watch) throw Break{BreakId::internal, take_error_text()};
  in_.torch.locate();
  Ref result = in_.torch.tracer.record([&] {
    OnlyMode mode(watch.get());
    return call(objects);
  });
  Ref seen = Ref::steal(PyObject_GetAttrString(watch.get(), "seen"));
  std::vector<PyTypeObject*> classes;  // of the probe arguments, as numbered
  for (auto& [object, plain] : probe_arguments_) classes.push_back(Py_TYPE(object.get()));
  leave();
  if (!seen || seen.get() == Py_None) {
    if (!result) in_.torch.fail(what);
    return in_.wrap_result(result.get());
  }
  PyErr_Clear();  // the placeholder result may have failed a check of the binding
  PyObject* told = PyTuple_GET_ITEM(seen.get(), 1);
  std::vector<PyTypeObject*> found;
  for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(told); ++i) {
    auto* type = reinterpret_cast<PyTypeObject*>(PyTuple_GET_ITEM(told, i));
    auto known = std::find(classes.begin(), classes.end(), type);
    found.push_back(known == classes.end() ? type : types_[known - classes.begin()]);
  }
  std::vector<PyTypeObject*> types = in_override_order(found);
  std::vector<Value*> type_values;
  for (PyTypeObject* type : types) type_values.push_back(in_.constant(reinterpret_cast<PyObject*>(type)));
  CallArgs handed;
  handed.positional = {value_of(PyTuple_GET_ITEM(seen.get(), 0)), in_.tuple(std::move(type_values))};
  for (Py_ssize_t i = 2; i < PyTuple_GET_SIZE(seen.get()); ++i)
    handed.positional.push_back(value_of(PyTuple_GET_ITEM(seen.get(), i)));
  return dispatch(in_, types, handed);
}

Value* Interpreter::apply(std::span<Value* const> values, const char* what, const TorchCall& call) {
  return apply(values, what, call, is_overridden(*this, values));
}

Value* Interpreter::apply(std::span<Value* const> values, const RunningCall& what, const TorchCall& call,
                          bool overridden) {
  std::optional<OverrideQuery> question;
  if (overridden) question.emplace(*this);
  auto make = [&] {
    std::vector<Ref> owned;
    std::vector<PyObject*> objects;
    owned.reserve(values.size());
    objects.reserve(values.size());
    for (Value* value : values) {
      owned.push_back(to_torch(value));
      objects.push_back(owned.back().get());
    }
    if (question) return question->run(call, objects.data(), what.function);
    return tried_result(*this, objects, what, call);
  };
  return question ? make() : torch.with_numbers(make);
}

void check_tensor_class(Interpreter& in, PyTypeObject* cls, bool may_dispatch) {
  static PyObject* const dispatch_name = PyUnicode_InternFromString("__torch_dispatch__");
  static PyObject* const finalizer = PyUnicode_InternFromString("__del__");
  PyTypeObject* plain = TorchTracer::tensor_type();
  if (in.frames.in_transform())
    throw Break{BreakId::tensor_subclass, "a tensor of a subclass is made inside of a transform"};
  if (!PyType_IsSubtype(cls, plain)) throw Break{BreakId::raises, "as_subclass of a class that is not a tensor's"};
  in.guards.add_class(cls);
  if (!may_dispatch && look_up(cls, dispatch_name) != look_up(plain, dispatch_name))
    throw Break{BreakId::tensor_subclass, std::string(cls->tp_name) + " has a __torch_dispatch__"};
  if (cls->tp_basicsize != plain->tp_basicsize || look_up(cls, finalizer) != look_up(plain, finalizer))
    throw Break{BreakId::tensor_subclass, std::string(cls->tp_name) + " has slots or a __del__"};
}

Value* as_subclass(Interpreter& in, TensorValue* tensor, PyTypeObject* cls) {
  static PyObject* const method = PyUnicode_InternFromString("as_subclass");
  check_tensor_class(in, cls);
  auto* plain = reinterpret_cast<PyObject*>(TorchTracer::tensor_type());
  PyObject* fake = in.fake_of(tensor);
  Value* made = in.torch_result([&] { return PyObject_CallMethodOneArg(fake, method, plain); }, "as_subclass");
  static_cast<TensorValue*>(made)->type = cls;
  return made;
}

}  // namespace stator::capture
