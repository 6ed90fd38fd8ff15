#include "capture/interpreter/classes/made_classes.h"

#include <algorithm>
#include <unordered_set>

#include "capture/call/new_class.h"
#include "capture/guards/literals.h"
#include "capture/interpreter/attributes/attributes.h"
#include "capture/interpreter/classes/surrogates.h"
#include "capture/interpreter/protocol/arguments.h"
#include "capture/interpreter/protocol/classes.h"
#include "capture/interpreter/protocol/exceptions.h"
#include "capture/interpreter/state/known_types.h"

namespace stator::capture {
namespace {

using Objects = std::unordered_set<PyObject*>;

Objects held_by(PyTypeObject* type) {
  Objects held;
  Py_ssize_t position = 0;
  PyObject *key, *value;
  while (PyDict_Next(type->tp_dict, &position, &key, &value)) held.insert(value);
  return held;
}

/// The values of an instance's slots and of its `__dict__`, by name.
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

/// Library code that ran on a prototype changed a surrogate in it. From now on the object represents no value: it
/// belongs to the prototype. Breaks if a frame of the program still holds the value that it represented.
void detach(Interpreter& in, const Ref& object) {
  Value* value = in.prototypes.value_of(object.get());
  for (Frame* frame = in.frames.current(); frame; frame = frame->caller)
    for (const auto* values : {&frame->locals, &frame->stack})
      if (std::find(values->begin(), values->end(), value) != values->end())
        throw Break{BreakId::mutation, "an object that a decorator of its class changes"};
  in.prototypes.set_surrogate(object, nullptr);
}

/// Arguments of a call, as surrogates.
struct SurrogateArgs {
  Ref positional, keywords;
};
SurrogateArgs surrogate_args(Interpreter& in, PyObject* first, const CallArgs& args, Objects& given) {
  SurrogateArgs made{Ref::steal(PyList_New(0)), Ref::steal(PyDict_New())};
  if (first) PyList_Append(made.positional.get(), first);
  for (Value* value : args.positional) {
    Ref object = surrogate(in, value);
    given.insert(object.get());
    PyList_Append(made.positional.get(), object.get());
  }
  for (auto& [name, value] : args.keywords) {
    Ref object = surrogate(in, value);
    given.insert(object.get());
    PyDict_SetItem(made.keywords.get(), name.get(), object.get());
  }
  made.positional = Ref::steal(PyList_AsTuple(made.positional.get()));
  return made;
}

/// Removes a prototype from its base's list of subclasses, so that code outside the capture can't see it. The prototype
/// then misses changes of the base; a capture makes none.
void forget_subclass(PyTypeObject* base, PyTypeObject* type) {
  auto* table = static_cast<PyObject*>(base->tp_subclasses);
  if (!(base->tp_flags & Py_TPFLAGS_HEAPTYPE) || !table || !PyDict_CheckExact(table)) return;
  Ref key = Ref::steal(PyLong_FromVoidPtr(type));
  if (!key || PyDict_DelItem(table, key.get()) < 0) PyErr_Clear();
}

/// Whether these are the globals of a module, and not of code that a library generated for one class.
bool is_of_module(PyObject* globals) {
  PyObject* name = PyDict_GetItemString(globals, "__name__");
  Ref module = name && PyUnicode_Check(name) ? Ref::steal(PyImport_GetModule(name)) : Ref();
  PyErr_Clear();
  return module && PyModule_Check(module.get()) && PyModule_GetDict(module.get()) == globals;
}

/// Makes the capture the owner of an object in a prototype that is not the program's. It then also owns the functions
/// in a method or property, and the globals of a function whose code a library generated.
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

/// Makes the capture the owner of those attributes of the prototype that are not in `given`, the program's objects.
void own_attributes(Interpreter& in, PyTypeObject* prototype, const Objects& given) {
  for (PyObject* held : held_by(prototype))
    if (!given.contains(held)) own(in, held);
  in.prototypes.own(Ref::borrow(prototype->tp_dict));
}

}  // namespace

Value* make_by_call(Interpreter& in, Ref callable, const CallArgs& args) {
  Objects given;
  SurrogateArgs objects = surrogate_args(in, nullptr, args, given);
  Ref made = Ref::steal(PyObject_Call(callable.get(), objects.positional.get(), objects.keywords.get()));
  if (!made) raise_current(in);
  Prototype& prototype = in.prototypes.add(made);
  prototype.step = in.frames.resumable_step();
  prototype.made_by = {std::move(callable), args.positional, args.keywords};
  if (PyType_Check(made.get())) own_attributes(in, made.as<PyTypeObject>(), given);
  return in.constant(std::move(made));
}

Prototype& make_by_statement(Interpreter& in, Ref metaclass, const Statement& statement) {
  Objects given;
  const Ref names = Ref::steal(PyDict_New());
  for (auto& [key, value] : statement.names) {
    Ref object = surrogate(in, value);
    given.insert(object.get());
    PyDict_SetItem(names.get(), in.constant_of(key), object.get());
  }
  const Ref bases = surrogate(in, statement.bases);
  Ref made = new_class(metaclass.as<PyTypeObject>(), in.constant_of(statement.name), bases.get(), names.get());
  if (!made && has_subclass_hook(bases.get())) throw Break{BreakId::raises, take_error_text()};
  if (!made) raise_current(in);
  auto* type = made.as<PyTypeObject>();
  for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(type->tp_bases); ++i)
    forget_subclass(reinterpret_cast<PyTypeObject*>(PyTuple_GET_ITEM(type->tp_bases, i)), type);
  Prototype& prototype = in.prototypes.add(std::move(made));
  prototype.step = in.frames.resumable_step();
  prototype.is_statement = true;
  prototype.made_by = {std::move(metaclass), {statement.name, statement.bases}, {}};
  prototype.names = statement.names;
  own_attributes(in, type, given);
  return prototype;
}

void change_prototype(Interpreter& in, Prototype& prototype, Ref callable, const CallArgs& rest) {
  auto* type = prototype.object.as<PyTypeObject>();
  // The call changes the class: what the capture has read of its dict is outdated.
  if (auto* names = in.objects.contains(type->tp_dict) ? as<DictValue>(in.wrap(type->tp_dict, nullptr)) : nullptr) {
    names->entries.clear();
    names->index.clear();
    names->live = 0;
  }
  refresh_surrogates(in, type);
  Objects given = held_by(type);
  std::vector<Ref> before;
  for (PyObject* held : given)
    if (Value* value = in.prototypes.value_of(held); value && value->kind == Kind::Object)
      before.push_back(Ref::borrow(held)), before.push_back(fields_of(held));
  SurrogateArgs objects = surrogate_args(in, prototype.object.get(), rest, given);
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
  PyObject* on_meta = look_up(Py_TYPE(type), name);
  bool is_written = !on_meta || !is_data_descriptor(on_meta);
  for (const char* field : kWritten) is_written = is_written || name_text(name) == field;
  if (!is_written) throw Break{BreakId::mutation, "attribute '" + name_text(name) + "' of a class"};
  CallArgs args;
  args.positional = {in.constant(name)};
  if (to) args.positional.push_back(to);
  change_prototype(in, prototype, Ref::borrow(to ? write : remove), args);
}

}  // namespace stator::capture
