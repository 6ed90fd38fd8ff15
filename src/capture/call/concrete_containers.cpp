// Containers, strings and patterns.
#include "capture/call/concrete_at.h"
#include "capture/pycompat/evaluation.h"
#include "capture/pycompat/objects.h"

namespace stator::capture {
using pycompat::Op;

namespace {

/// Pushes the items of an iterable so that the first is on top: `before` items, and if `after` >= 0 a list of the items
/// in the middle and `after` items.
Done unpack_into(At& at, Ref iterable, int before, int after) {
  Ref iterator = Ref::steal(PyObject_GetIter(iterable.get()));
  if (!iterator) {
    if (PyErr_ExceptionMatches(PyExc_TypeError) && !Py_TYPE(iterable.get())->tp_iter &&
        !PySequence_Check(iterable.get()))
      PyErr_Format(PyExc_TypeError, "cannot unpack non-iterable %.200s object", Py_TYPE(iterable.get())->tp_name);
    return Done::Raised;
  }
  std::vector<Ref> items;
  for (int i = 0; i < before; ++i) {
    items.push_back(Ref::steal(PyIter_Next(iterator.get())));
    if (items.back()) continue;
    if (PyErr_Occurred()) return Done::Raised;
    if (after < 0)
      PyErr_Format(PyExc_ValueError, "not enough values to unpack (expected %d, got %d)", before, i);
    else
      PyErr_Format(PyExc_ValueError, "not enough values to unpack (expected at least %d, got %d)", before + after, i);
    return Done::Raised;
  }
  if (after < 0) {
    Ref more = Ref::steal(PyIter_Next(iterator.get()));
    if (more) PyErr_Format(PyExc_ValueError, "too many values to unpack (expected %d)", before);
    if (PyErr_Occurred()) return Done::Raised;
  } else {
    Ref rest = Ref::steal(PySequence_List(iterator.get()));
    if (!rest) return Done::Raised;
    Py_ssize_t count = PyList_GET_SIZE(rest.get());
    if (count < after) {
      PyErr_Format(PyExc_ValueError, "not enough values to unpack (expected at least %d, got %zd)", before + after,
                   before + count);
      return Done::Raised;
    }
    Ref last = Ref::steal(PyList_GetSlice(rest.get(), count - after, count));
    if (!last || PyList_SetSlice(rest.get(), count - after, count, nullptr) < 0) return Done::Raised;
    items.push_back(std::move(rest));
    for (int i = 0; i < after; ++i) items.push_back(Ref::borrow(PyList_GET_ITEM(last.get(), i)));
  }
  for (size_t i = items.size(); i-- > 0;) at.push(std::move(items[i]));
  return Done::Next;
}
Done unpack_sequence(At& at) { return unpack_into(at, at.pop(), at.instr.arg, -1); }
Done unpack_ex(At& at) { return unpack_into(at, at.pop(), at.instr.arg & 0xFF, at.instr.arg >> 8); }
Done list_extend(At& at) {
  Ref more = at.pop();
  if (!Py_TYPE(more.get())->tp_iter && !PySequence_Check(more.get())) {
    PyErr_Format(PyExc_TypeError, "Value after * must be an iterable, not %.200s", Py_TYPE(more.get())->tp_name);
    return Done::Raised;
  }
  // list.extend calls __len__ or __length_hint__ of its argument, as the instruction does.
  static PyObject* const extend = PyUnicode_InternFromString("extend");
  Ref done = Ref::steal(PyObject_CallMethodOneArg(at.top(at.instr.arg), extend, more.get()));
  return status(done ? 0 : -1);
}
Done list_to_tuple(At& at) {
  Ref list = at.pop();
  return at.push_or_raise(PyList_AsTuple(list.get()));
}
Done set_update(At& at) {
  Ref more = at.pop();
  return status(pycompat::set_update(at.top(at.instr.arg), more.get()));
}
Done list_append(At& at) {
  Ref item = at.pop();
  return status(PyList_Append(at.top(at.instr.arg), item.get()));
}
Done set_add(At& at) {
  Ref item = at.pop();
  return status(PySet_Add(at.top(at.instr.arg), item.get()));
}
Done map_add(At& at) {
  Ref value = at.pop(), key = at.pop();
  return status(PyDict_SetItem(at.top(at.instr.arg), key.get(), value.get()));
}
Done dict_update(At& at) {
  Ref from = at.pop();
  if (PyDict_Update(at.top(at.instr.arg), from.get()) == 0) return Done::Next;
  if (PyErr_ExceptionMatches(PyExc_AttributeError))
    PyErr_Format(PyExc_TypeError, "'%.200s' object is not a mapping", Py_TYPE(from.get())->tp_name);
  return Done::Raised;
}
Done dict_merge(At& at) {
  Ref from = at.pop();
  return status(stator_merge_keywords(at.top(at.instr.arg + 2), at.top(at.instr.arg), from.get()));
}
Done format_value(At& at) {
  Ref spec = (at.instr.arg & 4) ? at.pop() : Ref();
  Ref value = at.pop();
  switch (at.instr.arg & 3) {
    case 1:
      value = Ref::steal(PyObject_Str(value.get()));
      break;
    case 2:
      value = Ref::steal(PyObject_Repr(value.get()));
      break;
    case 3:
      value = Ref::steal(PyObject_ASCII(value.get()));
      break;
  }
  if (!value) return Done::Raised;
  if (PyUnicode_CheckExact(value.get()) && !spec) {
    at.push(std::move(value));
    return Done::Next;
  }
  return at.push_or_raise(PyObject_Format(value.get(), spec.get()));
}
Done build_string(At& at) {
  std::vector<Ref> held = at.pop_all(at.instr.arg);
  Ref list = Ref::steal(PyList_New(at.instr.arg)), empty = Ref::steal(PyUnicode_FromString(""));
  if (!list || !empty) return Done::Raised;
  for (size_t i = 0; i < held.size(); ++i) PyList_SET_ITEM(list.get(), i, held[i].release());
  return at.push_or_raise(PyUnicode_Join(empty.get(), list.get()));
}
Done build_tuple(At& at) {
  Ref tuple = Ref::steal(PyTuple_New(at.instr.arg));
  if (!tuple) return Done::Raised;
  for (int i = at.instr.arg; i-- > 0;) PyTuple_SET_ITEM(tuple.get(), i, at.pop().release());
  at.push(std::move(tuple));
  return Done::Next;
}
Done build_list(At& at) {
  Ref list = Ref::steal(PyList_New(at.instr.arg));
  if (!list) return Done::Raised;
  for (int i = at.instr.arg; i-- > 0;) PyList_SET_ITEM(list.get(), i, at.pop().release());
  at.push(std::move(list));
  return Done::Next;
}
Done build_set(At& at) {
  std::vector<Ref> held = at.pop_all(at.instr.arg);
  Ref set = Ref::steal(PySet_New(nullptr));
  for (size_t i = 0; set && i < held.size(); ++i)
    if (PySet_Add(set.get(), held[i].get()) < 0) return Done::Raised;
  return at.push_or_raise(set.release());
}
Done build_map(At& at) {
  std::vector<Ref> held = at.pop_all(2 * at.instr.arg);
  Ref dict = Ref::steal(PyDict_New());
  for (size_t i = 0; dict && i + 1 < held.size(); i += 2)
    if (PyDict_SetItem(dict.get(), held[i].get(), held[i + 1].get()) < 0) return Done::Raised;
  return at.push_or_raise(dict.release());
}
Done get_len(At& at) {
  Py_ssize_t length = PyObject_Length(at.top());
  return length < 0 ? Done::Raised : at.push_or_raise(PyLong_FromSsize_t(length));
}
Done build_const_key_map(At& at) {
  Ref keys = at.pop();
  std::vector<Ref> held = at.pop_all(at.instr.arg);
  Ref dict = Ref::steal(PyDict_New());
  for (size_t i = 0; dict && i < held.size(); ++i)
    if (PyDict_SetItem(dict.get(), PyTuple_GET_ITEM(keys.get(), i), held[i].get()) < 0) return Done::Raised;
  return at.push_or_raise(dict.release());
}
Done build_slice(At& at) {
  Ref step = at.instr.arg == 3 ? at.pop() : Ref();
  Ref stop = at.pop(), start = at.pop();
  return at.push_or_raise(PySlice_New(start.get(), stop.get(), step.get()));
}

// ---- patterns

template <unsigned long kFlag>
Done match_flag(At& at) {
  return at.push_or_raise(PyBool_FromLong((Py_TYPE(at.top())->tp_flags & kFlag) != 0));
}

Done match_keys(At& at) {
  PyObject *keys = at.top(), *subject = at.top(2);
  Py_ssize_t count = PyTuple_GET_SIZE(keys);
  if (count == 0) return at.push_or_raise(PyTuple_New(0));
  Ref get = Ref::steal(PyObject_GetAttrString(subject, "get"));
  Ref seen = Ref::steal(PySet_New(nullptr)), missing = Ref::steal(PyObject_CallNoArgs((PyObject*)&PyBaseObject_Type));
  Ref values = Ref::steal(PyTuple_New(count));
  if (!get || !seen || !missing || !values) return Done::Raised;
  for (Py_ssize_t i = 0; i < count; ++i) {
    PyObject* key = PyTuple_GET_ITEM(keys, i);
    int known = PySet_Contains(seen.get(), key);
    if (known > 0) PyErr_Format(PyExc_ValueError, "mapping pattern checks duplicate key (%R)", key);
    if (known != 0 || PySet_Add(seen.get(), key) < 0) return Done::Raised;
    PyObject* arguments[] = {key, missing.get()};
    Ref value = Ref::steal(PyObject_Vectorcall(get.get(), arguments, 2, nullptr));
    if (!value) return Done::Raised;
    if (value.get() == missing.get()) return at.push_or_raise(Py_NewRef(Py_None));
    PyTuple_SET_ITEM(values.get(), i, value.release());
  }
  at.push(std::move(values));
  return Done::Next;
}

/// An attribute that a class pattern names; naming one twice is an error. Null without an error: the subject lacks it.
Ref pattern_attribute(PyObject* subject, PyObject* type, PyObject* name, PyObject* seen) {
  int known = PySet_Contains(seen, name);
  if (known > 0)
    PyErr_Format(PyExc_TypeError, "%s() got multiple sub-patterns for attribute %R",
                 reinterpret_cast<PyTypeObject*>(type)->tp_name, name);
  if (known != 0 || PySet_Add(seen, name) < 0) return {};
  Ref found = Ref::steal(PyObject_GetAttr(subject, name));
  if (!found && PyErr_ExceptionMatches(PyExc_AttributeError)) PyErr_Clear();
  return found;
}

/// `__match_args__` of a class. `is_self`: the class has none, and its only positional pattern matches the subject
/// itself (int, str, ...). Null with an error set.
Ref positional_names(PyObject* type, bool& is_self) {
  Ref names = Ref::steal(PyObject_GetAttrString(type, "__match_args__"));
  auto* cls = reinterpret_cast<PyTypeObject*>(type);
  if (!names) {
    if (!PyErr_ExceptionMatches(PyExc_AttributeError)) return {};
    PyErr_Clear();
    is_self = pycompat::matches_self(cls);
    return Ref::steal(PyTuple_New(0));
  }
  if (PyTuple_CheckExact(names.get())) return names;
  PyErr_Format(PyExc_TypeError, "%s.__match_args__ must be a tuple (got %s)", cls->tp_name,
               Py_TYPE(names.get())->tp_name);
  return {};
}

/// Tuple of the values that the sub-patterns of a class pattern match; null without an error: no match.
Ref match_class_values(PyObject* subject, PyObject* type, Py_ssize_t positional, PyObject* keywords) {
  if (!PyType_Check(type)) {
    PyErr_SetString(PyExc_TypeError, "called match pattern must be a class");
    return {};
  }
  if (PyObject_IsInstance(subject, type) <= 0) return {};
  Ref seen = Ref::steal(PySet_New(nullptr)), values = Ref::steal(PyList_New(0));
  auto add = [&](Ref value) { return value && PyList_Append(values.get(), value.get()) == 0; };
  if (positional > 0) {
    bool is_self = false;
    Ref names = positional_names(type, is_self);
    if (!names) return {};
    Py_ssize_t allowed = is_self ? 1 : PyTuple_GET_SIZE(names.get());
    if (allowed < positional) {
      PyErr_Format(PyExc_TypeError, "%s() accepts %zd positional sub-pattern%s (%zd given)",
                   reinterpret_cast<PyTypeObject*>(type)->tp_name, allowed, allowed == 1 ? "" : "s", positional);
      return {};
    }
    if (is_self && !add(Ref::borrow(subject))) return {};
    for (Py_ssize_t i = 0; i < positional && !is_self; ++i) {
      PyObject* name = PyTuple_GET_ITEM(names.get(), i);
      if (!PyUnicode_CheckExact(name)) {
        PyErr_Format(PyExc_TypeError, "__match_args__ elements must be strings (got %s)", Py_TYPE(name)->tp_name);
        return {};
      }
      if (!add(pattern_attribute(subject, type, name, seen.get()))) return {};
    }
  }
  for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(keywords); ++i)
    if (!add(pattern_attribute(subject, type, PyTuple_GET_ITEM(keywords, i), seen.get()))) return {};
  return Ref::steal(PyList_AsTuple(values.get()));
}
Done match_class(At& at) {
  Ref keywords = at.pop(), type = at.pop(), subject = at.pop();
  Ref values = match_class_values(subject.get(), type.get(), at.instr.arg, keywords.get());
  if (!values && PyErr_Occurred()) return Done::Raised;
  at.push(values ? std::move(values) : Ref::borrow(Py_None));
  return Done::Next;
}

constexpr ConcreteRow kRows[] = {
    {Op::BUILD_TUPLE, build_tuple},
    {Op::BUILD_LIST, build_list},
    {Op::BUILD_SET, build_set},
    {Op::BUILD_MAP, build_map},
    {Op::BUILD_CONST_KEY_MAP, build_const_key_map},
    {Op::BUILD_SLICE, build_slice},
    {Op::BUILD_STRING, build_string},
    {Op::LIST_APPEND, list_append},
    {Op::LIST_EXTEND, list_extend},
    {Op::LIST_TO_TUPLE, list_to_tuple},
    {Op::SET_ADD, set_add},
    {Op::SET_UPDATE, set_update},
    {Op::MAP_ADD, map_add},
    {Op::DICT_UPDATE, dict_update},
    {Op::DICT_MERGE, dict_merge},
    {Op::UNPACK_SEQUENCE, unpack_sequence},
    {Op::UNPACK_EX, unpack_ex},
    {Op::FORMAT_VALUE, format_value},
    {Op::GET_LEN, get_len},
    {Op::MATCH_CLASS, match_class},
    {Op::MATCH_KEYS, match_keys},
    {Op::MATCH_MAPPING, match_flag<Py_TPFLAGS_MAPPING>},
    {Op::MATCH_SEQUENCE, match_flag<Py_TPFLAGS_SEQUENCE>},
};

}  // namespace

std::span<const ConcreteRow> concrete_container_rows() { return kRows; }

}  // namespace stator::capture
