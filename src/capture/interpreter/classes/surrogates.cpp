#include "capture/interpreter/classes/surrogates.h"

#include "capture/interpreter/protocol/mappings.h"
#include "capture/interpreter/state/nesting.h"

namespace stator::capture {
namespace {

[[noreturn]] void refuse(Interpreter& in, Value* value) {
  throw Break{BreakId::unknown_object, std::string("a ") + in.type_of(value)->tp_name + " in a class that is made"};
}

Ref checked(Interpreter& in, Value* value, PyObject* made) {
  if (!made) PyErr_Clear();
  if (!made) refuse(in, value);
  return Ref::steal(made);
}

/// Gives a surrogate the attributes and items that its value has now.
void fill(Interpreter& in, PyObject* object, Value* value);

Ref function_surrogate(Interpreter& in, FunctionValue* function) {
  static PyObject* const name = PyUnicode_InternFromString("__name__");
  Ref scope = Ref::steal(PyDict_New());
  if (PyObject* module = PyDict_GetItemWithError(function->globals, name)) PyDict_SetItem(scope.get(), name, module);
  Ref made = checked(in, function, PyFunction_New(reinterpret_cast<PyObject*>(function->code), scope.get()));
  if (Py_ssize_t cells = PyCode_GetNumFree(function->code)) {
    Ref closure = Ref::steal(PyTuple_New(cells));
    for (Py_ssize_t i = 0; i < cells; ++i) PyTuple_SET_ITEM(closure.get(), i, PyCell_New(nullptr));
    PyFunction_SetClosure(made.get(), closure.get());
  }
  return made;
}

/// An instance without attributes; no code of its class runs.
Ref object_surrogate(Interpreter& in, ObjectValue* object) {
  PyTypeObject* base = object->type;
  while (base->tp_flags & Py_TPFLAGS_HEAPTYPE) base = base->tp_base;
  // While the class is made nothing reads an object that is not a descriptor: a plain object can represent it.
  if (base != &PyBaseObject_Type && !object->type->tp_descr_get && !object->type->tp_descr_set)
    return Ref::steal(PyBaseObject_Type.tp_new(&PyBaseObject_Type, Ref::steal(PyTuple_New(0)).get(), nullptr));
  if (base != &PyBaseObject_Type) refuse(in, object);
  Ref none = Ref::steal(PyTuple_New(0));
  return checked(in, object, PyBaseObject_Type.tp_new(object->type, none.get(), nullptr));
}

Ref tuple_surrogate(Interpreter& in, SequenceValue* tuple) {
  Ref made = Ref::steal(PyTuple_New(static_cast<Py_ssize_t>(tuple->items.size())));
  for (size_t i = 0; i < tuple->items.size(); ++i)
    PyTuple_SET_ITEM(made.get(), static_cast<Py_ssize_t>(i), surrogate(in, in.item(tuple, i)).release());
  if (tuple->type == &PyTuple_Type) return made;
  Ref arguments = Ref::steal(PyTuple_Pack(1, made.get()));
  return checked(in, tuple, PyTuple_Type.tp_new(tuple->type, arguments.get(), nullptr));
}

Ref new_surrogate(Interpreter& in, Value* value) {
  switch (value->kind) {
    case Kind::Function:
      return function_surrogate(in, static_cast<FunctionValue*>(value));
    case Kind::Object:
      return object_surrogate(in, static_cast<ObjectValue*>(value));
    case Kind::List:
      return Ref::steal(PyList_New(0));
    case Kind::Dict:
      return Ref::steal(PyDict_New());
    case Kind::Set:
      return Ref::steal(PySet_New(nullptr));
    case Kind::Tuple:
      return tuple_surrogate(in, static_cast<SequenceValue*>(value));
    case Kind::Null:
    case Kind::Unread:
    case Kind::Cell:
      refuse(in, value);
    default:
      return Ref::steal(PyObject_CallNoArgs(reinterpret_cast<PyObject*>(&PyBaseObject_Type)));
  }
}

void set_field(Interpreter& in, PyObject* object, PyObject* name, Value* to) {
  Ref held = surrogate(in, to);
  if (PyObject_GenericSetAttr(object, name, held.get()) < 0) PyErr_Clear();
}

void fill_function(Interpreter& in, PyObject* object, FunctionValue* function) {
  static PyObject* const name = PyUnicode_InternFromString("__name__");
  static PyObject* const qualified = PyUnicode_InternFromString("__qualname__");
  for (PyObject* field : {name, qualified}) {
    Ref text = function->function ? Ref::steal(PyObject_GetAttr(function->function.get(), field))
                                  : in.literal_of(in.get_attr(function, field));
    if (text && PyUnicode_Check(text.get())) PyObject_SetAttr(object, field, text.get());
  }
  if (!function->own) return;
  for (auto& [key, attribute] : mapping_items(in, function->own))
    if (PyObject* text = in.constant_of(key); text && PyUnicode_Check(text)) set_field(in, object, text, attribute);
}

void fill_instance(Interpreter& in, PyObject* object, ObjectValue* instance) {
  if (Py_TYPE(object) != instance->type) return;
  for (auto& [name, attribute] : instance->attributes)
    if (attribute) set_field(in, object, name.get(), attribute);
  if (!instance->own || instance->object) return;
  for (auto& [key, attribute] : mapping_items(in, instance->own))
    if (PyObject* text = in.constant_of(key); text && PyUnicode_Check(text)) set_field(in, object, text, attribute);
}

void fill(Interpreter& in, PyObject* object, Value* value) {
  switch (value->kind) {
    case Kind::Function:
      return fill_function(in, object, static_cast<FunctionValue*>(value));
    case Kind::Object:
      return fill_instance(in, object, static_cast<ObjectValue*>(value));
    case Kind::List: {
      auto* list = static_cast<SequenceValue*>(value);
      PyList_SetSlice(object, 0, PyList_GET_SIZE(object), nullptr);
      for (size_t i = 0; i < list->items.size(); ++i) PyList_Append(object, surrogate(in, in.item(list, i)).get());
      return;
    }
    case Kind::Dict:
      PyDict_Clear(object);
      for (auto& [key, item] : mapping_items(in, value)) {
        Ref literal = in.literal_of(key);
        if (literal && PyDict_SetItem(object, literal.get(), surrogate(in, item).get()) == 0) continue;
        PyErr_Clear();
        refuse(in, value);
      }
      return;
    default:
      return;
  }
}

}  // namespace

Ref surrogate(Interpreter& in, Value* value) {
  Nesting nesting;
  if (PyObject* constant = in.constant_of(value)) return Ref::borrow(constant);
  if (PyObject* known = in.prototypes.surrogate(value)) return Ref::borrow(known);
  // It is the same object in every run, such as a library's marker of a missing value.
  if (auto* object = as<ObjectValue>(value); object && object->object && object->through_dict)
    return Ref::borrow(in.need_identity(object));
  // The empty tuple is a single object.
  if (auto* tuple = as_sequence(value); tuple && tuple->type == &PyTuple_Type && tuple->items.empty())
    return Ref::steal(PyTuple_New(0));
  Ref made = new_surrogate(in, value);
  if (!made) refuse(in, value);
  in.prototypes.set_surrogate(made, value);
  fill(in, made.get(), value);
  return made;
}

void refresh_surrogates(Interpreter& in, PyTypeObject* prototype) {
  Ref names = Ref::steal(PyDict_Copy(prototype->tp_dict));
  Py_ssize_t position = 0;
  PyObject *key, *held;
  while (PyDict_Next(names.get(), &position, &key, &held))
    if (Value* value = in.prototypes.value_of(held)) fill(in, held, value);
}

}  // namespace stator::capture
