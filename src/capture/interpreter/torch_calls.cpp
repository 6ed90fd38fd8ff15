// Calls into torch's bindings on fakes.
#include "capture/guards/literals.h"
#include "capture/interpreter/handlers.h"
#include "capture/interpreter/known_types.h"
#include "capture/interpreter/numbers.h"

namespace stator::capture {

Ref Interpreter::to_torch(Value* value) {
  switch (value->kind) {
    case Kind::Tensor:
      return Ref::borrow(fake_of(static_cast<TensorValue*>(value)));
    case Kind::Constant:
      return Ref::borrow(constant_of(value));
    case Kind::Number: {
      auto* number = static_cast<NumberValue*>(value);
      // For a truth the bindings would put one of which nobody sees that it stands for another.
      bool as_tensor = numbers_as_tensors_ || number->type == &PyBool_Type;
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
  return with_numbers([&] { return call_torch_once(callable, args); });
}

Value* Interpreter::call_torch_once(PyObject* callable, const CallArgs& args) {
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

}  // namespace stator::capture
