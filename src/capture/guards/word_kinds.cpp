// The words of each kind of check. `word_pass.h` says why they may be read and what they imply.
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

// ---- loads: the parent must stand where it stood and be of the class whose field is read

bool follows(const Check& c, WordRecorder& to) { return to.is_placed(c.from) && to.is_typed(c.from); }

bool placed(const Check& c, WordRecorder& to) {
  to.set_placed(c.slot);
  return true;
}

bool argument_words(const Check& c, WordRecorder& to) {
  to.root(c.slot, c.count, to.is_fixed(c.slot) ? to.at(c.slot) : nullptr);
  if (to.is_fixed(c.slot)) to.set_placed(c.slot);
  return true;
}

bool function_words(const Check& c, WordRecorder& to) {
  to.set_typed(c.slot);  // what is compiled is a plain function
  return placed(c, to);
}

bool instance_dict_words(const Check& c, WordRecorder& to) {
  PyObject* owner = to.at(c.from);
  if (!follows(c, to)) return false;
  // Where the instances of a class differ in size, so does the place.
  if (Py_TYPE(owner)->tp_itemsize != 0 && !to.is_fixed(c.from)) return false;
  PyObject** place = _PyObject_GetDictPtr(owner);
  if (!place || *place != to.at(c.slot)) return false;
  to.word(place);
  to.set_typed(c.slot);  // CPython lets only dicts stand there
  return placed(c, to);
}

bool dict_item_words(const Check& c, WordRecorder& to) {
  PyObject* dict = to.at(c.from);
  if (!follows(c, to) || !PyDict_Check(dict) || !stator_dict_tag_place(dict)) return false;
  to.word(stator_dict_tag_place(dict));
  return placed(c, to);
}

/// Where the object keeps a field that its class describes (slots, fields of C classes, a function's code), or null.
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
  to.set_typed(c.slot);  // a closure holds cells
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
  if (!to.is_fixed(c.from)) to.word(&reinterpret_cast<PyMethodObject*>(to.at(c.from))->im_self);
  return placed(c, to);
}

/// Where one object must stand, words may tell of its insides before it is known that it stands there.
bool late_words(const Check& c, WordRecorder& to) {
  if (to.is_fixed(c.slot)) {
    to.set_placed(c.slot);
    to.set_late(c.slot);
  }
  return false;
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

bool type_version_words(const Check& c, WordRecorder& to) {
  to.word(stator_type_version_place(reinterpret_cast<PyTypeObject*>(c.object)));
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

/// Contents of a dict of a subclass: its tag tells of them all, but not of the order that an OrderedDict keeps beside.
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
  to.set_holds_defaults(c.slot);  // the fact does, strongly
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
  bool is_function = PyFunction_Check(owner);  // its dict has a place of its own, empty or not
  if (form != kStatorDictObject && !is_function) return false;
  if (dict && !stator_dict_tag_place(dict)) return false;
  to.word(_PyObject_GetDictPtr(owner));
  if (dict) to.word(stator_dict_tag_place(dict));
  return true;
}

bool cell_empty_words(const Check& c, WordRecorder& to) {
  if (!to.is_placed(c.slot) || !to.is_typed(c.slot)) return false;
  to.word(&reinterpret_cast<PyCellObject*>(to.at(c.slot))->ob_ref);
  return true;
}

bool relation_words(const Check& c, WordRecorder& to) { return to.is_placed(c.slot) && to.is_placed(c.from); }

bool distinct_words(const Check& c, WordRecorder& to) {
  const auto& slots = reinterpret_cast<const DistinctSlots*>(c.number)->slots;
  return std::all_of(slots.begin(), slots.end(), [&](int32_t slot) { return to.is_placed(slot); });
}

bool abc_token_words(const Check&, WordRecorder& to) {
  const StatorWord* place = stator_abc_counter_place();
  if (place) to.word(place);
  return place != nullptr;
}

constexpr WordsFn kLoads[] = {
    /* Argument */ argument_words,
    /* Function */ function_words,
    /* Pinned */ placed,
    /* InstanceDict */ instance_dict_words,
    /* DictItem */ dict_item_words,
    /* Attribute */ attribute_words,
    /* Item */ item_words,
    /* Cell */ cell_words,
    /* CellContents */ cell_contents_words,
    /* Default */ default_words,
    /* KwDefault */ kwdefault_words,
    /* BoundFunction */ bound_function_words,
    /* BoundSelf */ bound_self_words,
    /* Type */ no_words,
    /* Gradient */ no_words,
    /* Referent */ no_words,
    /* Upcoming */ late_words,
    /* UpcomingKey */ late_words,
    /* Counter */ no_words,
    /* Asked */ no_words,
    /* Iterated */ no_words,
    /* FunctionMode */ no_words,
    /* Proxied */ no_words,
    /* ThreadDict */ no_words,
    /* Cached */ late_words,
};

constexpr WordsFn kFacts[] = {
    /* Identity */ identity_words,
    /* Equals */ equals_words,
    /* TypeIs */ type_is_words,
    /* TypeVersion */ type_version_words,
    /* Tensor */ tensor_words,
    /* ArrayLayout */ no_words,
    /* Length */ length_words,
    /* Keys */ keys_words,
    /* Absent */ dict_content_words,
    /* Elements */ no_words,
    /* Code */ code_words,
    /* NoAttribute */ no_attribute_words,
    /* NoField */ no_words,
    /* Bare */ no_words,
    /* CellEmpty */ cell_empty_words,
    /* SameAs */ relation_words,
    /* NotSameAs */ relation_words,
    /* Leaf */ no_words,
    /* View */ no_words,
    /* Item */ no_words,
    /* Offset */ no_words,
    /* NoGradient */ no_words,
    /* NothingHandled */ no_words,
    /* Distinct */ distinct_words,
    /* Exhausted */ no_words,
    /* AbcToken */ abc_token_words,
    /* NotCached */ no_words,
    /* Answers */ no_words,
};
static_assert(std::size(kLoads) == kLoadKinds && std::size(kFacts) == kFactKinds);

}  // namespace

WordsFn load_words(SourceKind kind) { return kLoads[static_cast<size_t>(kind)]; }
WordsFn fact_words(FactKind kind) { return kFacts[static_cast<size_t>(kind)]; }

}  // namespace stator::capture
