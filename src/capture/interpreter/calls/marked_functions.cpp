#include "capture/interpreter/calls/marked_functions.h"

#include "capture/guards/literals.h"
#include "capture/interpreter/protocol/arguments.h"
#include "capture/interpreter/protocol/exceptions.h"
#include "capture/pycompat/facts.h"
#include "capture/pycompat/text.h"

namespace stator::capture {

/// The function that torch.compile compiled, if this is the wrapper it returned; else null. Borrowed. A wrapper of the
/// program around that one has the same attributes, but not the same identity.
static PyObject* below_torch_compile(PyObject* function) {
  static PyObject* const id_name = PyUnicode_InternFromString("_torchdynamo_wrapper_id");
  PyObject* attributes = reinterpret_cast<PyFunctionObject*>(function)->func_dict;
  PyObject* id = attributes ? stator_dict_get_str(attributes, id_name) : nullptr;
  PyObject* inlined = id ? PyDict_GetItemString(attributes, "_torchdynamo_inline") : nullptr;
  if (!inlined || !PyLong_Check(id) || PyLong_AsVoidPtr(id) != function) {
    PyErr_Clear();
    return nullptr;
  }
  return inlined;
}

Value* substitute_of(Interpreter& in, Value* callee) {
  PyObject* object = nullptr;
  Source* source = nullptr;
  if (callee->kind == Kind::Constant) {
    object = static_cast<ConstantValue*>(callee)->object.get();
  } else if (callee->kind == Kind::Function) {
    object = static_cast<FunctionValue*>(callee)->function.get();
    source = callee->source;
  }
  if (!object || in.marks.is_unmarked(object)) return nullptr;
  if (in.marks.is_disallowed(object)) throw Break{BreakId::disabled, name_of(object) + ": disallowed in graphs"};
  Ref substitute = in.marks.substitute_of(object);
  if (!substitute && callee->kind == Kind::Function) substitute = Ref::borrow(below_torch_compile(object));
  if (!substitute) {
    in.marks.note_unmarked(object);
    return nullptr;
  }
  // While the substitute runs, its own calls of the original are not replaced.
  for (const Frame* f = in.frames.current(); f; f = f->caller)
    if (f->function && f->function->function.get() == substitute.get()) return nullptr;
  if (source) in.guards.add(source, FactKind::Identity, object);
  return in.wrap(substitute.get(), in.guards.sources().pinned(substitute.get(), "a substitute"));
}

PyObject* unless_disabled(PyObject* function) {
  static PyObject* const forbidden = PyUnicode_InternFromString("_dynamo_forbidden");
  static PyObject* const disabled = PyUnicode_InternFromString("_torchdynamo_disable");
  PyObject* attributes = reinterpret_cast<PyFunctionObject*>(function)->func_dict;
  if (attributes && stator_dict_get_str(attributes, forbidden) == Py_True)
    throw Break{BreakId::disabled, name_of(function) + ": forbidden in graphs"};
  PyObject* mark = attributes ? stator_dict_get_str(attributes, disabled) : nullptr;
  if (!mark || mark == Py_False) return nullptr;
  PyObject* module = reinterpret_cast<PyFunctionObject*>(function)->func_module;
  PyObject* original = PyDict_GetItemString(attributes, "_torchdynamo_orig_callable");
  if (original && text_of(module).starts_with("torch.optim.")) return original;
  PyObject* why = PyDict_GetItemString(attributes, "_torchdynamo_disable_msg");
  throw Break{BreakId::disabled, name_of(function) + (why && PyUnicode_Check(why) ? ": " + text_of(why) : "")};
}

Value* call_marked_constant(Interpreter& in, FunctionValue* function, const CallArgs& args) {
  auto real = [&](Value* value) -> Ref {
    if (Ref literal = in.literal_of(value)) return literal;
    auto* object = as<ObjectValue>(value);
    if (!object || !object->object || !object->attributes.empty() || !object->source)
      throw Break{BreakId::unknown_call, name_of(function->function.get()) + " on something that the program made"};
    in.guards.add(object->source, FactKind::Identity, object->object.get());
    return object->object;
  };
  in.guards.add(function->source, FactKind::Identity, function->function.get());
  Ref positional = Ref::steal(PyTuple_New(static_cast<Py_ssize_t>(args.positional.size())));
  for (size_t i = 0; i < args.positional.size(); ++i)
    PyTuple_SET_ITEM(positional.get(), static_cast<Py_ssize_t>(i), real(args.positional[i]).release());
  Ref keywords = Ref::steal(PyDict_New());
  for (auto& [name, value] : args.keywords) PyDict_SetItem(keywords.get(), name.get(), real(value).get());
  Ref result = Ref::steal(PyObject_Call(function->function.get(), positional.get(), keywords.get()));
  if (!result) raise_current(in);
  if (is_literal(result.get())) return in.constant(result);
  return in.wrap(result.get(), in.guards.sources().pinned(result.get(), "a result marked constant"));
}

bool is_marked_constant(PyObject* function) {
  PyObject* attributes = reinterpret_cast<PyFunctionObject*>(function)->func_dict;
  return attributes && PyDict_GetItemString(attributes, "_dynamo_marked_constant") == Py_True;
}

}  // namespace stator::capture
