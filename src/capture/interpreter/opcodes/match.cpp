#include "capture/interpreter/opcodes/match.h"

#include "capture/interpreter/containers/keys.h"
#include "capture/interpreter/protocol/exceptions.h"

namespace stator::capture {
namespace {

bool has_flag(Interpreter& in, Value* subject, unsigned long flag) {
  PyTypeObject* type = in.type_of(subject);
  in.guards.add_class(type);
  return type->tp_flags & flag;
}

/// Built-in classes whose only positional pattern matches the subject itself.
bool matches_self(PyTypeObject* type) {
  static PyTypeObject* const kinds[] = {&PyBool_Type,  &PyByteArray_Type, &PyBytes_Type, &PyDict_Type,
                                        &PyFloat_Type, &PyFrozenSet_Type, &PyLong_Type,  &PyList_Type,
                                        &PySet_Type,   &PyUnicode_Type,   &PyTuple_Type};
  for (PyTypeObject* kind : kinds)
    if (PyType_IsSubtype(type, kind)) return true;
  return false;
}

/// The attribute names of positional patterns, from `__match_args__`. Breaks if these are wrong: CPython raises.
std::vector<Ref> positional_names(Interpreter& in, PyTypeObject* type, size_t count) {
  static PyObject* const match_args = PyUnicode_InternFromString("__match_args__");
  Value* given = in.find_attr(in.constant(reinterpret_cast<PyObject*>(type)), match_args);
  if (given && in.type_of(given) != &PyTuple_Type) throw Break{BreakId::raises, "__match_args__ must be a tuple"};
  std::vector<Value*> items = given ? in.unpack(given) : std::vector<Value*>{};
  if (items.size() < count) throw Break{BreakId::raises, "a class pattern with too many positional patterns"};
  std::vector<Ref> names;
  for (size_t i = 0; i < count; ++i) {
    PyObject* name = in.constant_of(items[i]);
    if (!name || !PyUnicode_CheckExact(name)) throw Break{BreakId::raises, "__match_args__ elements must be strings"};
    for (const Ref& known : names)
      if (PyUnicode_Compare(known.get(), name) == 0) throw Break{BreakId::raises, "__match_args__ with a name twice"};
    names.push_back(Ref::borrow(name));
  }
  return names;
}

}  // namespace

bool matches_sequence(Interpreter& in, Value* subject) { return has_flag(in, subject, Py_TPFLAGS_SEQUENCE); }
bool matches_mapping(Interpreter& in, Value* subject) { return has_flag(in, subject, Py_TPFLAGS_MAPPING); }

Value* match_keys(Interpreter& in, Value* subject, Value* keys) {
  std::vector<Value*> values;
  Value* missing = in.arena.make<ObjectValue>(&PyBaseObject_Type);
  std::vector<Value*> wanted = in.unpack(keys);
  for (size_t i = 0; i < wanted.size(); ++i)
    for (size_t k = 0; k < i; ++k)
      if (same_key(in, wanted[k], wanted[i])) throw Break{BreakId::raises, "a mapping pattern with a key twice"};
  for (Value* key : wanted) {
    Value* value = subject->kind == Kind::Dict ? in.dict_get(static_cast<DictValue*>(subject), key)
                                               : in.call_method(subject, "get", {key, missing});
    if (!value || value == missing) return in.none();
    values.push_back(value);
  }
  return in.tuple(std::move(values));
}

Value* match_class(Interpreter& in, Value* subject, Value* cls, size_t count, Value* names) {
  PyObject* object = in.constant_of(cls);
  if (!object || !PyType_Check(object))
    throw Break{BreakId::raises, "a class pattern with something else than a class"};
  if (!in.is_instance(subject, cls)) return in.none();
  auto* type = reinterpret_cast<PyTypeObject*>(object);
  static PyObject* const match_args = PyUnicode_InternFromString("__match_args__");
  std::vector<Value*> found;
  std::vector<Ref> wanted;
  if (count == 1 && matches_self(type) && !look_up(type, match_args))
    found.push_back(subject);
  else if (count > 0)
    wanted = positional_names(in, type, count);
  for (Value* name : in.unpack(names)) {
    PyObject* text = in.constant_of(name);
    for (const Ref& known : wanted)
      if (PyUnicode_Compare(known.get(), text) == 0) throw Break{BreakId::raises, "a class pattern with a name twice"};
    wanted.push_back(Ref::borrow(text));
  }
  for (const Ref& name : wanted) {
    Value* value = attribute_or_null(in, subject, name.get());
    if (!value) return in.none();
    found.push_back(value);
  }
  return in.tuple(std::move(found));
}

}  // namespace stator::capture
