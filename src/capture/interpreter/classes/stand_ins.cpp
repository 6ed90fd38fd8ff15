#include "capture/interpreter/classes/stand_ins.h"

#include <algorithm>
#include <unordered_set>

#include "capture/call/new_class.h"
#include "capture/guards/literals.h"
#include "capture/interpreter/attributes/attributes.h"
#include "capture/interpreter/containers/dicts.h"
#include "capture/interpreter/exceptions.h"
#include "capture/interpreter/known_types.h"
#include "capture/interpreter/models/model.h"
#include "capture/interpreter/nesting.h"

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

/// The attributes and items of a stand-in, as its value has them by now.
void fill(Interpreter& in, PyObject* object, Value* value);

Ref function_stand_in(Interpreter& in, FunctionValue* function) {
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

/// A bare instance, of which no code is run.
Ref object_stand_in(Interpreter& in, ObjectValue* object) {
  PyTypeObject* base = object->type;
  while (base->tp_flags & Py_TPFLAGS_HEAPTYPE) base = base->tp_base;
  // Nobody asks what has no say in how it is found.
  if (base != &PyBaseObject_Type && !object->type->tp_descr_get && !object->type->tp_descr_set)
    return Ref::steal(PyBaseObject_Type.tp_new(&PyBaseObject_Type, Ref::steal(PyTuple_New(0)).get(), nullptr));
  if (base != &PyBaseObject_Type) refuse(in, object);
  Ref none = Ref::steal(PyTuple_New(0));
  return checked(in, object, PyBaseObject_Type.tp_new(object->type, none.get(), nullptr));
}

Ref tuple_stand_in(Interpreter& in, SequenceValue* tuple) {
  Ref made = Ref::steal(PyTuple_New(static_cast<Py_ssize_t>(tuple->items.size())));
  for (size_t i = 0; i < tuple->items.size(); ++i)
    PyTuple_SET_ITEM(made.get(), static_cast<Py_ssize_t>(i), stand_in(in, in.item(tuple, i)).release());
  if (tuple->type == &PyTuple_Type) return made;
  Ref arguments = Ref::steal(PyTuple_Pack(1, made.get()));
  return checked(in, tuple, PyTuple_Type.tp_new(tuple->type, arguments.get(), nullptr));
}

Ref new_stand_in(Interpreter& in, Value* value) {
  switch (value->kind) {
    case Kind::Function:
      return function_stand_in(in, static_cast<FunctionValue*>(value));
    case Kind::Object:
      return object_stand_in(in, static_cast<ObjectValue*>(value));
    case Kind::List:
      return Ref::steal(PyList_New(0));
    case Kind::Dict:
      return Ref::steal(PyDict_New());
    case Kind::Set:
      return Ref::steal(PySet_New(nullptr));
    case Kind::Tuple:
      return tuple_stand_in(in, static_cast<SequenceValue*>(value));
    case Kind::Null:
    case Kind::Unread:
    case Kind::Cell:
      refuse(in, value);
    default:
      return Ref::steal(PyObject_CallNoArgs(reinterpret_cast<PyObject*>(&PyBaseObject_Type)));
  }
}

void set_field(Interpreter& in, PyObject* object, PyObject* name, Value* to) {
  Ref held = stand_in(in, to);
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
      for (size_t i = 0; i < list->items.size(); ++i) PyList_Append(object, stand_in(in, in.item(list, i)).get());
      return;
    }
    case Kind::Dict:
      PyDict_Clear(object);
      for (auto& [key, item] : mapping_items(in, value)) {
        Ref literal = in.literal_of(key);
        if (literal && PyDict_SetItem(object, literal.get(), stand_in(in, item).get()) == 0) continue;
        PyErr_Clear();
        refuse(in, value);
      }
      return;
    default:
      return;
  }
}

using Objects = std::unordered_set<PyObject*>;

Objects held_by(PyTypeObject* type) {
  Objects held;
  Py_ssize_t position = 0;
  PyObject *key, *value;
  while (PyDict_Next(type->tp_dict, &position, &key, &value)) held.insert(value);
  return held;
}

/// What an instance has in its slots and its `__dict__`, by name.
Ref fields_of(PyObject* object) {
  Ref fields = Ref::steal(PyDict_New());
  PyObject *key, *value;
  PyObject* mro = Py_TYPE(object)->tp_mro;
  for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(mro); ++i) {
    PyObject* names = reinterpret_cast<PyTypeObject*>(PyTuple_GET_ITEM(mro, i))->tp_dict;
    for (Py_ssize_t position = 0; names && PyDict_Next(names, &position, &key, &value);) {
      if (Py_TYPE(value) != &PyMemberDescr_Type) continue;
      Ref held = Ref::steal(PyMemberDescr_Type.tp_descr_get(value, object, nullptr));
      if (!held) PyErr_Clear();
      if (held) PyDict_SetItem(fields.get(), key, held.get());
    }
  }
  Ref own = Py_TYPE(object)->tp_dictoffset ? Ref::steal(PyObject_GenericGetDict(object, nullptr)) : Ref();
  if (!own) PyErr_Clear();
  if (own) PyDict_Update(fields.get(), own.get());
  return fields;
}

bool same_fields(PyObject* a, PyObject* b) {
  if (PyDict_GET_SIZE(a) != PyDict_GET_SIZE(b)) return false;
  PyObject *key, *value;
  for (Py_ssize_t position = 0; PyDict_Next(a, &position, &key, &value);)
    if (PyDict_GetItemWithError(b, key) != value) return false;
  return true;
}

/// An object that a library changed on its way into the class is what the class has of it from now on. The program
/// must not have another way to it.
void detach(Interpreter& in, const Ref& object) {
  Value* value = in.prototypes.value_of(object.get());
  for (Frame* frame = in.frame; frame; frame = frame->caller)
    for (const auto* values : {&frame->locals, &frame->stack})
      if (std::find(values->begin(), values->end(), value) != values->end())
        throw Break{BreakId::mutation, "an object that a decorator of its class changes"};
  in.prototypes.stand_for(object, nullptr);
}

/// Arguments as the objects that stand for them.
struct StandInArgs {
  Ref positional, keywords;
};
StandInArgs stand_in_args(Interpreter& in, PyObject* first, const CallArgs& args, Objects& given) {
  StandInArgs made{Ref::steal(PyList_New(0)), Ref::steal(PyDict_New())};
  if (first) PyList_Append(made.positional.get(), first);
  for (Value* value : args.positional) {
    Ref object = stand_in(in, value);
    given.insert(object.get());
    PyList_Append(made.positional.get(), object.get());
  }
  for (auto& [name, value] : args.keywords) {
    Ref object = stand_in(in, value);
    given.insert(object.get());
    PyDict_SetItem(made.keywords.get(), name.get(), object.get());
  }
  made.positional = Ref::steal(PyList_AsTuple(made.positional.get()));
  return made;
}

/// A class that nobody is to see is none of its base's. (It does not hear of changes of the base any more; a capture
/// makes none.)
void forget_subclass(PyTypeObject* base, PyTypeObject* type) {
  auto* table = static_cast<PyObject*>(base->tp_subclasses);
  if (!(base->tp_flags & Py_TPFLAGS_HEAPTYPE) || !table || !PyDict_CheckExact(table)) return;
  Ref key = Ref::steal(PyLong_FromVoidPtr(type));
  if (!key || PyDict_DelItem(table, key.get()) < 0) PyErr_Clear();
}

/// Whether these are the globals of a module, and not of code that a library wrote for one class.
bool is_of_module(PyObject* globals) {
  PyObject* name = PyDict_GetItemString(globals, "__name__");
  Ref module = name && PyUnicode_Check(name) ? Ref::steal(PyImport_GetModule(name)) : Ref();
  PyErr_Clear();
  return module && PyModule_Check(module.get()) && PyModule_GetDict(module.get()) == globals;
}

void own(Interpreter& in, PyObject* object) {
  static constexpr const char* kParts[] = {"__func__", "fget", "fset", "fdel"};
  if (is_literal(object) || PyType_Check(object) || in.prototypes.value_of(object)) return;
  in.prototypes.own(Ref::borrow(object));
  if (PyFunction_Check(object)) {
    PyObject* globals = PyFunction_GET_GLOBALS(object);
    if (!is_of_module(globals)) in.prototypes.own(Ref::borrow(globals));
    return;
  }
  PyTypeObject* type = Py_TYPE(object);
  if (type != &PyStaticMethod_Type && type != &PyClassMethod_Type && type != &PyProperty_Type) return;
  for (const char* part : kParts) {
    Ref held = Ref::steal(PyObject_GetAttrString(object, part));
    PyErr_Clear();
    if (held) own(in, held.get());
  }
}

/// What a prototype has by now, and did not get from the program, is its own.
void own_attributes(Interpreter& in, PyTypeObject* prototype, const Objects& given) {
  for (PyObject* held : held_by(prototype))
    if (!given.contains(held)) own(in, held);
  in.prototypes.own(Ref::borrow(prototype->tp_dict));
}

}  // namespace

Ref stand_in(Interpreter& in, Value* value) {
  Nesting nesting;
  if (PyObject* constant = in.constant_of(value)) return Ref::borrow(constant);
  if (PyObject* known = in.prototypes.stand_in(value)) return Ref::borrow(known);
  // The same one in every run, such as what a library marks a missing value by.
  if (auto* object = as<ObjectValue>(value); object && object->object && object->pinned) return object->object;
  // There is only one empty tuple.
  if (auto* tuple = as_sequence(value); tuple && tuple->type == &PyTuple_Type && tuple->items.empty())
    return Ref::steal(PyTuple_New(0));
  Ref made = new_stand_in(in, value);
  if (!made) refuse(in, value);
  in.prototypes.stand_for(made, value);
  fill(in, made.get(), value);
  return made;
}

void refresh_stand_ins(Interpreter& in, PyTypeObject* prototype) {
  Ref names = Ref::steal(PyDict_Copy(prototype->tp_dict));
  Py_ssize_t position = 0;
  PyObject *key, *held;
  while (PyDict_Next(names.get(), &position, &key, &held))
    if (Value* value = in.prototypes.value_of(held)) fill(in, held, value);
}

Value* make_by_call(Interpreter& in, Ref callable, const CallArgs& args) {
  Objects given;
  StandInArgs objects = stand_in_args(in, nullptr, args, given);
  Ref made = Ref::steal(PyObject_Call(callable.get(), objects.positional.get(), objects.keywords.get()));
  if (!made) raise_current(in);
  Prototype& prototype = in.prototypes.add(made);
  prototype.step = in.resumable_step();
  prototype.made_by = {std::move(callable), args.positional, args.keywords};
  if (PyType_Check(made.get())) own_attributes(in, made.as<PyTypeObject>(), given);
  return in.constant(std::move(made));
}

Prototype& make_by_statement(Interpreter& in, Ref metaclass, const Statement& statement) {
  Objects given;
  const Ref names = Ref::steal(PyDict_New());
  for (auto& [key, value] : statement.names) {
    Ref object = stand_in(in, value);
    given.insert(object.get());
    PyDict_SetItem(names.get(), in.constant_of(key), object.get());
  }
  const Ref bases = stand_in(in, statement.bases);
  Ref made = new_class(metaclass.as<PyTypeObject>(), in.constant_of(statement.name), bases.get(), names.get());
  if (!made && tells_bases(bases.get())) throw Break{BreakId::raises, take_error_text()};
  if (!made) raise_current(in);
  auto* type = made.as<PyTypeObject>();
  for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(type->tp_bases); ++i)
    forget_subclass(reinterpret_cast<PyTypeObject*>(PyTuple_GET_ITEM(type->tp_bases, i)), type);
  Prototype& prototype = in.prototypes.add(std::move(made));
  prototype.step = in.resumable_step();
  prototype.is_statement = true;
  prototype.made_by = {std::move(metaclass), {statement.name, statement.bases}, {}};
  prototype.names = statement.names;
  own_attributes(in, type, given);
  return prototype;
}

void change_prototype(Interpreter& in, Prototype& prototype, Ref callable, const CallArgs& rest) {
  auto* type = prototype.object.as<PyTypeObject>();
  // What was known of its names is looked up anew.
  if (auto* names = in.has_seen(type->tp_dict) ? as<DictValue>(in.wrap(type->tp_dict, nullptr)) : nullptr) {
    names->entries.clear();
    names->index.clear();
    names->live = 0;
  }
  refresh_stand_ins(in, type);
  Objects given = held_by(type);
  std::vector<Ref> before;
  for (PyObject* held : given)
    if (Value* value = in.prototypes.value_of(held); value && value->kind == Kind::Object)
      before.push_back(Ref::borrow(held)), before.push_back(fields_of(held));
  StandInArgs objects = stand_in_args(in, prototype.object.get(), rest, given);
  const Ref done = Ref::steal(PyObject_Call(callable.get(), objects.positional.get(), objects.keywords.get()));
  if (!done) raise_current(in);
  prototype.changes.push_back({std::move(callable), rest.positional, rest.keywords});
  for (size_t i = 0; i < before.size(); i += 2)
    if (Ref after = fields_of(before[i].get()); !same_fields(before[i + 1].get(), after.get())) detach(in, before[i]);
  own_attributes(in, type, given);
}

void set_prototype_attr(Interpreter& in, Prototype& prototype, PyObject* name, Value* to) {
  static PyObject* const write = known_object("builtins.type.__setattr__");
  static PyObject* const remove = known_object("builtins.type.__delattr__");
  static constexpr const char* kWritten[] = {"__name__", "__qualname__", "__doc__", "__module__", "__annotations__"};
  auto* type = prototype.object.as<PyTypeObject>();
  PyObject* on_meta = _PyType_Lookup(Py_TYPE(type), name);
  bool is_written = !on_meta || !is_data_descriptor(on_meta);
  for (const char* field : kWritten) is_written = is_written || text_of(name) == field;
  if (!is_written) throw Break{BreakId::mutation, "attribute '" + text_of(name) + "' of a class"};
  CallArgs args;
  args.positional = {in.constant(name)};
  if (to) args.positional.push_back(to);
  change_prototype(in, prototype, Ref::borrow(to ? write : remove), args);
}

}  // namespace stator::capture
