// Arguments of calls: how models and topics read them, and calls of real functions on literals.
#include "capture/interpreter/protocol/arguments.h"

#include <algorithm>
#include <string>

#include "capture/interpreter/protocol/exceptions.h"
#include "capture/interpreter/protocol/special_methods.h"
#include "capture/interpreter/protocol/varying_numbers.h"
#include "capture/interpreter/state/known_types.h"
#include "capture/interpreter/torch/deferred_calls.h"
#include "capture/interpreter/torch/symbolic_numbers.h"
#include "capture/pycompat/text.h"

namespace stator::capture {

std::string name_text(PyObject* name) { return text_of(name); }

CallArgs arguments(std::vector<Value*> positional) {
  CallArgs args;
  args.positional = std::move(positional);
  return args;
}

Py_ssize_t index_of(Interpreter& in, Value* value) {
  static PyObject* const name = PyUnicode_InternFromString("__index__");
  // CPython uses an instance of an int subclass as it is, without calling its `__index__`.
  if (value->kind == Kind::Object && PyType_IsSubtype(in.type_of(value), &PyLong_Type))
    throw Break{BreakId::unknown_object, "an int of another class as an index"};
  const bool is_asked = value->kind == Kind::Object && look_up(in.type_of(value), name);
  if (is_asked) value = in.call(type_method(in, value, name), {});
  value = with_known_value(in, value);
  if (is_symbolic_number(value)) needs_number(in, value, "as an index");
  refuse_result(in, value);
  PyObject* object = in.constant_of(value);
  if (!object && (value->kind == Kind::Opaque || value->kind == Kind::Tensor || value->kind == Kind::Array))
    throw Break{BreakId::raises, "an index that is not an int"};
  if (is_asked && !PyType_IsSubtype(in.type_of(value), &PyLong_Type))
    in.raise(PyExc_TypeError, std::string("__index__ returned non-int (type ") + in.type_of(value)->tp_name + ")");
  if (!object || !PyIndex_Check(object))
    in.raise(PyExc_TypeError,
             std::string("'") + in.type_of(value)->tp_name + "' object cannot be interpreted as an integer");
  const Py_ssize_t index = PyNumber_AsSsize_t(object, PyExc_IndexError);
  if (index == -1 && PyErr_Occurred()) {
    PyErr_Clear();
    throw Break{BreakId::raises, "an index that is larger than any sequence"};
  }
  return index;
}

bool is_callable(Interpreter& in, Value* value) {
  if (value->kind == Kind::Function || value->kind == Kind::Method) return true;
  if (value->kind == Kind::Constant) return PyCallable_Check(in.constant_of(value));
  PyTypeObject* type = in.type_of(value);
  in.guards.add_class(type);
  return type->tp_call != nullptr;
}

std::string name_of(PyObject* callable) {
  LaterError interrupted;  // reading attributes may run signal handlers
  // Do not call a metaclass's `__getattribute__`, which may be the program's.
  getattrofunc read = PyType_Check(callable) ? PyType_Type.tp_getattro : PyObject_GetAttr;
  auto asked = [&](const char* attribute) {
    Ref key = Ref::steal(PyUnicode_InternFromString(attribute)), found = Ref::steal(read(callable, key.get()));
    if (!found && PyErr_ExceptionMatches(PyExc_AttributeError)) PyErr_Clear();
    interrupted.take();
    return found;
  };
  Ref name = asked("__qualname__"), module = asked("__module__");
  const std::string text = module && PyUnicode_Check(module.get()) ? text_of(module.get()) + "." : "";
  return text + text_of(name.get(), Py_TYPE(callable)->tp_name);
}

LiteralArgs literal_args(Interpreter& in, const CallArgs& args, bool lists) {
  LiteralArgs made{Ref::steal(PyTuple_New(args.positional.size())), Ref()};
  for (size_t i = 0; i < args.positional.size(); ++i) {
    Value* value = args.positional[i];
    const bool listed = lists && (value->kind == Kind::Iterator || value->kind == Kind::View);
    Ref literal = in.literal_of(listed ? in.list(in.unpack(value)) : value);
    if (!literal) return {};
    PyTuple_SET_ITEM(made.positional.get(), i, literal.release());
  }
  if (args.keywords.empty()) return made;
  made.keywords = Ref::steal(PyDict_New());
  for (auto& [name, value] : args.keywords) {
    Ref literal = in.literal_of(value);
    if (!literal) return {};
    PyDict_SetItem(made.keywords.get(), name.get(), literal.get());
  }
  return made;
}

/// C functions that only iterate over their arguments.
static bool takes_items(PyObject* callable) {
  static PyObject* const known[] = {known_object("builtins.str.join"), known_object("builtins.bytes.join"),
                                    known_object("builtins.bytes"),    known_object("builtins.bytearray"),
                                    known_object("math.fsum"),         known_object("math.prod"),
                                    known_object("torch.Size"),        known_object("torch.Size.__new__")};
  return std::find(std::begin(known), std::end(known), callable) != std::end(known);
}

Value* call_literal(Interpreter& in, PyObject* callable, const CallArgs& args) {
  if (Value* deferred = deferred_call(in, callable, args)) return deferred;
  for (size_t i = 0; i < args.positional.size(); ++i) {
    Value* known = with_known_value(in, args.positional[i]);
    if (known == args.positional[i]) continue;
    CallArgs with_known = args;
    with_known.positional[i] = known;
    return call_literal(in, callable, with_known);
  }
  for (Value* value : args.positional)
    if (value->kind == Kind::Tensor)
      throw Break{BreakId::data_exit, "a tensor is passed to " + name_of(callable)};
    else if (value->kind == Kind::Number || value->kind == Kind::Text)
      needs_number(in, value, "is passed to " + name_of(callable));
    else
      refuse_result(in, value);
  LiteralArgs literals = literal_args(in, args, takes_items(callable));
  if (!literals.positional)
    throw Break{BreakId::unknown_call, name_of(callable) + " with an argument that is not a literal"};
  return result_or_raise(in, PyObject_Call(callable, literals.positional.get(), literals.keywords.get()));
}

void raise_key_error(Interpreter& in, Value* key) {
  raise_exception(in, make_exception(in, reinterpret_cast<PyTypeObject*>(PyExc_KeyError), {key}), nullptr);
}

void raise_stop_iteration(Interpreter& in, Value* value) {
  auto* type = reinterpret_cast<PyTypeObject*>(PyExc_StopIteration);
  bool nothing = !value || in.is_same(value, in.none());
  raise_exception(in, make_exception(in, type, nothing ? std::vector<Value*>{} : std::vector<Value*>{value}), nullptr);
}

}  // namespace stator::capture
