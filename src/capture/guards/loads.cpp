// How each source kind finds its object in a call (column `load` of source_kinds.def). A load fills its slot and
// returns 1; it returns 0 if there is nothing to be found, which fails the guards. Slots hold borrowed references.
#include "capture/guards/function_modes.h"
#include "capture/guards/kinds.h"
#include "capture/guards/object_queries.h"
#include "capture/guards/tensor_expectation.h"
#include "capture/pycompat/facts.h"
#include "capture/pycompat/hidden.h"
#include "capture/pycompat/objects.h"
#include "capture/pycompat/views.h"

namespace stator::capture {
namespace {

int load_argument(Check& c, CheckRun& run) { return (run.slots[c.slot] = run.input.arguments[c.count]) ? 1 : 0; }

int load_function(Check& c, CheckRun& run) { return (run.slots[c.slot] = run.input.function) ? 1 : 0; }

int load_pinned(Check&, CheckRun&) { return 1; }

int load_instance_dict(Check& c, CheckRun& run) {
  PyObject** dict = _PyObject_GetDictPtr(run.slots[c.from]);
  return dict && (run.slots[c.slot] = *dict) ? 1 : 0;
}

/// Classes keep their dict for ever.
int load_class_dict(Check& c, CheckRun& run) {
  return (run.slots[c.slot] = reinterpret_cast<PyTypeObject*>(run.slots[c.from])->tp_dict) ? 1 : 0;
}

int load_dict_item(Check& c, CheckRun& run) {
  PyObject* dict = run.slots[c.from];
  if (!PyDict_Check(dict)) return 0;
  return (run.slots[c.slot] = pycompat::dict_get_by_hash(dict, c.object, static_cast<Py_hash_t>(c.number))) ? 1 : 0;
}

/// Entry number `count` of the dict, in its order.
int load_dict_entry(Check& c, CheckRun& run, bool wants_key) {
  PyObject* dict = run.slots[c.from];
  if (!PyDict_Check(dict)) return 0;
  PyObject *key, *value;
  // A position of PyDict_Next is the number of an entry if no entry before it was deleted: then none lies behind the
  // position that equals the length.
  Py_ssize_t position = PyDict_GET_SIZE(dict);
  const bool is_dense = !PyDict_Next(dict, &position, &key, &value);
  position = is_dense ? c.count : 0;
  for (Py_ssize_t left = is_dense ? 0 : c.count;; --left) {
    if (!PyDict_Next(dict, &position, &key, &value)) return 0;
    if (left == 0) break;
  }
  run.slots[c.slot] = wants_key ? key : value;
  return 1;
}

int load_dict_key(Check& c, CheckRun& run) { return load_dict_entry(c, run, true); }

int load_dict_value(Check& c, CheckRun& run) { return load_dict_entry(c, run, false); }

int load_attribute(Check& c, CheckRun& run) {
  PyObject* from = run.slots[c.from];
  if (c.count == kOwnAttribute) return (run.slots[c.slot] = stator_instance_value(from, c.object)) ? 1 : 0;
  // A slot or a member of a C class. The version of the class is guarded, so no code of the program runs.
  PyObject* value = PyObject_GenericGetAttr(from, c.object);
  if (!value) {
    PyErr_Clear();
    return 0;
  }
  run.slots[c.slot] = value;
  Py_DECREF(value);  // the instance owns it
  return 1;
}

int load_item(Check& c, CheckRun& run) {
  PyObject* from = run.slots[c.from];
  if (PyTuple_Check(from)) {
    if (c.count >= PyTuple_GET_SIZE(from)) return 0;
    run.slots[c.slot] = PyTuple_GET_ITEM(from, c.count);
    return 1;
  }
  if (is_deque(from)) {
    PyObject* item = c.count < PyObject_Size(from) ? PySequence_GetItem(from, c.count) : nullptr;
    run.slots[c.slot] = item;
    Py_XDECREF(item);  // the deque owns it
    return item ? 1 : 0;
  }
  if (!PyList_Check(from) || c.count >= PyList_GET_SIZE(from)) return 0;
  run.slots[c.slot] = PyList_GET_ITEM(from, c.count);
  return 1;
}

/// Item `count` of a function's closure or defaults; `tuple` may be null.
int load_from_tuple(Check& c, CheckRun& run, PyObject* tuple) {
  if (!tuple || c.count >= PyTuple_GET_SIZE(tuple)) return 0;
  run.slots[c.slot] = PyTuple_GET_ITEM(tuple, c.count);
  return 1;
}

int load_cell(Check& c, CheckRun& run) {
  PyObject* function = run.slots[c.from];
  return load_from_tuple(c, run, PyFunction_Check(function) ? PyFunction_GET_CLOSURE(function) : nullptr);
}

int load_cell_contents(Check& c, CheckRun& run) {
  PyObject* cell = run.slots[c.from];
  return PyCell_Check(cell) && (run.slots[c.slot] = PyCell_GET(cell)) ? 1 : 0;
}

int load_default(Check& c, CheckRun& run) {
  PyObject* function = run.slots[c.from];
  return load_from_tuple(c, run, PyFunction_Check(function) ? PyFunction_GET_DEFAULTS(function) : nullptr);
}

int load_kwdefault(Check& c, CheckRun& run) {
  PyObject* defaults = PyFunction_Check(run.slots[c.from]) ? PyFunction_GET_KW_DEFAULTS(run.slots[c.from]) : nullptr;
  if (!defaults) return 0;
  return (run.slots[c.slot] = pycompat::dict_get_by_hash(defaults, c.object, static_cast<Py_hash_t>(c.number))) ? 1 : 0;
}

int load_bound_function(Check& c, CheckRun& run) {
  if (!PyMethod_Check(run.slots[c.from])) return 0;
  run.slots[c.slot] = PyMethod_GET_FUNCTION(run.slots[c.from]);
  return 1;
}

int load_bound_self(Check& c, CheckRun& run) {
  PyObject* method = run.slots[c.from];
  run.slots[c.slot] = PyMethod_Check(method) ? PyMethod_GET_SELF(method) : pycompat::native_method(method).self;
  return run.slots[c.slot] ? 1 : 0;
}

int load_gradient(Check& c, CheckRun& run) { return (run.slots[c.slot] = gradient_of(run.slots[c.from])) ? 1 : 0; }

int load_referent(Check& c, CheckRun& run) {
  if (!PyWeakref_Check(run.slots[c.from])) return 0;
  run.slots[c.slot] = PyWeakref_GET_OBJECT(run.slots[c.from]);
  return 1;
}

/// Puts an item of an iterator into the slot. Steals the reference: the iterated container owns the item, except for
/// numbers that the iterator makes, which `fresh` owns.
int fill_slot(Check& c, CheckRun& run, PyObject* item) {
  run.slots[c.slot] = item;
  Ref held = Ref::steal(item);
  if (PyLong_CheckExact(item)) run.fresh[c.slot] = std::move(held);
  return 1;
}

int load_upcoming(Check& c, CheckRun& run) {
  PyObject* item = nullptr;
  return stator_iter_peek(run.slots[c.from], c.count, nullptr, &item) == kStatorPeekItem ? fill_slot(c, run, item) : 0;
}

int load_upcoming_key(Check& c, CheckRun& run) {
  PyObject* key = nullptr;
  StatorPeek found = stator_iter_peek(run.slots[c.from], c.count, &key, nullptr);
  return found == kStatorPeekItem && key ? fill_slot(c, run, key) : 0;
}

/// Puts an int into the slot, which owns it.
int fill_with_int(Check& c, CheckRun& run, int64_t number) {
  if (PyObject* made = PyLong_FromLongLong(number)) return fill_slot(c, run, made);
  PyErr_Clear();
  return 0;
}

int load_storage_offset(Check& c, CheckRun& run) {
  const int64_t offset = storage_offset_of(run.slots[c.from]);
  return offset >= 0 ? fill_with_int(c, run, offset) : 0;
}

int load_length(Check& c, CheckRun& run) {
  PyObject* from = run.slots[c.from];
  if (PyList_Check(from)) return fill_with_int(c, run, PyList_GET_SIZE(from));
  return PyDict_Check(from) ? fill_with_int(c, run, PyDict_GET_SIZE(from)) : 0;
}

int load_counter(Check& c, CheckRun& run) {
  StatorIter iterator = stator_iter(run.slots[c.from]);
  if (iterator.kind != kStatorIterEnumerate || iterator.index < 0) return 0;
  return fill_with_int(c, run, iterator.index + c.count);
}

int load_inner_iterator(Check& c, CheckRun& run) {
  StatorIter iterator = stator_iter(run.slots[c.from]);
  if (iterator.kind == kStatorIterEnumerate) run.slots[c.slot] = iterator.source;
  if (iterator.kind == kStatorIterEnumerate) return iterator.source ? 1 : 0;
  if (iterator.kind != kStatorIterZip || !iterator.source || c.count >= PyTuple_GET_SIZE(iterator.source)) return 0;
  run.slots[c.slot] = PyTuple_GET_ITEM(iterator.source, c.count);
  return 1;
}

int load_iterated(Check& c, CheckRun& run) {
  PyObject* source = stator_iter(run.slots[c.from]).source;
  // An exhausted iterator has dropped its container.
  run.slots[c.slot] = source ? source : Py_None;
  return 1;
}
int load_function_mode(Check& c, CheckRun& run) { return (run.slots[c.slot] = function_mode_at(c.count)) ? 1 : 0; }

int load_proxied(Check& c, CheckRun& run) {
  PyObject* proxy = run.slots[c.from];
  if (pycompat::is_dict_view(proxy)) return (run.slots[c.slot] = pycompat::viewed_dict(proxy)) ? 1 : 0;
  return Py_TYPE(proxy) == &PyDictProxy_Type && (run.slots[c.slot] = pycompat::proxied_mapping(proxy)) ? 1 : 0;
}

/// The class of the parent is guarded.
int load_thread_dict(Check& c, CheckRun& run) {
  return (run.slots[c.slot] = stator_thread_dict(run.slots[c.from])) ? 1 : 0;
}

int load_cached(Check& c, CheckRun& run) {
  run.slots[c.slot] = stator_cached(run.slots[c.from], c.object);
  return run.slots[c.slot] ? 1 : 0;
}

int load_type(Check& c, CheckRun& run) {
  run.slots[c.slot] = reinterpret_cast<PyObject*>(Py_TYPE(run.slots[c.from]));
  return 1;
}

constexpr CheckFn kLoads[] = {
#define STATOR_SOURCE(name, missing, per_call, load, words, text) load,
#include "capture/values/source_kinds.def"
#undef STATOR_SOURCE
};

}  // namespace

CheckFn load_of(SourceKind kind) { return kLoads[static_cast<size_t>(kind)]; }

}  // namespace stator::capture
