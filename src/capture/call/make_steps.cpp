// How each kind of plan step is made (column `make` of plan_steps.def). Null with a Python error set on failure; steps
// that only have an effect give None.
#include "capture/call/make_steps.h"

#include <vector>

#include "capture/call/new_class.h"
#include "capture/guards/literals.h"
#include "capture/pycompat/facts.h"
#include "capture/pycompat/frame.h"

namespace stator::capture {
namespace {

Ref make_constant(const Step& s, PlanRun&) { return s.object.ref(); }
Ref make_slot(const Step& s, PlanRun& m) { return Ref::borrow(m.guards.slot(s.a)); }

Ref make_output(const Step& s, PlanRun& m) {
  PyObject* tensor = m.outputs[s.a].get();
  if (!s.object) return Ref::borrow(tensor);
  // Usually the tensor is new and its class can be changed. If it is another output or an input too, it must stay as it
  // is.
  int uses = 0;
  for (const Ref& output : m.outputs) uses += output.get() == tensor;
  for (PyObject* input : m.inputs) uses += input == tensor;
  if (uses == 1) {
    static PyObject* const name = PyUnicode_InternFromString("__class__");
    return PyObject_SetAttr(tensor, name, s.object.get()) < 0 ? Ref() : Ref::borrow(tensor);
  }
  static PyObject* const method = PyUnicode_InternFromString("as_subclass");
  return Ref::steal(PyObject_CallMethodOneArg(tensor, method, s.object.get()));
}

Ref make_tuple(const Step& s, PlanRun& m) {
  Ref tuple = Ref::steal(PyTuple_New(s.items.size()));
  for (size_t i = 0; tuple && i < s.items.size(); ++i)
    PyTuple_SET_ITEM(tuple.get(), i, Ref(m.made[s.items[i]]).release());
  return tuple;
}

PyTypeObject* class_of(const Step& s, PlanRun& m) {
  return s.object ? s.object.as<PyTypeObject>() : reinterpret_cast<PyTypeObject*>(m.at(s.b));
}

Ref make_named_tuple(const Step& s, PlanRun& m) {
  Ref items = make_tuple(s, m);
  PyTypeObject* type = class_of(s, m);
  // Structure sequences (torch's return types, sys.version_info) are made by their own constructor.
  static PyObject* const structure = PyUnicode_InternFromString("n_sequence_fields");
  if (!_PyType_Lookup(type, structure)) {
    Ref arguments = Ref::steal(PyTuple_Pack(1, items.get()));
    return Ref::steal(PyTuple_Type.tp_new(type, arguments.get(), nullptr));
  }
  return Ref::steal(PyObject_CallOneArg(reinterpret_cast<PyObject*>(type), items.get()));
}

Ref make_list(const Step& s, PlanRun& m) {
  Ref list = Ref::steal(PyList_New(s.items.size()));
  for (size_t i = 0; list && i < s.items.size(); ++i) PyList_SET_ITEM(list.get(), i, Ref(m.made[s.items[i]]).release());
  return list;
}

bool fill(PyObject* dict, const std::vector<int32_t>& items, PlanRun& m) {
  bool ordered = !PyDict_CheckExact(dict) && PyODict_Check(dict);
  for (size_t i = 0; i + 1 < items.size(); i += 2) {
    PyObject *key = m.at(items[i]), *value = m.at(items[i + 1]);
    if ((ordered ? PyODict_SetItem(dict, key, value) : PyDict_SetItem(dict, key, value)) < 0) return false;
  }
  return true;
}

Ref make_dict(const Step& s, PlanRun& m) {
  Ref dict = Ref::steal(s.a >= 0                                      ? PyObject_CallOneArg(s.object.get(), m.at(s.a))
                        : s.object.as<PyTypeObject>() == &PyDict_Type ? PyDict_New()
                                                                      : PyObject_CallNoArgs(s.object.get()));
  if (!dict || !fill(dict.get(), s.items, m)) return {};
  return dict;
}

Ref make_set(const Step& s, PlanRun& m) {
  Ref elements = s.object ? s.object.ref() : make_tuple(s, m);
  return Ref::steal(s.a ? PyFrozenSet_New(elements.get()) : PySet_New(elements.get()));
}
Ref make_slice(const Step& s, PlanRun& m) {
  return Ref::steal(PySlice_New(m.at(s.items[0]), m.at(s.items[1]), m.at(s.items[2])));
}
Ref make_view(const Step& s, PlanRun& m) { return Ref::steal(PyObject_CallMethodNoArgs(m.at(s.a), s.object.get())); }

Ref make_object(const Step& s, PlanRun& m) {
  PyTypeObject* type = class_of(s, m);
  // The class's own __new__ and __init__ were interpreted during capture: call the __new__ of the built-in base only.
  PyTypeObject* base = type;
  while (base->tp_flags & Py_TPFLAGS_HEAPTYPE) base = base->tp_base;
  Ref arguments = make_tuple(s, m);
  return Ref::steal(base->tp_new(type, arguments.get(), nullptr));
}

Ref make_cell(const Step&, PlanRun&) { return Ref::steal(PyCell_New(nullptr)); }

Ref make_bound(const Step& s, PlanRun& m) {
  PyObject *function = m.at(s.a), *self = m.at(s.b);
  if (PyFunction_Check(function)) return Ref::steal(PyMethod_New(function, self));
  descrgetfunc get = Py_TYPE(function)->tp_descr_get;
  // Here `self` is the class.
  if (Py_IS_TYPE(function, &PyClassMethodDescr_Type)) return Ref::steal(get(function, nullptr, self));
  return get ? Ref::steal(get(function, self, reinterpret_cast<PyObject*>(Py_TYPE(self))))
             : Ref::steal(PyMethod_New(function, self));
}

Ref make_partial(const Step& s, PlanRun& m) {
  static PyObject* const type = [] {
    Ref functools = Ref::steal(PyImport_ImportModule("functools"));
    return functools ? PyObject_GetAttrString(functools.get(), "partial") : nullptr;
  }();
  if (!type) return {};
  PyObject* bound = m.at(s.items[1]);
  Ref arguments = Ref::steal(PyTuple_New(1 + PyTuple_GET_SIZE(bound)));
  PyTuple_SET_ITEM(arguments.get(), 0, Ref::borrow(m.at(s.items[0])).release());
  for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(bound); ++i)
    PyTuple_SET_ITEM(arguments.get(), i + 1, Ref::borrow(PyTuple_GET_ITEM(bound, i)).release());
  return Ref::steal(PyObject_Call(type, arguments.get(), m.at(s.items[2])));
}

Ref make_function(const Step& s, PlanRun& m) {
  Ref function = Ref::steal(PyFunction_New(s.object.get(), m.at(s.items[0])));
  if (!function) return {};
  if (s.items[1] >= 0) PyFunction_SetDefaults(function.get(), m.at(s.items[1]));
  if (s.items[2] >= 0) PyFunction_SetKwDefaults(function.get(), m.at(s.items[2]));
  if (s.items.size() > 3) {
    Ref closure = Ref::steal(PyTuple_New(s.items.size() - 3));
    for (size_t i = 3; i < s.items.size(); ++i)
      PyTuple_SET_ITEM(closure.get(), i - 3, Ref::borrow(m.at(s.items[i])).release());
    PyFunction_SetClosure(function.get(), closure.get());
  }
  return function;
}

Ref done() { return Ref::borrow(Py_None); }

/// The present value of an instance attribute; null if there is none, or if a data descriptor would handle a store.
PyObject* plain_attribute(PyObject* owner, PyObject* name) {
  PyObject* on_class = _PyType_Lookup(Py_TYPE(owner), name);
  return on_class && Py_TYPE(on_class)->tp_descr_set ? nullptr : stator_instance_value(owner, name);
}

Ref set_attribute(const Step& s, PlanRun& m) {
  PyObject *owner = m.at(s.a), *value = m.at(s.b), *name = s.object.get();
  auto set = PyType_Check(owner) ? PyObject_SetAttr : PyObject_GenericSetAttr;
  PyObject* present = value && !PyType_Check(owner) ? plain_attribute(owner, name) : nullptr;
  // A store of the value that is there already is left out. So are merged stores, unless dropping the present value may
  // run code, which could see their values.
  bool is_literal = present && is_literal_type(Py_TYPE(present));
  if (s.hint == StepHint::Overwrites && !is_literal) {
    for (int32_t item : s.items)
      if (set(owner, name, m.at(item)) < 0) return {};
  } else if (present == value && present) {
    return done();
  }
  return set(owner, name, value) < 0 ? Ref() : done();
}

Ref set_attributes(const Step& s, PlanRun& m) {
  PyObject* owner = m.at(s.a);
  PyTypeObject* type = Py_TYPE(owner);
  PyObject** place = type->tp_dictoffset > 0 ? _PyObject_GetDictPtr(owner) : nullptr;
  auto name = [&](size_t i) { return PyTuple_GET_ITEM(s.extra.get(), i); };
  // If the class is unchanged since capture, no name is that of a data descriptor: fill a new __dict__ at once.
  if (place && !*place && stator_type_version(type) == s.number && s.number) {
    Ref dict = Ref::steal(PyDict_Copy(s.object.get()));
    for (size_t i = 0; dict && i < s.items.size(); ++i) {
      PyObject* value = m.at(s.items[i]);  // null: a constant, copied already; the others are None in the copy
      if (value && value != Py_None && PyDict_SetItem(dict.get(), name(i), value) < 0) return {};
    }
    *place = dict.release();
    return *place ? done() : Ref();
  }
  for (size_t i = 0; i < s.items.size(); ++i) {
    PyObject* value = s.items[i] >= 0 ? m.at(s.items[i]) : PyDict_GetItemWithError(s.object.get(), name(i));
    if (PyObject_GenericSetAttr(owner, name(i), value) < 0) return {};
  }
  return done();
}

Ref fill_dict(const Step& s, PlanRun& m) {
  PyObject* dict = m.at(s.a);
  if (s.hint != StepHint::Fresh && PyODict_Check(dict)) {
    // OrderedDict.clear itself: a subclass may override it.
    Ref clear = Ref::steal(PyObject_GetAttrString(reinterpret_cast<PyObject*>(&PyODict_Type), "clear"));
    if (!clear || !Ref::steal(PyObject_CallOneArg(clear.get(), dict))) return {};
  } else if (s.hint != StepHint::Fresh) {
    PyDict_Clear(dict);
  }
  return fill(dict, s.items, m) ? done() : Ref();
}
Ref fill_list(const Step& s, PlanRun& m) {
  Ref items = make_list(s, m);
  PyObject* list = m.at(s.a);
  return PyList_SetSlice(list, 0, PyList_GET_SIZE(list), items.get()) < 0 ? Ref() : done();
}
Ref call_method(const Step& s, PlanRun& m) {
  std::vector<PyObject*> arguments{m.at(s.a)};
  for (int32_t item : s.items) arguments.push_back(m.at(item));
  Ref result = Ref::steal(PyObject_VectorcallMethod(s.object.get(), arguments.data(), arguments.size(), nullptr));
  return result ? done() : Ref();
}
Ref set_cell(const Step& s, PlanRun& m) { return PyCell_Set(m.at(s.a), m.at(s.b)) < 0 ? Ref() : done(); }
Ref set_item(const Step& s, PlanRun& m) {
  PyObject* dict = m.at(s.a);
  int failed = s.b < 0 ? PyDict_DelItem(dict, s.object.get()) : PyDict_SetItem(dict, s.object.get(), m.at(s.b));
  return failed < 0 ? Ref() : done();
}

bool take(PyObject* iterator, int32_t count) {
  if (count <= 0) return true;
  for (int32_t i = 0; i < count; ++i) {
    Ref item = Ref::steal(PyIter_Next(iterator));
    if (!item) break;
  }
  return !PyErr_Occurred();
}

Ref take_items(const Step& s, PlanRun& m) { return take(m.at(s.a), s.b) ? done() : Ref(); }

Ref call_object(const Step& s, PlanRun& m) {
  std::vector<PyObject*> args;
  for (int32_t item : s.items) args.push_back(m.at(item));
  size_t names = s.extra ? PyTuple_GET_SIZE(s.extra.get()) : 0;
  Ref made = Ref::steal(PyObject_Vectorcall(s.object.get(), args.data(), args.size() - names, s.extra.get()));
  return made && take(made.get(), s.a) ? std::move(made) : Ref();
}

Ref make_generator(const Step& s, PlanRun& m) {
  PyObject* function = m.at(s.items[0]);
  if (s.a < 0) return Ref::steal(PyObject_Call(function, m.at(s.items[1]), m.at(s.items[2])));
  auto* code = reinterpret_cast<PyCodeObject*>(PyFunction_GET_CODE(function));
  std::vector<PyObject*> placeholders(code->co_argcount + code->co_kwonlyargcount, Py_None);
  Ref names = code->co_kwonlyargcount ? Ref::steal(PyTuple_GetSlice(code->co_localsplusnames, code->co_argcount,
                                                                    code->co_argcount + code->co_kwonlyargcount))
                                      : Ref();
  Ref generator = Ref::steal(PyObject_Vectorcall(function, placeholders.data(), code->co_argcount, names.get()));
  if (!generator) return {};
  std::vector<PyObject*> values;
  for (size_t i = 1; i < s.items.size(); ++i) values.push_back(Ref::borrow(m.at(s.items[i])).release());
  StatorFrameState state{values.data(), values.data() + s.a, static_cast<int>(values.size()) - s.a, s.b};
  int failed = stator_generator_fill(generator.get(), &state);
  for (PyObject* left : values) Py_XDECREF(left);
  return failed ? Ref() : generator;
}

Ref make_class(const Step& s, PlanRun& m) {
  return new_class(s.object.as<PyTypeObject>(), m.at(s.items[0]), m.at(s.items[1]), m.at(s.items[2]));
}

}  // namespace

const StepFn kStepMakers[] = {
#define STATOR_STEP(name, make, text, a, b, observes) make,
#include "capture/call/plan_steps.def"
#undef STATOR_STEP
};

}  // namespace stator::capture
