// The words of each kind of check (columns `words` of source_kinds.def and guard_kinds.def). word_pass.h says why the
// words may be read, and why unchanged words imply the same answer.
#include <algorithm>

#include "capture/guards/word_pass.h"

// After Python.h, which it does not include.
#include <structmember.h>

namespace stator::capture {
namespace {

bool no_words(const Check&, WordRecorder&) { return false; }

PyFunctionObject* function_at(WordRecorder& to, int32_t slot) {
  return reinterpret_cast<PyFunctionObject*>(to.at(slot));
}

// ---- loads

/// Whether earlier words imply which object the parent is, and its class, so that a field of it may be read.
bool follows(const Check& c, WordRecorder& to) { return to.is_placed(c.from) && to.is_typed(c.from); }

/// The words written so far imply which object the slot gets.
bool placed(const Check& c, WordRecorder& to) {
  to.set_placed(c.slot);
  return true;
}

bool argument_words(const Check& c, WordRecorder& to) {
  const bool is_placed = to.is_fixed(c.slot) || to.is_recurring(c.slot);
  to.root(c.slot, c.count, is_placed ? to.at(c.slot) : nullptr, !to.is_fixed(c.slot));
  if (is_placed) to.set_placed(c.slot);
  return true;
}

bool function_words(const Check& c, WordRecorder& to) {
  to.set_typed(c.slot);  // a compiled function is always a plain Python function
  return placed(c, to);
}

bool instance_dict_words(const Check& c, WordRecorder& to) {
  PyObject* owner = to.at(c.from);
  if (!follows(c, to)) return false;
  // If instances of a class differ in size, the offset of __dict__ differs too.
  if (Py_TYPE(owner)->tp_itemsize != 0 && !to.is_fixed(c.from)) return false;
  PyObject** place = _PyObject_GetDictPtr(owner);
  if (!place || *place != to.at(c.slot)) return false;
  to.word(place);
  to.set_typed(c.slot);  // CPython accepts only dicts as a __dict__
  return placed(c, to);
}

/// The parent is pinned, and keeps its dict for ever.
bool class_dict_words(const Check& c, WordRecorder& to) {
  if (!to.is_placed(c.from)) return false;
  to.set_typed(c.slot);
  return placed(c, to);
}

bool dict_item_words(const Check& c, WordRecorder& to) {
  PyObject* dict = to.at(c.from);
  if (!follows(c, to) || !PyDict_Check(dict) || !stator_dict_tag_place(dict)) return false;
  to.word(stator_dict_tag_place(dict));
  return placed(c, to);
}

/// The address of a field that a descriptor of the class reads (a slot, a member of a C class, a function's code), or
/// null.
PyObject** field_place(PyObject* owner, PyObject* name) {
  if (PyFunction_Check(owner) && PyUnicode_CompareWithASCIIString(name, "__code__") == 0)
    return &reinterpret_cast<PyFunctionObject*>(owner)->func_code;
  PyObject* found = _PyType_Lookup(Py_TYPE(owner), name);
  if (!found || !Py_IS_TYPE(found, &PyMemberDescr_Type)) return nullptr;
  const PyMemberDef* member = reinterpret_cast<PyMemberDescrObject*>(found)->d_member;
  if (member->type != T_OBJECT && member->type != T_OBJECT_EX) return nullptr;
  return reinterpret_cast<PyObject**>(reinterpret_cast<char*>(owner) + member->offset);
}

bool attribute_words(const Check& c, WordRecorder& to) {
  if (!follows(c, to) || c.count != kClassField) return false;
  PyObject** place = field_place(to.at(c.from), c.object);
  if (!place || *place != to.at(c.slot)) return false;
  to.word(place);
  return placed(c, to);
}

bool item_words(const Check& c, WordRecorder& to) {
  PyObject* from = to.at(c.from);
  if (!follows(c, to)) return false;
  if (PyTuple_Check(from)) {
    if (!to.is_fixed(c.from)) {
      to.word(&reinterpret_cast<PyVarObject*>(from)->ob_size);
      to.word(reinterpret_cast<PyTupleObject*>(from)->ob_item + c.count);
    }
    return placed(c, to);
  }
  if (!PyList_Check(from)) return false;
  to.word(&reinterpret_cast<PyVarObject*>(from)->ob_size);
  to.word(&reinterpret_cast<PyListObject*>(from)->ob_item);
  to.word(reinterpret_cast<PyListObject*>(from)->ob_item + c.count);
  return placed(c, to);
}

bool cell_words(const Check& c, WordRecorder& to) {
  if (!follows(c, to)) return false;
  to.word(&function_at(to, c.from)->func_closure);
  to.word(reinterpret_cast<PyTupleObject*>(PyFunction_GET_CLOSURE(to.at(c.from)))->ob_item + c.count);
  to.set_typed(c.slot);  // closures contain only cells
  return placed(c, to);
}

bool cell_contents_words(const Check& c, WordRecorder& to) {
  if (!follows(c, to)) return false;
  to.word(&reinterpret_cast<PyCellObject*>(to.at(c.from))->ob_ref);
  return placed(c, to);
}

bool default_words(const Check& c, WordRecorder& to) {
  if (!follows(c, to)) return false;
  to.word(&function_at(to, c.from)->func_defaults);
  if (to.holds_defaults(c.from)) return placed(c, to);
  PyObject* defaults = PyFunction_GET_DEFAULTS(to.at(c.from));
  to.word(&reinterpret_cast<PyVarObject*>(defaults)->ob_size);
  to.word(reinterpret_cast<PyTupleObject*>(defaults)->ob_item + c.count);
  return placed(c, to);
}

bool kwdefault_words(const Check& c, WordRecorder& to) {
  if (!follows(c, to)) return false;
  PyObject* defaults = PyFunction_GET_KW_DEFAULTS(to.at(c.from));
  if (!stator_dict_tag_place(defaults)) return false;
  to.word(&function_at(to, c.from)->func_kwdefaults);
  to.word(stator_dict_tag_place(defaults));
  return placed(c, to);
}

bool bound_function_words(const Check& c, WordRecorder& to) {
  if (!follows(c, to)) return false;
  if (!to.is_fixed(c.from)) to.word(&reinterpret_cast<PyMethodObject*>(to.at(c.from))->im_func);
  return placed(c, to);
}

bool bound_self_words(const Check& c, WordRecorder& to) {
  if (!follows(c, to)) return false;
  PyObject* method = to.at(c.from);
  if (PyMethod_Check(method)) {
    if (!to.is_fixed(c.from)) to.word(&reinterpret_cast<PyMethodObject*>(method)->im_self);
    return placed(c, to);
  }
  if (!PyCFunction_CheckExact(method)) return false;
  to.word(&reinterpret_cast<PyCFunctionObject*>(method)->m_self);
  return placed(c, to);
}

/// The load has no words and runs after them. If the guards require one particular object, words may describe that
/// object all the same: it is alive, and the late load compares its identity.
bool late_words(const Check& c, WordRecorder& to) {
  if (to.is_fixed(c.slot)) {
    to.set_placed(c.slot);
    to.set_late(c.slot);
  }
  return false;
}

bool is_open(const Check& c, WordRecorder& to) { return to.is_root(c.from) || to.is_opened(c.from); }

/// What an iterator among the arguments gives next. If it is an instance that belongs to the row, words may describe
/// it: the load runs before them.
bool upcoming_words(const Check& c, WordRecorder& to) {
  if (to.is_fixed(c.slot) || !to.is_recurring(c.slot) || !is_open(c, to)) return late_words(c, to);
  to.open(c, to.at(c.slot));
  return placed(c, to);
}

/// An iterator that one among the arguments draws from.
bool inner_iterator_words(const Check& c, WordRecorder& to) {
  if (!is_open(c, to)) return false;
  to.open(c, nullptr);
  return true;
}

// ---- facts

bool identity_words(const Check& c, WordRecorder& to) { return to.is_placed(c.slot) && !to.is_late(c.slot); }

bool equals_words(const Check& c, WordRecorder& to) {
  if (!to.is_placed(c.slot)) return false;
  if (!to.is_fixed(c.slot)) to.keep(to.at(c.slot));
  return true;
}

bool type_is_words(const Check& c, WordRecorder& to) {
  if (!to.is_placed(c.slot)) return false;
  if (!to.is_fixed(c.slot) || !has_constant_instances(Py_TYPE(to.at(c.slot)))) to.word(&to.at(c.slot)->ob_type);
  to.set_typed(c.slot);
  return true;
}

/// A class without a version tag is compared in each call.
bool class_words(const Check& c, WordRecorder& to) {
  auto* type = reinterpret_cast<PyTypeObject*>(c.object);
  if (stator_type_version(type) == 0) return false;
  to.word_of_check(stator_type_version_place(type), c);
  return true;
}

bool tensor_words(const Check& c, WordRecorder& to) {
  if (!to.is_placed(c.slot) && !to.is_root(c.slot)) return false;
  to.tensor(c.slot, *reinterpret_cast<const TensorExpectation*>(c.number));
  return true;
}

bool length_words(const Check& c, WordRecorder& to) {
  PyObject* seen = to.at(c.slot);
  if (!to.is_placed(c.slot) || !to.is_typed(c.slot)) return false;
  if (PyDict_Check(seen))
    to.word(&reinterpret_cast<PyDictObject*>(seen)->ma_used);
  else if (PyAnySet_Check(seen))
    to.word(&reinterpret_cast<PySetObject*>(seen)->used);
  else
    to.word(&reinterpret_cast<PyVarObject*>(seen)->ob_size);
  return true;
}

/// Contents of an instance of a dict subclass: the version tag covers them, but not the order of an OrderedDict's keys.
bool dict_content_words(const Check& c, WordRecorder& to) {
  PyObject* dict = to.at(c.slot);
  if (!to.is_placed(c.slot) || !to.is_typed(c.slot) || !PyDict_Check(dict) || !stator_dict_tag_place(dict))
    return false;
  to.word(stator_dict_tag_place(dict));
  return true;
}

bool keys_words(const Check& c, WordRecorder& to) { return !PyODict_Check(to.at(c.slot)) && dict_content_words(c, to); }

bool code_words(const Check& c, WordRecorder& to) {
  if (!to.is_placed(c.slot) || !to.is_typed(c.slot)) return false;
  PyFunctionObject* function = function_at(to, c.slot);
  to.word(&function->func_code);
  to.word(&function->func_defaults);
  if (function->func_defaults == c.extra)
    to.set_holds_defaults(c.slot);  // the fact owns the tuple
  else
    to.word(&reinterpret_cast<PyVarObject*>(function->func_defaults)->ob_size);
  if (!to.is_fixed(c.slot)) to.word(&function->func_globals);
  return true;
}

bool no_attribute_words(const Check& c, WordRecorder& to) {
  PyObject* owner = to.at(c.slot);
  if (!to.is_placed(c.slot) || !to.is_typed(c.slot)) return false;
  if (Py_TYPE(owner)->tp_itemsize != 0 && !to.is_fixed(c.slot)) return false;
  PyObject* dict;
  StatorInstanceDict form = stator_instance_dict(owner, &dict);
  if (form == kStatorDictNone) return true;
  bool is_function = PyFunction_Check(owner);  // has a field for its __dict__, null or not
  if (form != kStatorDictObject && !is_function) return false;
  if (dict && !stator_dict_tag_place(dict)) return false;
  to.word(_PyObject_GetDictPtr(owner));
  if (dict) to.word(stator_dict_tag_place(dict));
  return true;
}

bool native_method_words(const Check& c, WordRecorder& to) {
  PyObject* method = to.at(c.slot);
  if (!to.is_placed(c.slot) || !to.is_typed(c.slot) || !PyCFunction_CheckExact(method)) return false;
  to.word(&reinterpret_cast<PyCFunctionObject*>(method)->m_ml);
  return true;
}

bool cell_empty_words(const Check& c, WordRecorder& to) {
  if (!to.is_placed(c.slot) || !to.is_typed(c.slot)) return false;
  to.word(&reinterpret_cast<PyCellObject*>(to.at(c.slot))->ob_ref);
  return true;
}

bool relation_words(const Check& c, WordRecorder& to) { return to.is_placed(c.slot) && to.is_placed(c.from); }

/// The object there keeps the `__dict__` that it has, or has none for ever.
bool own_dict_words(int32_t slot, WordRecorder& to) {
  PyObject* owner = to.at(slot);
  if (!to.is_typed(slot)) return false;
  if (PyDict_CheckExact(owner)) return true;
  PyObject* dict;
  const StatorInstanceDict form = stator_instance_dict(owner, &dict);
  if (form == kStatorDictNone) return true;
  // A negative offset of the dict counts from the end of the object, whose size may differ.
  if (Py_TYPE(owner)->tp_itemsize != 0 && !to.is_fixed(slot)) return false;
  to.word(stator_dict_pointer_place(owner));
  return true;
}

/// Objects that are all placed stay distinct. The others are compared with the changed objects in each call.
bool distinct_words(const Check& c, WordRecorder& to) {
  const auto& group = *reinterpret_cast<const DistinctSlots*>(c.number);
  DistinctSlots rest{{}, group.changed, {}};
  for (size_t i = 0; i < group.slots.size(); ++i) {
    const int32_t slot = group.slots[i];
    const bool has_words = to.is_placed(slot) && (!group.compares_dict(i) || own_dict_words(slot, to));
    if (!has_words && i < group.changed) return false;
    if (has_words && i >= group.changed) continue;
    rest.slots.push_back(slot);
    rest.by_dict.push_back(group.compares_dict(i));
  }
  if (rest.slots.size() > group.changed) to.compare_later(c, std::move(rest));
  return true;
}

bool abc_token_words(const Check&, WordRecorder& to) {
  const StatorWord* place = stator_abc_counter_place();
  if (place) to.word(place);
  return place != nullptr;
}

constexpr WordsFn kLoads[] = {
#define STATOR_SOURCE(name, missing, per_call, load, words, text) words,
#include "capture/values/source_kinds.def"
#undef STATOR_SOURCE
};

constexpr WordsFn kFacts[] = {
#define STATOR_GUARD(name, stage, traits, unwanted, check, words, describe, saw) words,
#include "capture/values/guard_kinds.def"
#undef STATOR_GUARD
};

}  // namespace

WordsFn load_words(SourceKind kind) { return kLoads[static_cast<size_t>(kind)]; }
WordsFn fact_words(FactKind kind) { return kFacts[static_cast<size_t>(kind)]; }

}  // namespace stator::capture
