// Calls into torch's bindings on fakes.
#include "capture/guards/literals.h"
#include "capture/interpreter/protocol/arguments.h"
#include "capture/interpreter/protocol/mappings.h"
#include "capture/interpreter/protocol/models.h"
#include "capture/interpreter/protocol/varying_numbers.h"
#include "capture/interpreter/state/nesting.h"
#include "capture/interpreter/torch/overrides.h"
#include "capture/interpreter/torch/symbolic_numbers.h"
#include "capture/interpreter/torch/trial.h"
#include "capture/pycompat/text.h"

namespace stator::capture {

Ref Interpreter::to_torch(Value* value) {
  const Nesting level;
  value = graph_number(*this, value);
  switch (value->kind) {
    case Kind::Tensor: {
      auto* tensor = static_cast<TensorValue*>(value);
      PyObject* fake = fake_of(tensor);
      if (torch.scope.query) torch.scope.query->probe_argument(tensor, fake);
      return Ref::borrow(fake);
    }
    case Kind::Constant: {
      PyObject* object = constant_of(value);
      if (torch.scope.query) torch.scope.query->note(object, value);
      return Ref::borrow(object);
    }
    case Kind::Number: {
      auto* number = static_cast<NumberValue*>(value);
      if (torch.scope.query && number->type == &PyBool_Type)
        needs_number(*this, number, "is an argument that a class or a mode is asked about");
      // The bindings convert a symbolic bool to a plain one, which would not be recorded.
      bool as_tensor = torch.scope.gives_numbers_as_tensors || number->type == &PyBool_Type;
      if (torch.scope.query && !as_tensor) torch.scope.query->note(number->symbol.get(), value);
      return as_tensor ? Ref::borrow(number_fake(*this, number)) : number->symbol;
    }
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
      if (torch.scope.query) torch.scope.query->note(made.get(), value);
      return made;
    }
    case Kind::Dict: {
      Ref made = Ref::steal(PyDict_New());
      for (auto& [key, part] : mapping_items(*this, value)) {
        Ref k = to_torch(key), v = to_torch(part);
        PyDict_SetItem(made.get(), k.get(), v.get());
      }
      if (torch.scope.query) torch.scope.query->note(made.get(), value);
      return made;
    }
    case Kind::Slice: {
      auto* slice = static_cast<SliceValue*>(value);
      Ref a = to_torch(slice->start), b = to_torch(slice->stop), c = to_torch(slice->step);
      Ref made = Ref::steal(PySlice_New(a.get(), b.get(), c.get()));
      if (torch.scope.query) torch.scope.query->note(made.get(), value);
      return made;
    }
    case Kind::Iterator:
      if (torch.scope.query)
        throw Break{BreakId::unknown_object, "an iterator passed to a torch function that an override handles"};
      return to_torch(list(unpack(value)));
    case Kind::Object:
      if (torch.scope.query) return torch.scope.query->probe_argument(value);
      [[fallthrough]];
    default:
      throw Break{BreakId::unknown_object, std::string("a ") + type_of(value)->tp_name + " as an argument of torch"};
  }
}

/// For messages. Points into `kept`, or at a constant.
static const char* short_name(PyObject* callable, std::string& kept) {
  if (PyCFunction_Check(callable)) return reinterpret_cast<PyCFunctionObject*>(callable)->m_ml->ml_name;
  if (Py_TYPE(callable) == &PyMethodDescr_Type)
    return reinterpret_cast<PyMethodDescrObject*>(callable)->d_method->ml_name;
  if (PyFunction_Check(callable))
    return (kept = text_of(reinterpret_cast<PyFunctionObject*>(callable)->func_name)).c_str();
  return kOperator;
}

Value* Interpreter::call_torch(PyObject* callable, const CallArgs& args) {
  std::span<Value* const> values = args.positional;
  std::vector<Value*> all;
  Ref names;
  if (!args.keywords.empty()) {
    all = args.positional;
    names = Ref::steal(PyTuple_New(static_cast<Py_ssize_t>(args.keywords.size())));
    for (size_t i = 0; i < args.keywords.size(); ++i) {
      PyTuple_SET_ITEM(names.get(), static_cast<Py_ssize_t>(i), Ref(args.keywords[i].first).release());
      all.push_back(args.keywords[i].second);
    }
    values = all;
  }
  bool overridden = may_be_overridden(*this, args) && is_overridden(*this, values);
  std::optional<OverridesDisabled> inside;
  if (overridden && !is_overridable(callable)) {
    // The functions that it calls would be overridden in turn.
    if (!PyCFunction_Check(callable))
      throw Break{BreakId::unknown_call, name_of(callable) + ", and what it calls may be overridden"};
    inside.emplace(*this);
    overridden = false;
  }
  auto call = [&](PyObject* const* objects) {
    if (!args.is_spread || names || !PyCFunction_Check(callable))
      return PyObject_Vectorcall(callable, objects, args.positional.size(), names.get());
    // For `f(**{})` a C function gets an empty dict, and so does the `__torch_function__`.
    Ref positional = Ref::steal(PyTuple_New(static_cast<Py_ssize_t>(values.size()))), none = Ref::steal(PyDict_New());
    for (size_t i = 0; i < values.size(); ++i)
      PyTuple_SET_ITEM(positional.get(), static_cast<Py_ssize_t>(i), Ref::borrow(objects[i]).release());
    return PyObject_Call(callable, positional.get(), none.get());
  };
  std::string kept;
  return apply(values, {short_name(callable, kept), values, names.get()}, call, overridden);
}

}  // namespace stator::capture
