#include "capture/guards/array_layout.h"
#include "capture/guards/check.h"
#include "capture/guards/elements.h"
#include "capture/guards/function_modes.h"
#include "capture/guards/literals.h"
#include "capture/guards/tensor_expectation.h"
#include "capture/pycompat/evaluation.h"
#include "capture/pycompat/facts.h"
#include "capture/pycompat/hidden.h"
#include "capture/pycompat/objects.h"

namespace stator::capture {
namespace {

/// Exactly a collections.deque: its own C functions answer.
bool is_deque(PyObject* object) {
  static PyTypeObject* const type = [] {
    Ref module = Ref::steal(PyImport_ImportModule("collections"));
    return module ? reinterpret_cast<PyTypeObject*>(PyObject_GetAttrString(module.get(), "deque")) : nullptr;
  }();
  return Py_TYPE(object) == type;
}

// ---- loads

int load_argument(Check& c, CheckRun& run) { return (run.slots[c.slot] = run.input.arguments[c.count]) ? 1 : 0; }

int load_function(Check& c, CheckRun& run) { return (run.slots[c.slot] = run.input.function) ? 1 : 0; }

int load_pinned(Check&, CheckRun&) { return 1; }

int load_instance_dict(Check& c, CheckRun& run) {
  PyObject** dict = _PyObject_GetDictPtr(run.slots[c.from]);
  return dict && (run.slots[c.slot] = *dict) ? 1 : 0;
}

int load_dict_item(Check& c, CheckRun& run) {
  PyObject* dict = run.slots[c.from];
  if (!PyDict_Check(dict)) return 0;
  return (run.slots[c.slot] = pycompat::dict_get_by_hash(dict, c.object, static_cast<Py_hash_t>(c.number))) ? 1 : 0;
}

int load_attribute(Check& c, CheckRun& run) {
  PyObject* from = run.slots[c.from];
  if (c.count == kOwnAttribute) return (run.slots[c.slot] = stator_instance_value(from, c.object)) ? 1 : 0;
  // A slot or a field of a C class: the class's version is guarded, so no user code answers.
  PyObject* value = PyObject_GenericGetAttr(from, c.object);
  if (!value) {
    PyErr_Clear();
    return 0;
  }
  run.slots[c.slot] = value;
  Py_DECREF(value);  // the instance keeps it
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
    Py_XDECREF(item);  // the deque keeps it
    return item ? 1 : 0;
  }
  if (!PyList_Check(from) || c.count >= PyList_GET_SIZE(from)) return 0;
  run.slots[c.slot] = PyList_GET_ITEM(from, c.count);
  return 1;
}

/// The item of a function's tuple, which may be missing.
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
  if (!PyMethod_Check(run.slots[c.from])) return 0;
  run.slots[c.slot] = PyMethod_GET_SELF(run.slots[c.from]);
  return 1;
}

int load_gradient(Check& c, CheckRun& run) { return (run.slots[c.slot] = gradient_of(run.slots[c.from])) ? 1 : 0; }

int load_referent(Check& c, CheckRun& run) {
  if (!PyWeakref_CheckRefExact(run.slots[c.from]) && !PyWeakref_CheckProxy(run.slots[c.from])) return 0;
  run.slots[c.slot] = PyWeakref_GET_OBJECT(run.slots[c.from]);
  return 1;
}

/// Numbers are made anew by iterators; all else is held by what they go over.
int hold(Check& c, CheckRun& run, PyObject* item) {
  run.slots[c.slot] = item;
  Ref held = Ref::steal(item);
  if (PyLong_CheckExact(item)) run.fresh[c.slot] = std::move(held);
  return 1;
}

int load_upcoming(Check& c, CheckRun& run) {
  PyObject* item = nullptr;
  return stator_iter_peek(run.slots[c.from], c.count, nullptr, &item) == kStatorPeekItem ? hold(c, run, item) : 0;
}

int load_upcoming_key(Check& c, CheckRun& run) {
  PyObject* key = nullptr;
  StatorPeek found = stator_iter_peek(run.slots[c.from], c.count, &key, nullptr);
  return found == kStatorPeekItem && key ? hold(c, run, key) : 0;
}

int load_counter(Check& c, CheckRun& run) {
  StatorIter iterator = stator_iter(run.slots[c.from]);
  if (iterator.kind != kStatorIterEnumerate || iterator.index < 0) return 0;
  PyObject* number = PyLong_FromSsize_t(iterator.index + c.count);
  if (number) return hold(c, run, number);
  PyErr_Clear();
  return 0;
}

int load_asked(Check& c, CheckRun& run) {
  StatorIter iterator = stator_iter(run.slots[c.from]);
  if (iterator.kind == kStatorIterEnumerate) run.slots[c.slot] = iterator.source;
  if (iterator.kind == kStatorIterEnumerate) return iterator.source ? 1 : 0;
  if (iterator.kind != kStatorIterZip || !iterator.source || c.count >= PyTuple_GET_SIZE(iterator.source)) return 0;
  run.slots[c.slot] = PyTuple_GET_ITEM(iterator.source, c.count);
  return 1;
}

int load_iterated(Check& c, CheckRun& run) {
  PyObject* source = stator_iter(run.slots[c.from]).source;
  // One that has ended goes over nothing.
  run.slots[c.slot] = source ? source : Py_None;
  return 1;
}
int load_function_mode(Check& c, CheckRun& run) { return (run.slots[c.slot] = function_mode_at(c.count)) ? 1 : 0; }

int load_proxied(Check& c, CheckRun& run) {
  PyObject* proxy = run.slots[c.from];
  return Py_TYPE(proxy) == &PyDictProxy_Type && (run.slots[c.slot] = pycompat::proxied_mapping(proxy)) ? 1 : 0;
}

// The class of the parent is guarded.
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

// ---- facts

int check_identity(Check& c, CheckRun& run) { return run.slots[c.slot] == c.object; }

int check_equals(Check& c, CheckRun& run) {
  PyObject* seen = run.slots[c.slot];
  return seen == c.object || literal_equal(seen, c.object);
}

int check_type_is(Check& c, CheckRun& run) {
  return reinterpret_cast<PyObject*>(Py_TYPE(run.slots[c.slot])) == c.object;
}

int check_type_version(Check& c, CheckRun& run) {
  return stator_type_version(reinterpret_cast<PyTypeObject*>(c.object)) == c.number;
}

int check_tensor(Check& c, CheckRun& run) {
  return reinterpret_cast<const TensorExpectation*>(c.number)->matches(run.slots[c.slot]);
}

int check_length(Check& c, CheckRun& run) {
  PyObject* seen = run.slots[c.slot];
  Py_ssize_t length = PyDict_Check(seen)     ? PyDict_GET_SIZE(seen)
                      : PyTuple_Check(seen)  ? PyTuple_GET_SIZE(seen)
                      : PyList_Check(seen)   ? PyList_GET_SIZE(seen)
                      : PyAnySet_Check(seen) ? PySet_GET_SIZE(seen)
                      : is_deque(seen)       ? PyObject_Size(seen)
                                             : -1;
  return length == static_cast<Py_ssize_t>(c.number);
}

bool same_keys_in_order(PyObject* ordered, PyObject* wanted) {
  // The order of an OrderedDict is its own, not that of the table below it.
  NoCollection quiet;
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

int check_code(Check& c, CheckRun& run) {
  PyObject* seen = run.slots[c.slot];
  return PyFunction_Check(seen) && PyFunction_GET_CODE(seen) == c.object && PyFunction_GET_DEFAULTS(seen) == c.extra &&
         reinterpret_cast<uint64_t>(PyFunction_GET_GLOBALS(seen)) == c.number;
}

int check_no_attribute(Check& c, CheckRun& run) {
  return stator_instance_value(run.slots[c.slot], c.object) == nullptr;
}

int check_bare(Check& c, CheckRun& run) { return stator_is_bare(run.slots[c.slot]); }

int check_no_field(Check& c, CheckRun& run) {
  // The class's version is guarded, so the name is still a slot's, and no user code answers.
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

int check_item(Check& c, CheckRun& run) { return whole_item(run.slots[c.slot]) == static_cast<int64_t>(c.number); }

int check_array_layout(Check& c, CheckRun& run) { return has_layout(run.slots[c.slot], c.object); }

int check_offset(Check& c, CheckRun& run) {
  return storage_offset_of(run.slots[c.slot]) == static_cast<int64_t>(c.number);
}

int check_no_gradient(Check& c, CheckRun& run) { return gradient_of(run.slots[c.slot]) == nullptr; }

int check_nothing_handled(Check&, CheckRun&) { return !Ref::steal(PyErr_GetHandledException()); }

/// In one pass over the slots, with a table of the objects seen.
int check_distinct(Check& c, CheckRun& run) {
  const auto& group = *reinterpret_cast<const DistinctSlots*>(c.number);
  size_t size = 16;
  while (size < 2 * group.changed) size *= 2;
  static thread_local std::vector<PyObject*> table;
  table.assign(size, nullptr);
  for (size_t i = 0; i < group.slots.size(); ++i) {
    PyObject* object = run.slots[group.slots[i]];
    size_t at = (reinterpret_cast<uintptr_t>(object) >> 4) * 0x9E3779B97F4A7C15u >> 20 & (size - 1);
    for (; table[at]; at = (at + 1) & (size - 1))
      if (table[at] == object) return 0;
    if (i < group.changed) table[at] = object;
  }
  return 1;
}

int check_exhausted(Check& c, CheckRun& run) {
  PyObject* iterator = run.slots[c.slot];
  return stator_iter_peek(iterator, static_cast<Py_ssize_t>(c.number), nullptr, nullptr) == kStatorPeekEnd;
}

int check_abc_token(Check& c, CheckRun&) { return abc_token() == static_cast<int64_t>(c.number); }

int check_not_cached(Check& c, CheckRun& run) { return !stator_cached(run.slots[c.slot], c.object); }

/// C functions that look at the state of a process or thread.
Ref ask(PyObject* function, PyObject* arguments) {
  Ref answer = Ref::steal(arguments ? PyObject_CallObject(function, arguments) : PyObject_CallNoArgs(function));
  PyErr_Clear();
  return answer;
}

int check_answers(Check& c, CheckRun& run) {
  Ref answer = ask(run.slots[c.slot], c.extra);
  return answer && literal_equal(answer.get(), c.object);
}

// ---- readable forms

std::string expected_object(const Fact& fact) { return short_repr(fact.object.get()); }

std::string saw_object(const Fact&, PyObject* object) { return object ? short_repr(object) : "nothing there"; }

std::string describe_identity(const Fact& fact) { return "is the same object (" + expected_object(fact) + ")"; }
std::string describe_equals(const Fact& fact) { return "== " + expected_object(fact); }
std::string describe_type(const Fact& fact) { return "has type " + expected_object(fact); }
std::string saw_type(const Fact&, PyObject* object) {
  return object ? "a " + std::string(Py_TYPE(object)->tp_name) : "nothing there";
}
std::string describe_type_version(const Fact& fact) { return "class is unchanged: " + expected_object(fact); }
std::string describe_tensor(const Fact& fact) { return fact.tensor->describe(); }
std::string saw_tensor(const Fact& fact, PyObject* object) {
  return object ? fact.tensor->mismatch(object) : "nothing there";
}
std::string describe_length(const Fact& fact) { return "has length " + std::to_string(fact.number); }
std::string saw_length(const Fact&, PyObject* object) {
  Py_ssize_t length =
      object && (PyDict_Check(object) || PyTuple_Check(object) || PyList_Check(object)) ? PyObject_Size(object) : -1;
  return length < 0 ? saw_type({}, object) : "length " + std::to_string(length);
}
std::string describe_keys(const Fact& fact) { return "has keys " + describe_elements(fact.object.get()); }
std::string saw_keys(const Fact&, PyObject* object) {
  if (!object || !PyDict_Check(object)) return saw_type({}, object);
  Ref keys = Ref::steal(PyDict_Keys(object));
  return "keys " + short_repr(keys.get());
}
std::string describe_absent(const Fact& fact) { return "has no key " + expected_object(fact); }
std::string describe_set(const Fact& fact) { return "has the elements " + describe_elements(fact.object.get()); }
std::string describe_code(const Fact&) { return "has the same code and defaults"; }
std::string describe_no_attribute(const Fact& fact) { return "has no own attribute " + expected_object(fact); }
std::string describe_bare(const Fact&) { return "has no own attributes"; }
std::string describe_cell_empty(const Fact&) { return "is unbound"; }
std::string describe_same(const Fact& fact) {
  return "is the same object as " + (fact.other ? fact.other->describe() : std::string("another source"));
}
std::string describe_not_same(const Fact& fact) {
  return "is another object than " + (fact.other ? fact.other->describe() : std::string("another source"));
}

std::string describe_leaf(const Fact& fact) { return fact.number ? "is a leaf" : "is no leaf"; }
std::string saw_item(const Fact&, PyObject* object) {
  auto item = object ? whole_item(object) : std::nullopt;
  return item ? "holds " + std::to_string(*item) : saw_type({}, object);
}
std::string describe_view(const Fact& fact) { return fact.number ? "is a view" : "is no view"; }
std::string describe_item(const Fact& fact) { return "holds " + std::to_string(static_cast<int64_t>(fact.number)); }
std::string describe_array_layout(const Fact&) { return "is an array of the same dtype, shape and strides"; }
std::string describe_offset(const Fact& fact) { return "begins at " + std::to_string(fact.number) + " of its storage"; }
std::string describe_no_gradient(const Fact&) { return "has no gradient"; }
std::string describe_nothing_handled(const Fact&) { return "is handling no exception"; }
std::string describe_distinct(const Fact&) { return "is no other of the objects that were looked at"; }
std::string describe_exhausted(const Fact& fact) { return "has " + std::to_string(fact.number) + " items left"; }
std::string saw_exhausted(const Fact&, PyObject*) { return "more"; }
std::string describe_abc(const Fact&) { return "has the same registered subclasses"; }

std::string describe_not_cached(const Fact& fact) { return "keeps nothing for " + expected_object(fact); }
std::string describe_answers(const Fact& fact) { return "gives " + expected_object(fact); }
std::string saw_answer(const Fact& fact, PyObject* object) {
  Ref answer = object ? ask(object, fact.extra.get()) : Ref();
  return answer ? short_repr(answer.get()) : "an error";
}

constexpr FactRow kFacts[] = {
    /* Identity */ {check_identity, describe_identity, saw_object},
    /* Equals */ {check_equals, describe_equals, saw_object},
    /* TypeIs */ {check_type_is, describe_type, saw_type},
    /* TypeVersion */ {check_type_version, describe_type_version, saw_object},
    /* Tensor */ {check_tensor, describe_tensor, saw_tensor},
    /* ArrayLayout */ {check_array_layout, describe_array_layout, saw_type},
    /* Length */ {check_length, describe_length, saw_length},
    /* Keys */ {check_keys, describe_keys, saw_keys},
    /* Absent */ {check_absent, describe_absent, saw_keys},
    /* Elements */ {check_elements, describe_set, saw_object},
    /* Code */ {check_code, describe_code, saw_object},
    /* NoAttribute */ {check_no_attribute, describe_no_attribute, saw_type},
    /* NoField */ {check_no_field, describe_no_attribute, saw_type},
    /* Bare */ {check_bare, describe_bare, saw_type},
    /* CellEmpty */ {check_cell_empty, describe_cell_empty, saw_object},
    /* SameAs */ {check_same_as, describe_same, saw_object},
    /* NotSameAs */ {check_not_same_as, describe_not_same, saw_object},
    /* Leaf */ {check_leaf, describe_leaf, saw_type},
    /* View */ {check_view, describe_view, saw_type},
    /* Item */ {check_item, describe_item, saw_item},
    /* Offset */ {check_offset, describe_offset, saw_type},
    /* NoGradient */ {check_no_gradient, describe_no_gradient, saw_type},
    /* NothingHandled */ {check_nothing_handled, describe_nothing_handled, saw_type},
    /* Distinct */ {check_distinct, describe_distinct, saw_object},
    /* Exhausted */ {check_exhausted, describe_exhausted, saw_exhausted},
    /* AbcToken */ {check_abc_token, describe_abc, saw_object},
    /* NotCached */ {check_not_cached, describe_not_cached, saw_type},
    /* Answers */ {check_answers, describe_answers, saw_answer},
};

constexpr bool kInvariant[] = {
#define STATOR_GUARD(name, invariant) invariant,
#include "capture/values/guard_kinds.def"
#undef STATOR_GUARD
};
static_assert(std::size(kFacts) == kFactKinds);

constexpr CheckFn kLoads[] = {
    /* Argument */ load_argument,
    /* Function */ load_function,
    /* Pinned */ load_pinned,
    /* InstanceDict */ load_instance_dict,
    /* DictItem */ load_dict_item,
    /* Attribute */ load_attribute,
    /* Item */ load_item,
    /* Cell */ load_cell,
    /* CellContents */ load_cell_contents,
    /* Default */ load_default,
    /* KwDefault */ load_kwdefault,
    /* BoundFunction */ load_bound_function,
    /* BoundSelf */ load_bound_self,
    /* Type */ load_type,
    /* Gradient */ load_gradient,
    /* Referent */ load_referent,
    /* Upcoming */ load_upcoming,
    /* UpcomingKey */ load_upcoming_key,
    /* Counter */ load_counter,
    /* Asked */ load_asked,
    /* Iterated */ load_iterated,
    /* FunctionMode */ load_function_mode,
    /* Proxied */ load_proxied,
    /* ThreadDict */ load_thread_dict,
    /* Cached */ load_cached,
};
static_assert(std::size(kLoads) == kLoadKinds);

}  // namespace

const FactRow& fact_row(FactKind kind) { return kFacts[static_cast<size_t>(kind)]; }
bool is_invariant(FactKind kind) { return kInvariant[static_cast<size_t>(kind)]; }
CheckFn load_row(SourceKind kind) { return kLoads[static_cast<size_t>(kind)]; }

}  // namespace stator::capture
