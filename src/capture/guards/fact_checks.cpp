// The check of each guard kind (column `check` of guard_kinds.def): 1 if the fact holds for the object in the slot,
// else 0. None of them runs code of the program. A check may rely on the guards of the same source in earlier stages:
// kinds.h.
#include "capture/guards/array_layout.h"
#include "capture/guards/class_content.h"
#include "capture/guards/dropping.h"
#include "capture/guards/elements.h"
#include "capture/guards/kinds.h"
#include "capture/guards/literals.h"
#include "capture/guards/object_queries.h"
#include "capture/guards/shape_guards.h"
#include "capture/guards/tensor_expectation.h"
#include "capture/pycompat/evaluation.h"
#include "capture/pycompat/facts.h"
#include "capture/pycompat/hidden.h"
#include "capture/pycompat/objects.h"

namespace stator::capture {
namespace {

int check_identity(Check& c, CheckRun& run) { return run.slots[c.slot] == c.object; }

int check_equals(Check& c, CheckRun& run) {
  PyObject* seen = run.slots[c.slot];
  return seen == c.object || literal_equal(seen, c.object);
}

int check_compares(Check& c, CheckRun& run) {
  PyObject* seen = run.slots[c.slot];
  if (!PyFloat_CheckExact(seen) && !PyLong_CheckExact(seen)) return 0;
  const Ref answer = Ref::steal(PyObject_RichCompare(seen, c.object, static_cast<int>(c.number / 2)));
  if (!answer) PyErr_Clear();
  return answer && (answer.get() == Py_True) == (c.number % 2 != 0);
}

int check_type_is(Check& c, CheckRun& run) {
  return reinterpret_cast<PyObject*>(Py_TYPE(run.slots[c.slot])) == c.object;
}

int check_class_content(Check& c, CheckRun&) { return reinterpret_cast<ClassContent*>(c.number)->holds(); }

int check_tensor(Check& c, CheckRun& run) {
  return reinterpret_cast<const TensorExpectation*>(c.number)->matches(run.slots[c.slot]);
}

int check_length(Check& c, CheckRun& run) {
  return plain_length(run.slots[c.slot]) == static_cast<Py_ssize_t>(c.number);
}

/// For an OrderedDict, which keeps the order of its keys apart from the dict's own table.
bool same_keys_in_order(PyObject* ordered, PyObject* wanted) {
  NoCollection no_collection;  // the iterator is a new object; finalizers are code of the program
  Ref iterator = Ref::steal(PyObject_GetIter(ordered));
  for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(wanted); ++i) {
    Ref key = iterator ? Ref::steal(PyIter_Next(iterator.get())) : Ref();
    PyErr_Clear();
    if (!key || !is_element(key.get(), PyTuple_GET_ITEM(wanted, i))) return false;
  }
  return true;
}

int check_keys(Check& c, CheckRun& run) {
  PyObject* dict = run.slots[c.slot];
  Py_ssize_t wanted = PyTuple_GET_SIZE(c.object);
  if (!PyDict_Check(dict) || PyDict_GET_SIZE(dict) != wanted) return 0;
  if (PyODict_CheckExact(dict)) return same_keys_in_order(dict, c.object);
  Py_ssize_t position = 0, i = 0;
  PyObject *key, *value;
  while (PyDict_Next(dict, &position, &key, &value)) {
    if (!is_element(key, PyTuple_GET_ITEM(c.object, i++))) return 0;
  }
  return 1;
}

int check_absent(Check& c, CheckRun& run) {
  PyObject* dict = run.slots[c.slot];
  return PyDict_Check(dict) && !pycompat::dict_get_by_hash(dict, c.object, static_cast<Py_hash_t>(c.number));
}

int check_elements(Check& c, CheckRun& run) {
  PyObject* set = run.slots[c.slot];
  if (!PyAnySet_Check(set) || PySet_GET_SIZE(set) != PyTuple_GET_SIZE(c.object)) return 0;
  if (set_layout(set) != static_cast<int64_t>(c.number)) return 0;
  pycompat::SetCursor cursor(set);
  for (Py_ssize_t i = 0; PyObject* element = cursor.next(); ++i)
    if (!is_element(element, PyTuple_GET_ITEM(c.object, i))) return 0;
  return 1;
}

/// `wanted`: null, the defaults at capture, or their number.
bool has_as_many(PyObject* defaults, PyObject* wanted) {
  if (!defaults || !wanted || defaults == wanted) return defaults == wanted;
  return PyTuple_GET_SIZE(defaults) == (PyTuple_Check(wanted) ? PyTuple_GET_SIZE(wanted) : PyLong_AsSsize_t(wanted));
}

int check_code(Check& c, CheckRun& run) {
  PyObject* seen = run.slots[c.slot];
  return PyFunction_Check(seen) && PyFunction_GET_CODE(seen) == c.object &&
         has_as_many(PyFunction_GET_DEFAULTS(seen), c.extra) &&
         reinterpret_cast<uint64_t>(PyFunction_GET_GLOBALS(seen)) == c.number;
}

int check_native_method(Check& c, CheckRun& run) {
  return pycompat::native_method(run.slots[c.slot]).method == pycompat::method_of_descriptor(c.object);
}

int check_no_attribute(Check& c, CheckRun& run) {
  return stator_instance_value(run.slots[c.slot], c.object) == nullptr;
}

int check_no_attributes(Check& c, CheckRun& run) { return stator_is_bare(run.slots[c.slot]); }

int check_no_field(Check& c, CheckRun& run) {
  // The version of the class is guarded, so the name is still that of a slot: no code of the program runs.
  Ref value = Ref::steal(PyObject_GenericGetAttr(run.slots[c.slot], c.object));
  PyErr_Clear();
  return !value;
}

int check_cell_empty(Check& c, CheckRun& run) {
  PyObject* cell = run.slots[c.slot];
  return PyCell_Check(cell) && PyCell_GET(cell) == nullptr;
}

int check_same_as(Check& c, CheckRun& run) { return run.slots[c.slot] == run.slots[c.from]; }

int check_not_same_as(Check& c, CheckRun& run) { return run.slots[c.slot] != run.slots[c.from]; }

int check_leaf(Check& c, CheckRun& run) { return is_leaf_tensor(run.slots[c.slot]) == static_cast<bool>(c.number); }

int check_view(Check& c, CheckRun& run) { return is_view_tensor(run.slots[c.slot]) == static_cast<bool>(c.number); }

int check_item(Check& c, CheckRun& run) { return int_item(run.slots[c.slot]) == static_cast<int64_t>(c.number); }

int check_items(Check& c, CheckRun& run) {
  Ref items = int_items(run.slots[c.slot]);
  return items && literal_equal(items.get(), c.object);
}

int check_array_layout(Check& c, CheckRun& run) {
  PyObject* array = run.slots[c.slot];
  return c.object ? has_layout(array, c.object) : !array_layout(array);
}

int check_offset(Check& c, CheckRun& run) {
  return storage_offset_of(run.slots[c.slot]) == static_cast<int64_t>(c.number);
}

int check_no_gradient(Check& c, CheckRun& run) { return gradient_of(run.slots[c.slot]) == nullptr; }

int check_nothing_handled(Check&, CheckRun&) { return !Ref::steal(PyErr_GetHandledException()); }

int check_distinct(Check& c, CheckRun& run) {
  return are_distinct(*reinterpret_cast<const DistinctSlots*>(c.number), run.slots);
}

int check_memory(Check& c, CheckRun& run) {
  return has_memory_layout(*reinterpret_cast<const DistinctSlots*>(c.number), run.slots, c.object);
}

int check_shapes(Check& c, CheckRun& run) { return reinterpret_cast<const ShapeCheck*>(c.number)->holds(run.slots); }

int check_exhausted(Check& c, CheckRun& run) {
  PyObject* iterator = run.slots[c.slot];
  return stator_iter_peek(iterator, static_cast<Py_ssize_t>(c.number), nullptr, nullptr) == kStatorPeekEnd;
}

int check_unknown_item(Check& c, CheckRun& run) {
  PyObject* iterator = run.slots[c.slot];
  return stator_iter_peek(iterator, static_cast<Py_ssize_t>(c.number), nullptr, nullptr) == kStatorPeekUnknown;
}

int check_observable_drop(Check& c, CheckRun& run) {
  return drop_is_observable(run.slots[c.slot], static_cast<Dropped>(c.number), c.object);
}

int check_unobservable_drop(Check& c, CheckRun& run) { return !check_observable_drop(c, run); }

int check_survives(Check& c, CheckRun& run) {
  const std::vector<int32_t>& dropped = reinterpret_cast<const DistinctSlots*>(c.number)->slots;
  return std::none_of(dropped.begin(), dropped.end(),
                      [&](int32_t slot) { return is_reachable(run.slots[slot], run.slots[c.slot]); });
}

int check_depends(Check& c, CheckRun& run) { return !check_survives(c, run); }

int check_abc_token(Check& c, CheckRun&) { return abc_token() == static_cast<int64_t>(c.number); }

int check_not_cached(Check& c, CheckRun& run) { return !stator_cached(run.slots[c.slot], c.object); }

int check_returns(Check& c, CheckRun& run) {
  Ref answer = answer_of(run.slots[c.slot], c.extra);
  return answer && literal_equal(answer.get(), c.object);
}

constexpr CheckFn kChecks[] = {
#define STATOR_GUARD(name, stage, traits, unwanted, check, words, describe, saw) check,
#include "capture/values/guard_kinds.def"
#undef STATOR_GUARD
};

}  // namespace

CheckFn check_of(FactKind kind) { return kChecks[static_cast<size_t>(kind)]; }

}  // namespace stator::capture
