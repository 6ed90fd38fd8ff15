// str(), repr(), format() and f-strings of values.
#include <algorithm>

#include "capture/interpreter/containers/dicts.h"
#include "capture/interpreter/protocol/arguments.h"
#include "capture/interpreter/protocol/exceptions.h"
#include "capture/interpreter/protocol/mappings.h"
#include "capture/interpreter/protocol/varying_numbers.h"
#include "capture/interpreter/state/known_types.h"
#include "capture/interpreter/state/nesting.h"
#include "capture/interpreter/torch/overrides.h"
#include "capture/interpreter/torch/symbolic_numbers.h"

namespace stator::capture {
namespace {

// Conversions, as FORMAT_VALUE numbers them.
constexpr int kAsIs = 0, kStr = 1, kRepr = 2, kAscii = 3;

[[noreturn]] void unknown_text(Interpreter& in, Value* value) {
  throw Break{BreakId::unknown_object, std::string("the text of a ") + in.type_of(value)->tp_name};
}

Ref text_of(Interpreter& in, Value* value, int conversion);

Ref str_result(Interpreter& in, Value* result, const char* method) {
  PyObject* text = in.constant_of(result);
  const std::string given = in.type_of(result)->tp_name;
  if (!text && PyType_IsSubtype(in.type_of(result), &PyUnicode_Type))
    throw Break{BreakId::unknown_object, std::string(method) + " gave a text that is not known"};
  if (!text || !PyUnicode_Check(text))
    in.raise(PyExc_TypeError, method == std::string_view("__format__")
                                  ? "__format__ must return a str, not " + given
                                  : method + (" returned non-string (type " + given + ")"));
  return Ref::borrow(text);
}

/// The repr of an instance whose class inherits it from a built-in container; null for others.
Ref inherited_text(Interpreter& in, ObjectValue* object, PyObject* found) {
  static PyObject* const plain[] = {known_object("builtins.dict.__repr__"), known_object("builtins.list.__repr__"),
                                    known_object("builtins.tuple.__repr__")};
  if (found == plain[0])
    if (DictValue* dict = in.dict_part(object)) return text_of(in, dict, kRepr);
  if (found == plain[1] || found == plain[2])
    if (SequenceValue* sequence = in.list_part(object)) return text_of(in, sequence, kRepr);
  return {};
}

/// The repr of an OrderedDict or defaultdict of literals, from a real one.
Ref real_text(Interpreter& in, DictValue* dict) {
  Ref items = Ref::steal(PyDict_New());
  for (auto& [name, item] : mapping_items(in, dict)) {
    Ref key = in.literal_of(name), part = key ? in.literal_of(item) : Ref();
    if (!part || PyDict_SetItem(items.get(), key.get(), part.get()) < 0) {
      PyErr_Clear();
      return {};
    }
  }
  auto* type = reinterpret_cast<PyObject*>(dict->type);
  Ref factory = dict->type == default_dict_type() ? in.literal_of(default_factory(in, dict)) : Ref();
  if (!factory && dict->type == default_dict_type()) return {};
  Ref made = Ref::steal(factory ? PyObject_CallFunctionObjArgs(type, factory.get(), items.get(), nullptr)
                                : PyObject_CallOneArg(type, items.get()));
  Ref text = made ? Ref::steal(PyObject_Repr(made.get())) : Ref();
  PyErr_Clear();
  return text;
}

/// Calls the class's __str__ or __repr__; those of built-in exceptions are called on a real exception.
Ref object_text(Interpreter& in, ObjectValue* object, int conversion) {
  static PyObject* const names[] = {nullptr, PyUnicode_InternFromString("__str__"),
                                    PyUnicode_InternFromString("__repr__")};
  static PyObject* const object_str = known_object("builtins.object.__str__");
  in.guards.add_class(object->type);
  PyObject* found = look_up(object->type, names[conversion]);
  if (found && PyFunction_Check(found))
    return str_result(in, in.call(in.bind_descriptor(found, object->type, object, names[conversion]), {}),
                      conversion == kStr ? "__str__" : "__repr__");
  if (conversion == kStr && found == object_str) return object_text(in, object, kRepr);
  if (Ref text = inherited_text(in, object, found)) return text;
  // An external exception may be another object in the next call.
  if (is_exception_class(object->type) && !object->object) {
    Ref real = real_exception(in, object);
    Ref text = real ? Ref::steal(conversion == kStr ? PyObject_Str(real.get()) : PyObject_Repr(real.get())) : Ref();
    PyErr_Clear();
    if (text) return text;
  }
  unknown_text(in, object);
}

void append(Ref& text, const char* more) { text = Ref::steal(PyUnicode_FromFormat("%U%s", text.get(), more)); }
void append(Ref& text, const Ref& more) { text = Ref::steal(PyUnicode_Concat(text.get(), more.get())); }

/// repr of a list, tuple or dict that holds more than literals.
Ref container_text(Interpreter& in, Value* value) {
  Ref text = Ref::steal(PyUnicode_FromString(""));
  if (auto* dict = as<DictValue>(value); dict && dict->type != &PyDict_Type)
    if (Ref shown = real_text(in, dict)) return shown;
  if (auto* dict = as<DictValue>(value); dict && dict->type == &PyDict_Type) {
    const char* between = "{";
    for (auto& [key, item] : mapping_items(in, dict)) {
      append(text, between);
      append(text, text_of(in, key, kRepr));
      append(text, ": ");
      append(text, text_of(in, item, kRepr));
      between = ", ";
    }
    append(text, dict->live ? "}" : "{}");
    return text;
  }
  auto* sequence = as_sequence(value);
  if (!sequence || (sequence->type != &PyTuple_Type && sequence->type != &PyList_Type)) unknown_text(in, value);
  bool is_list = value->kind == Kind::List;
  append(text, is_list ? "[" : "(");
  for (size_t i = 0; i < sequence->items.size(); ++i) {
    if (i) append(text, ", ");
    append(text, text_of(in, in.item(sequence, i), kRepr));
  }
  append(text, is_list ? "]" : sequence->items.size() == 1 ? ",)" : ")");
  return text;
}

/// Whether a list, tuple or dict contains itself.
bool holds_itself(Interpreter& in, Value* value, std::vector<const Value*>& around) {
  auto* sequence = as_sequence(value);
  auto* dict = as<DictValue>(value);
  if (!sequence && !dict) return false;
  if (std::find(around.begin(), around.end(), value) != around.end()) return true;
  const Nesting level;
  around.push_back(value);
  bool is_cyclic = false;
  for (size_t i = 0; sequence && !is_cyclic && i < sequence->items.size(); ++i)
    is_cyclic = holds_itself(in, in.item(sequence, i), around);
  if (dict)
    for (auto& [key, item] : mapping_items(in, dict)) is_cyclic = is_cyclic || holds_itself(in, item, around);
  around.pop_back();
  return is_cyclic;
}

/// A container being shown: inside of itself it is shown as dots.
class Shown {
 public:
  explicit Shown(const Value* value) : is_again_(std::find(open_.begin(), open_.end(), value) != open_.end()) {
    open_.push_back(value);
  }
  ~Shown() { open_.pop_back(); }
  Shown(const Shown&) = delete;
  bool is_again() const { return is_again_; }

 private:
  bool is_again_;
  static inline thread_local std::vector<const Value*> open_;
};

Ref text_of(Interpreter& in, Value* value, int conversion) {
  const Nesting level;
  if (std::vector<const Value*> around; holds_itself(in, value, around)) {
    const Shown shown(value);
    if (!shown.is_again()) return container_text(in, value);
    const char* dots = value->kind == Kind::List ? "[...]" : value->kind == Kind::Dict ? "{...}" : "(...)";
    return Ref::steal(PyUnicode_FromString(dots));
  }
  if (value->kind == Kind::Tensor) throw Break{BreakId::data_exit, "a tensor is formatted as text"};
  if (value->kind == Kind::Number || value->kind == Kind::Text)
    needs_number(in, value, "in the text of something else");
  if (Ref literal = in.literal_of(value)) {
    Ref text = Ref::steal(conversion == kStr ? PyObject_Str(literal.get()) : PyObject_Repr(literal.get()));
    if (!text) raise_current(in);
    return text;
  }
  if (auto* object = as<ObjectValue>(value)) return object_text(in, object, conversion);
  // The repr of a class has no address, so that of a prototype is right.
  if (PyObject* made = in.constant_of(value); made && Py_TYPE(made)->tp_repr == PyType_Type.tp_repr) {
    Ref text = Ref::steal(PyObject_Repr(made));
    if (!text) raise_current(in);
    return text;
  }
  // An instance of a named tuple has a __repr__ in Python.
  if (auto* tuple = as_sequence(value); tuple && is_named_tuple(tuple->type)) {
    static PyObject* const repr = PyUnicode_InternFromString("__repr__");
    PyObject* found = look_up(tuple->type, repr);
    if (found && PyFunction_Check(found))
      return str_result(in, in.call(in.bind_descriptor(found, tuple->type, tuple, repr), {}), "__repr__");
  }
  return container_text(in, value);
}

/// Calls the class's __format__; that of object takes no format specification.
Value* object_format(Interpreter& in, ObjectValue* object, Value* spec) {
  static PyObject* const name = PyUnicode_InternFromString("__format__");
  static PyObject* const plain = known_object("builtins.object.__format__");
  static PyObject* const empty = PyUnicode_InternFromString("");
  in.guards.add_class(object->type);
  PyObject* found = look_up(object->type, name);
  PyObject* text = spec ? in.constant_of(spec) : empty;
  if (found == plain) {
    if (!text) unknown_text(in, object);
    if (PyUnicode_GET_LENGTH(text) != 0)
      in.raise(PyExc_TypeError,
               std::string("unsupported format string passed to ") + object->type->tp_name + ".__format__");
    return in.constant(text_of(in, object, kStr));
  }
  if (!found || !PyFunction_Check(found)) unknown_text(in, object);
  Value* method = in.bind_descriptor(found, object->type, object, name);
  Value* result = in.call(method, arguments({spec ? spec : in.constant(empty)}));
  str_result(in, result, "__format__");
  return result;
}

}  // namespace

Value* Interpreter::format(Value* value, int conversion, Value* spec) {
  if (auto* tensor = as<TensorValue>(value)) {
    // A tensor without dimensions is formatted like its element.
    bool is_plain = conversion == kAsIs && type_of(value) == TorchTracer::tensor_type() && !is_overridden(*this, value);
    if (is_plain && TorchTracer::has_no_dimensions(fake_of(tensor))) value = tensor_number(*this, tensor);
  }
  if (value->kind == Kind::Tensor) throw Break{BreakId::data_exit, "a tensor is formatted as text"};
  value = graph_number(*this, value);
  if (auto* number = as<NumberValue>(value)) return number_text(*this, number, conversion, spec);
  if (auto* sequence = as_sequence(value); sequence && !spec)
    if (Value* shown = sequence_text(*this, sequence, conversion)) return shown;
  if (value->kind == Kind::Text) {
    if (conversion > kStr || spec) needs_number(*this, value, "is formatted as text twice");
    return value;
  }
  Ref text;
  if (conversion == kAscii) {
    // ascii() escapes every character of the repr that is not ASCII.
    Ref repr = text_of(*this, value, kRepr);
    Ref bytes = Ref::steal(PyUnicode_AsEncodedString(repr.get(), "ascii", "backslashreplace"));
    text = Ref::steal(PyUnicode_FromEncodedObject(bytes.get(), "ascii", nullptr));
  } else if (conversion != kAsIs) {
    text = text_of(*this, value, conversion);
  } else if (auto* object = as<ObjectValue>(value)) {
    return object_format(*this, object, spec);
  } else {
    text = literal_of(value);
    if (!text) text = text_of(*this, value, kStr);
  }
  PyObject* format_spec = spec ? constant_of(spec) : nullptr;
  if (!spec && PyUnicode_CheckExact(text.get())) return constant(std::move(text));
  Ref made = Ref::steal(PyObject_Format(text.get(), format_spec));
  if (!made) raise_current(*this);
  return constant(std::move(made));
}

}  // namespace stator::capture
