#include "capture/interpreter/torch/dispatching.h"

#include <algorithm>

#include "capture/guards/tensor_expectation.h"
#include "capture/interpreter/protocol/arguments.h"
#include "capture/interpreter/protocol/special_methods.h"
#include "capture/interpreter/state/known_types.h"
#include "capture/interpreter/torch/overrides.h"
#include "capture/interpreter/torch/symbolic_numbers.h"
#include "capture/pycompat/facts.h"
#include "core/fake/fake_tensor.h"

namespace stator::capture {
namespace {

PyObject* const kDispatchName = PyUnicode_InternFromString("__torch_dispatch__");
/// The attribute of a probe that tells which tensor it represents.
PyObject* const kProbeNumber = PyUnicode_InternFromString("_stator_number");

/// A probe's place in the table of its capture. A capsule owns it.
struct ProbePlace {
  std::shared_ptr<DispatchTable> table;
  size_t number;
};

const ProbePlace* place_of(PyObject* object) {
  PyObject* capsule = TorchTracer::is_tensor(object) ? stator_instance_value(object, kProbeNumber) : nullptr;
  return capsule && PyCapsule_CheckExact(capsule) ? static_cast<ProbePlace*>(PyCapsule_GetPointer(capsule, nullptr))
                                                  : nullptr;
}

template <class F>
void for_each_tensor(PyObject* object, const F& f) {
  if (PyTuple_Check(object) || PyList_Check(object)) {
    for (Py_ssize_t i = 0; i < PySequence_Fast_GET_SIZE(object); ++i)
      for_each_tensor(PySequence_Fast_GET_ITEM(object, i), f);
  } else if (PyDict_Check(object)) {
    Py_ssize_t position = 0;
    PyObject *key, *value;
    while (PyDict_Next(object, &position, &key, &value)) for_each_tensor(value, f);
  } else if (TorchTracer::is_tensor(object)) {
    f(object);
  }
}

PyObject* interpret_operator(PyObject* self, PyObject* const* args, Py_ssize_t count);

/// `stator.overrides.DispatchProbe`, whose `__torch_dispatch__` is `interpret_operator`.
PyObject* dispatch_probe_class() {
  static PyMethodDef definition = {"__torch_dispatch__",
                                   reinterpret_cast<PyCFunction>(reinterpret_cast<void (*)()>(&interpret_operator)),
                                   METH_FASTCALL, nullptr};
  static PyObject* const made = [] {
    PyObject* type = known_object("stator.overrides.DispatchProbe");
    Ref function = Ref::steal(PyCFunction_New(&definition, nullptr));
    if (!type || !function || PyObject_SetAttr(type, kDispatchName, function.get()) < 0) PyErr_Clear();
    return type;
  }();
  return made;
}

/// Makes a tensor value of a new probe, or another probe of the same tensor.
void number_probe(Ref& probe, const std::shared_ptr<DispatchTable>& table, size_t number) {
  auto drop = [](PyObject* capsule) { delete static_cast<ProbePlace*>(PyCapsule_GetPointer(capsule, nullptr)); };
  auto place = std::make_unique<ProbePlace>(ProbePlace{table, number});
  Ref capsule = probe ? Ref::steal(PyCapsule_New(place.get(), nullptr, drop)) : Ref();
  if (!capsule) throw Break{BreakId::tensor_subclass, take_error_text()};
  place.release();
  if (PyObject_SetAttr(probe.get(), kProbeNumber, capsule.get()) < 0)
    throw Break{BreakId::tensor_subclass, take_error_text()};
}

/// The tensor gets this probe.
void set_probe(Interpreter& in, TensorValue* tensor, Ref probe) {
  if (!in.torch.dispatch) in.torch.dispatch = std::make_shared<DispatchTable>(DispatchTable{&in, {}, 0, 0, {}});
  auto& table = in.torch.dispatch;
  number_probe(probe, table, table->tensors.size());
  table->tensors.push_back(tensor);
  tensor->fake = std::move(probe);
  in.objects.add_fake(tensor->fake.get(), tensor);
}

/// A tensor with the metadata of another one that has a `__torch_dispatch__`.
Ref probe_like(PyObject* tensor) {
  dispatch_probe_class();
  static PyObject* const make = known_object("stator.overrides.probe_like");
  return Ref::steal(PyObject_CallOneArg(make, tensor));
}

/// What torch gets for a result of a `__torch_dispatch__`. Torch may make a view of a tensor that has no other owner,
/// and copies one that has: so it gets a new probe each time.
Ref handed_back(Interpreter& in, Value* value) {
  if (auto* sequence = as_sequence(value)) {
    Ref list = Ref::steal(PyList_New(0));
    for (size_t i = 0; i < sequence->items.size(); ++i)
      PyList_Append(list.get(), handed_back(in, in.item(sequence, i)).get());
    return sequence->kind == Kind::List ? list : Ref::steal(PyList_AsTuple(list.get()));
  }
  auto* tensor = as<TensorValue>(value);
  if (!tensor) return in.to_torch(value);
  if (!tensor->dispatching) {
    if (!TorchTracer::is_plain_class(tensor->type))
      throw Break{BreakId::tensor_subclass, std::string("__torch_dispatch__ gives a ") + tensor->type->tp_name};
    return Ref::borrow(in.fake_of(tensor));
  }
  Ref probe = probe_like(in.fake_of(tensor));
  number_probe(probe, in.torch.dispatch, place_of(tensor->fake.get())->number);
  return probe;
}

bool is_grad_mode() {
  static PyObject* const asks = known_object("torch.is_grad_enabled");
  return Ref::steal(PyObject_CallNoArgs(asks)).get() == Py_True;
}

/// Refuses where what is recorded would differ from what runs inside of a real `__torch_dispatch__`, which autograd,
/// autocast and transforms do not see.
void check_surroundings(Interpreter& in, PyObject* tensors) {
  if (in.frames.in_transform()) throw Break{BreakId::tensor_subclass, "a __torch_dispatch__ inside of a transform"};
  if (TorchTracer::in_autocast_block()) throw Break{BreakId::tensor_subclass, "a __torch_dispatch__ under autocast"};
  const bool follows = is_grad_mode();
  for_each_tensor(tensors, [&](PyObject* tensor) {
    if (follows && is_true_of(tensor, "requires_grad"))
      throw Break{BreakId::tensor_subclass, "autograd around a __torch_dispatch__"};
  });
}

/// Notes the operator that gave a tensor, which may be a view: a plan calls it to make one.
void note_operation(Interpreter& in, Value* result, size_t first, PyObject* func, const CallArgs& handed) {
  auto* tensor = as<TensorValue>(result);
  const bool is_new = tensor && tensor->dispatching && place_of(tensor->fake.get())->number >= first;
  if (!is_new) return;
  Dispatching& made = *tensor->dispatching;
  if (made.is_view) throw Break{BreakId::tensor_subclass, "a __torch_dispatch__ gives a view that another one made"};
  made.operation = Ref::borrow(func);
  made.arguments = handed.positional[2];
  made.keywords = handed.positional[3];
  made.in_grad_mode = is_grad_mode();
}

/// Each level takes much of the stack, so few are allowed: a class calls itself that torch answers for in another way.
thread_local int levels = 0;
constexpr int kMostLevels = 16;

Ref answer_operator(Interpreter& in, PyObject* func, PyObject* args, PyObject* kwargs) {
  const ScopedValue level(levels, levels + 1);
  if (levels > kMostLevels) throw Break{BreakId::recursion, "a __torch_dispatch__ calls itself"};
  const TorchTracer::Reentry outside(in.torch.tracer);
  const ScopedValue no_query(in.torch.scope.query, static_cast<OverrideQuery*>(nullptr));
  const ScopedValue plain_numbers(in.torch.scope.gives_numbers_as_tensors, false);
  Ref both = Ref::steal(PyTuple_Pack(2, args, kwargs));
  check_surroundings(in, both.get());
  std::vector<PyTypeObject*> found;
  for_each_tensor(both.get(), [&](PyObject* tensor) {
    if (TensorValue* value = tensor_of_probe(in, tensor)) found.push_back(value->type);
  });
  const std::vector<PyTypeObject*> types = in_override_order(found);
  std::vector<Value*> classes;
  for (PyTypeObject* type : types) classes.push_back(in.constant(reinterpret_cast<PyObject*>(type)));
  CallArgs handed;
  handed.positional = {in.constant(func), in.tuple(std::move(classes)), in.wrap_result(args), in.wrap_result(kwargs)};
  DispatchTable& table = *in.torch.dispatch;
  const size_t first = table.tensors.size();
  ++table.answered;
  const ScopedValue answering(table.answering, table.answering + 1);
  for (PyTypeObject* type : types) {
    Value* result = in.call(class_implementation(in, type, kDispatchName), handed);
    if (is_not_implemented(in, result)) continue;
    note_operation(in, result, first, func, handed);
    return handed_back(in, result);
  }
  throw Break{BreakId::raises, "every __torch_dispatch__ gave NotImplemented"};
}

/// Torch calls it for each operator on a probe that arrives below autograd.
PyObject* interpret_operator(PyObject*, PyObject* const* args, Py_ssize_t count) {
  const ProbePlace* place = nullptr;
  for (Py_ssize_t i = 2; i < count && i < 4; ++i)
    for_each_tensor(args[i], [&](PyObject* tensor) {
      if (!place) place = place_of(tensor);
    });
  Interpreter* in = place ? place->table->in : nullptr;
  if (count != 4 || !in || !in->torch.scope.call || in->torch.thrown) {
    PyErr_SetString(PyExc_RuntimeError, "an operator on a tensor that is known by its metadata only");
    return nullptr;
  }
  try {
    return answer_operator(*in, args[0], args[2], args[3]).release();
  } catch (...) {
    // Torch's code cannot be left by another exception than its own.
    in->torch.thrown = std::current_exception();
  }
  PyErr_SetString(PyExc_RuntimeError, "a __torch_dispatch__ was left by an exception");
  fake::poison("a __torch_dispatch__ was left by an exception");
  return nullptr;
}

/// A value as an argument of `_make_wrapper_subclass` during capture.
Ref literal_argument(Interpreter& in, Value* value) {
  if (auto* sequence = as_sequence(value))
    for (size_t i = 0; i < sequence->items.size(); ++i)
      if (Value* item = in.item(sequence, i); is_symbolic_number(item))
        needs_number(in, item, "is a size of a tensor with a __torch_dispatch__");
  if (is_symbolic_number(value)) needs_number(in, value, "is a number in a tensor with a __torch_dispatch__");
  Ref literal = in.literal_of(value);
  if (!literal) throw Break{BreakId::tensor_subclass, "an argument of _make_wrapper_subclass"};
  return literal;
}

}  // namespace

size_t answered_operators(const DispatchTable* table) { return table ? table->answered : 0; }

TensorValue* external_wrapper(Interpreter& in, PyObject* object, Source* source) {
  PyTypeObject* type = Py_TYPE(object);
  static PyObject* const answers = known_object("stator.overrides.answers_for_metadata");
  const Ref own = Ref::steal(PyObject_CallOneArg(answers, object));
  PyErr_Clear();
  if (own.get() != Py_False)
    throw Break{BreakId::tensor_subclass, source->describe() + " is a " + type->tp_name + ", which gives its sizes"};
  check_tensor_class(in, type, true);
  in.guards.add_type(source, type);
  auto* tensor = in.arena.make<TensorValue>(Ref(), type);
  tensor->real = Ref::borrow(object);
  tensor->source = source;
  tensor->dispatching = std::make_shared<Dispatching>();
  return tensor;
}

void open_wrapper(Interpreter& in, TensorValue* tensor) {
  set_probe(in, tensor, probe_like(tensor->real.get()));
  Fact fact{FactKind::Tensor, Ref(), Ref(), 0, in.frames.user_line()};
  fact.tensor = TensorExpectation::of(tensor->real.get());
  in.guards.sources().add_fact(tensor->source, std::move(fact));
  tensor->source->loaded = true;
}

TensorValue* tensor_of_probe(Interpreter& in, PyObject* object) {
  const ProbePlace* place = place_of(object);
  if (!place || place->table->in != &in) return nullptr;
  TensorValue* tensor = place->table->tensors[place->number];
  if (object == tensor->fake.get() || !is_view_tensor(object)) return tensor;
  // In a real run, autograd marks a result as a view only if it is new, and copies one that has other owners. Such a
  // copy is refused.
  if (!tensor->dispatching->made_by.callable || tensor->dispatching->step != in.frames.resumable_step())
    throw Break{BreakId::tensor_subclass, "a __torch_dispatch__ gives a known tensor as a view"};
  tensor->dispatching->is_view = true;
  return tensor;
}

void note_view(Interpreter& in, TensorValue* tensor) {
  if (!is_view_tensor(tensor->fake.get())) return;
  DispatchTable& table = *in.torch.dispatch;
  if (table.answering > 0) {
    table.untracked.insert(tensor);
    return;
  }
  const Ref base = Ref::steal(PyObject_GetAttrString(tensor->fake.get(), "_base"));
  PyErr_Clear();
  if (!base || place_of(base.get()))
    throw Break{BreakId::tensor_subclass, "a plain tensor that is a view of one with a __torch_dispatch__"};
  for (const TensorValue* other : table.untracked)
    if (TorchTracer::share_storage(other->fake.get(), tensor->fake.get()))
      throw Break{BreakId::tensor_subclass, "a view of a view that a __torch_dispatch__ made"};
}

bool is_untracked_view(const Interpreter& in, const TensorValue* tensor) {
  return in.torch.dispatch && in.torch.dispatch->untracked.count(tensor) != 0;
}

Value* make_wrapper(Interpreter& in, CallArgs& args) {
  static constexpr const char* kRefused[] = {"dispatch_sizes_strides_policy", "dispatch_device", "dispatch_layout",
                                             "_extra_dispatch_keys"};
  static PyObject* const make = known_object("torch._C.TensorBase._make_wrapper_subclass");
  PyObject* cls = in.constant_of(args.positional[0]);
  if (!cls || !PyType_Check(cls)) throw Break{BreakId::raises, "_make_wrapper_subclass of something else than a class"};
  auto* type = reinterpret_cast<PyTypeObject*>(cls);
  check_tensor_class(in, type, true);
  if (in.torch.tracer.in_inference_block())
    throw Break{BreakId::tensor_subclass, "a tensor with a __torch_dispatch__ is made in an inference-mode block"};
  for (const char* name : kRefused)
    if (args.keyword(name)) throw Break{BreakId::tensor_subclass, std::string("a tensor made with ") + name};
  Ref positional = Ref::steal(PyTuple_New(static_cast<Py_ssize_t>(args.positional.size())));
  PyTuple_SET_ITEM(positional.get(), 0, Py_NewRef(dispatch_probe_class()));
  for (size_t i = 1; i < args.positional.size(); ++i)
    PyTuple_SET_ITEM(positional.get(), static_cast<Py_ssize_t>(i), literal_argument(in, args.positional[i]).release());
  Ref keywords = Ref::steal(PyDict_New());
  for (auto& [name, value] : args.keywords)
    PyDict_SetItem(keywords.get(), name.get(), literal_argument(in, value).get());
  Ref probe = Ref::steal(PyObject_Call(make, positional.get(), keywords.get()));
  if (!probe) throw Break{BreakId::raises, take_error_text()};
  auto* tensor = in.arena.make<TensorValue>(Ref(), type);
  tensor->dispatching = std::make_shared<Dispatching>();
  tensor->dispatching->made_by = {Ref::borrow(make), args.positional, args.keywords};
  if (!args.keyword("dtype")) {
    // The default dtype of this moment, which the program may change before the plan makes the tensor.
    Ref dtype = Ref::steal(PyObject_GetAttrString(probe.get(), "dtype"));
    tensor->dispatching->made_by.keywords.emplace_back(Ref::steal(PyUnicode_InternFromString("dtype")),
                                                       in.constant(std::move(dtype)));
  }
  tensor->dispatching->step = in.frames.resumable_step();
  set_probe(in, tensor, std::move(probe));
  return tensor;
}

Value* return_aliased(Interpreter& in, CallArgs& args) {
  static PyObject* const describe = known_object("stator.overrides.returned_arguments");
  PyObject* func = in.constant_of(args.positional[0]);
  if (!func) throw Break{BreakId::unknown_call, "return_and_correct_aliasing of an unknown operator"};
  // (place of the viewed argument, place of the result) ..., (place, name of the returned argument) ...
  Ref told = Ref::steal(PyObject_CallOneArg(describe, func));
  if (!told) throw Break{BreakId::unknown_call, take_error_text()};
  Value* out = args.positional[3];
  const std::vector<Value*> given = in.unpack(args.positional[1]);
  const bool is_tuple = out->kind == Kind::Tuple;
  auto result = [&](long place) -> Value* {
    auto* sequence = as_sequence(out);
    if (!is_tuple) return place == 0 ? out : nullptr;
    return place < static_cast<long>(sequence->items.size()) ? in.item(sequence, static_cast<size_t>(place)) : nullptr;
  };
  auto mark = [&](Value* viewed, Value* view) {
    auto *from = as<TensorValue>(viewed), *to = as<TensorValue>(view);
    if (!from || !to || !from->dispatching || !to->dispatching || from->type != to->type ||
        !to->dispatching->made_by.callable)
      throw Break{BreakId::raises, "return_and_correct_aliasing for a view of another class"};
    to->dispatching->same_storage = from;
  };
  PyObject *views = PyTuple_GET_ITEM(told.get(), 0), *returned = PyTuple_GET_ITEM(told.get(), 1);
  for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(views); ++i) {
    const long from = PyLong_AsLong(PyTuple_GET_ITEM(PyTuple_GET_ITEM(views, i), 0));
    const long to = PyLong_AsLong(PyTuple_GET_ITEM(PyTuple_GET_ITEM(views, i), 1));
    Value* view = result(to);
    if (!view || from >= static_cast<long>(given.size()))
      throw Break{BreakId::raises, "return_and_correct_aliasing for another result"};
    if (auto* list = as_sequence(view)) {
      for (size_t k = 0; k < list->items.size(); ++k) mark(given[static_cast<size_t>(from)], in.item(list, k));
    } else {
      mark(given[static_cast<size_t>(from)], view);
    }
  }
  if (PyTuple_GET_SIZE(returned) == 0) return out;
  if (PyTuple_GET_SIZE(returned) > 1)
    throw Break{BreakId::unknown_call, "return_and_correct_aliasing for several written arguments"};
  PyObject* argument = PyTuple_GET_ITEM(returned, 0);
  const long place = PyLong_AsLong(PyTuple_GET_ITEM(argument, 0));
  if (place < static_cast<long>(given.size())) return given[static_cast<size_t>(place)];
  auto* keywords = as<DictValue>(args.positional[2]);
  Value* found = keywords ? in.dict_get(keywords, in.constant(PyTuple_GET_ITEM(argument, 1))) : nullptr;
  if (!found) throw Break{BreakId::raises, "return_and_correct_aliasing without the written argument"};
  return found;
}

}  // namespace stator::capture
