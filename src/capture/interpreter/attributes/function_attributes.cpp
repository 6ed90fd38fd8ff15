// Attributes of functions: fields that their class defines, and their `__dict__`.
#include "capture/interpreter/attributes/function_attributes.h"

#include "capture/interpreter/attributes/attributes.h"
#include "capture/interpreter/protocol/arguments.h"
#include "capture/interpreter/state/shared_dicts.h"
#include "capture/pycompat/facts.h"
#include "capture/pycompat/text.h"

namespace stator::capture {
namespace {

// Fields of a function that can be assigned; the others follow from its code and globals.
constexpr const char* kFields[] = {"__name__", "__qualname__",    "__module__",
                                   "__doc__",  "__annotations__", "__type_params__"};

bool is_field(const std::string& name) {
  for (const char* field : kFields)
    if (name == field) return true;
  return false;
}

/// The initial value of a field of a new function, which follows from its code and globals.
Value* fresh_field(Interpreter& in, FunctionValue* function, const std::string& name) {
  PyCodeObject* code = function->code;
  if (name == "__name__") return in.constant(code->co_name);
  if (name == "__qualname__") return in.constant(code->co_qualname);
  if (name == "__code__") return in.constant(reinterpret_cast<PyObject*>(code));
  if (name == "__defaults__") return function->defaults ? function->defaults : in.none();
  if (name == "__kwdefaults__") return function->kwdefaults ? function->kwdefaults : in.none();
  if (name == "__type_params__") return in.tuple({});
  if (name == "__doc__") {
    PyObject* consts = code->co_consts;
    PyObject* first = PyTuple_GET_SIZE(consts) ? PyTuple_GET_ITEM(consts, 0) : Py_None;
    return PyUnicode_Check(first) ? static_cast<Value*>(in.constant(first)) : in.none();
  }
  if (name == "__module__") {
    static PyObject* const key = PyUnicode_InternFromString("__name__");
    PyObject* module = PyDict_GetItemWithError(function->globals, key);
    if (!module) return in.none();
    return in.wrap(module, in.guards.sources().child(function->globals_source, SourceKind::DictItem, 0, key, module));
  }
  if (name == "__annotations__") {
    DictValue* annotations = in.dict();
    if (function->annotations) {
      std::vector<Value*> pairs = in.unpack(function->annotations);
      for (size_t i = 0; i + 1 < pairs.size(); i += 2) in.dict_set(annotations, pairs[i], pairs[i + 1]);
    }
    return annotations;
  }
  return nullptr;
}

/// The value of an external function's `__dict__`, if the program knows the same dict by another name too: by itself,
/// or as that of another function or instance. Null if not.
DictValue* shared_dict(Interpreter& in, FunctionValue* function) {
  PyObject* dict = nullptr;
  if (stator_instance_dict(function->function.get(), &dict) != kStatorDictObject) return nullptr;
  if (const Value* container = in.objects.container_of_dict(dict))
    break_on_shared_dict(in.guards, function->source, dict, container,
                         "an OrderedDict and a function share a __dict__");
  Value* other = in.objects.claim_dict(dict, function);
  if (!other) return nullptr;
  Source* known = other->kind == Kind::Dict ? other->source : instance_dict_source(in, other->source, dict);
  in.guards.add_same(instance_dict_source(in, function->source, dict), known, true);
  return as<DictValue>(other->kind == Kind::Dict ? other : in.wrap(dict, known));
}

}  // namespace

Value* function_attr(Interpreter& in, FunctionValue* function, PyObject* name) {
  const std::string text = exact_text_of(name);
  if (auto written = function->fields.find(text); written != function->fields.end()) return written->second;
  PyObject* on_class = look_up_attribute(&PyFunction_Type, name);
  if (on_class && !is_data_descriptor(on_class)) return in.arena.make<MethodValue>(in.constant(on_class), function);
  if (!function->function) {
    if (text == "__dict__" || !on_class) {
      if (!function->own) function->own = in.dict();
      return text == "__dict__" ? function->own : in.dict_get(function->own, in.constant(name));
    }
    Value* field = fresh_field(in, function, text);
    if (!field) unknown_attribute(&PyFunction_Type, name, "of a function made in the program");
    if (text == "__annotations__") function->fields[text] = field;
    return field;
  }
  if (function->own && !on_class)
    if (Value* found = in.dict_get(function->own, in.constant(name))) return found;
  if (!on_class)
    if (DictValue* shared = shared_dict(in, function)) return in.dict_get(shared, in.constant(name));
  Ref found = Ref::steal(PyObject_GetAttr(function->function.get(), name));
  if (!found) {
    PyErr_Clear();
    in.guards.add(function->source, FactKind::NoAttribute, name);
    return nullptr;
  }
  if (text == "__dict__") {
    PyObject** place = _PyObject_GetDictPtr(function->function.get());
    if (!place || !*place || function->own) unknown_attribute(&PyFunction_Type, name, "of a function that was changed");
    return in.wrap(*place, instance_dict_source(in, function->source, *place));
  }
  if (text == "__globals__") return in.wrap(function->globals, function->globals_source);
  return in.wrap(found.get(),
                 in.guards.sources().child(function->source, SourceKind::Attribute, kClassField, name, found.get()));
}

void set_function_attr(Interpreter& in, FunctionValue* function, PyObject* name, Value* to) {
  in.effects.refuse_frozen(function);
  const std::string text = exact_text_of(name);
  if (is_field(text)) {
    function->fields[text] = to;
  } else if (look_up_attribute(&PyFunction_Type, name)) {
    throw Break{BreakId::mutation, "attribute '" + text + "' of a function"};
  } else if (DictValue* shared = function->function ? shared_dict(in, function) : nullptr) {
    in.dict_set(shared, in.constant(name), to);
    in.mutated(shared);
    return;
  } else {
    if (!function->own) function->own = in.dict();
    in.dict_set(function->own, in.constant(name), to);
  }
  if (function->function) in.effects.add({EffectKind::SetAttr, function, in.constant(name), to});
}

}  // namespace stator::capture
