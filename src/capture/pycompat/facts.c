#define Py_BUILD_CORE 1
#include "capture/pycompat/facts.h"

#include <internal/pycore_dict.h>
#include <internal/pycore_frame.h>
#include <internal/pycore_interp.h>
#include <internal/pycore_object.h>
#include <internal/pycore_pystate.h>
#if PY_VERSION_HEX >= 0x030C0000
#include <internal/pycore_list.h>
#include <internal/pycore_range.h>
#include <internal/pycore_tuple.h>
#endif

// ---- dictionaries

bool stator_dict_has_str_keys(PyObject* dict) { return DK_IS_UNICODE(((PyDictObject*)dict)->ma_keys); }

static bool same_str(PyObject* a, PyObject* b) {
  return a == b || (PyUnicode_CheckExact(a) && PyUnicode_Compare(a, b) == 0);
}

PyObject* stator_dict_get_str(PyObject* dict, PyObject* name) {
  if (stator_dict_has_str_keys(dict)) return PyDict_GetItemWithError(dict, name);
  Py_ssize_t position = 0;
  PyObject *key, *value;
  while (PyDict_Next(dict, &position, &key, &value)) {
    if (same_str(key, name)) return value;
  }
  return NULL;
}

// ---- types and instances

unsigned stator_type_assign_version(PyTypeObject* type) {
  const unsigned version = stator_type_version(type);
  if (version) return version;
#if PY_VERSION_HEX >= 0x030C0000
  PyUnstable_Type_AssignVersionTag(type);
#else
  // 3.11 assigns tags only from its method cache.
  PyObject* name = PyUnicode_InternFromString("__class__");
  if (!name) {
    PyErr_Clear();
    return 0;
  }
  _PyType_Lookup(type, name);
  Py_DECREF(name);
#endif
  return stator_type_version(type);
}

// The attributes that an object stores without a dict, or NULL.
static PyDictValues* inline_values(PyObject* object) {
  PyTypeObject* type = Py_TYPE(object);
  if (!(type->tp_flags & Py_TPFLAGS_MANAGED_DICT)) return NULL;
#if PY_VERSION_HEX < 0x030C0000
  return *_PyObject_ValuesPointer(object);
#elif PY_VERSION_HEX < 0x030D0000
  const PyDictOrValues either = *_PyObject_DictOrValuesPointer(object);
  return _PyDictOrValues_IsValues(either) ? _PyDictOrValues_GetValues(either) : NULL;
#else
  // With a dict object 3.13 goes on to use the same values, through the dict.
  if (!(type->tp_flags & Py_TPFLAGS_INLINE_VALUES) || _PyObject_GetManagedDict(object)) return NULL;
  PyDictValues* values = _PyObject_InlineValues(object);
  return values->valid ? values : NULL;
#endif
}

static PyObject* managed_dict(PyObject* object) {
#if PY_VERSION_HEX < 0x030C0000
  return *_PyObject_ManagedDictPointer(object);
#elif PY_VERSION_HEX < 0x030D0000
  return _PyDictOrValues_GetDict(*_PyObject_DictOrValuesPointer(object));
#else
  return (PyObject*)_PyObject_GetManagedDict(object);
#endif
}

StatorInstanceDict stator_instance_dict(PyObject* object, PyObject** dict) {
  *dict = NULL;
  if (inline_values(object)) return kStatorDictInline;
  if (Py_TYPE(object)->tp_flags & Py_TPFLAGS_MANAGED_DICT) {
    *dict = managed_dict(object);
  } else {
    // Not managed: the pointer is only computed.
    PyObject** place = _PyObject_GetDictPtr(object);
    if (!place) return kStatorDictNone;
    *dict = *place;
  }
  return *dict ? kStatorDictObject : kStatorDictEmpty;
}

PyObject* stator_instance_dict_make(PyObject* object) {
  PyObject* dict;
  switch (stator_instance_dict(object, &dict)) {
    case kStatorDictNone:
      return NULL;
    case kStatorDictObject:
      return dict;
    default:
      break;
  }
  dict = PyObject_GenericGetDict(object, NULL);
  Py_XDECREF(dict);  // the object holds it
  return dict;
}

static PyDictKeysObject* shared_keys(PyObject* object) { return ((PyHeapTypeObject*)Py_TYPE(object))->ht_cached_keys; }

// Which value was stored `position`-th, and how many there are.
static Py_ssize_t inline_count(PyDictValues* values) {
#if PY_VERSION_HEX < 0x030D0000
  return ((uint8_t*)values)[-2];
#else
  return values->size;
#endif
}

static Py_ssize_t inline_slot(PyDictValues* values, Py_ssize_t position) {
#if PY_VERSION_HEX < 0x030D0000
  return ((uint8_t*)values)[-3 - position];
#else
  return get_insertion_order_array(values)[position];
#endif
}

bool stator_inline_next(PyObject* object, Py_ssize_t* position, PyObject** name, PyObject** value) {
  PyDictValues* values = inline_values(object);
  if (!values || *position >= inline_count(values)) return false;
  const Py_ssize_t slot = inline_slot(values, (*position)++);
  *name = DK_UNICODE_ENTRIES(shared_keys(object))[slot].me_key;
  *value = values->values[slot];
  return true;
}

PyObject* stator_instance_value(PyObject* object, PyObject* name) {
  PyObject* dict;
  switch (stator_instance_dict(object, &dict)) {
    case kStatorDictObject:
      return stator_dict_get_str(dict, name);
    case kStatorDictInline:
      break;
    default:
      return NULL;
  }
  PyObject *key, *value;
  for (Py_ssize_t position = 0; stator_inline_next(object, &position, &key, &value);) {
    if (same_str(key, name)) return value;
  }
  return NULL;
}

// ---- callables

// Declared in descrobject.c only; the layout has not changed since 2.2.
typedef struct {
  PyObject_HEAD
  PyObject* descriptor;
  PyObject* self;
} MethodWrapper;

static PyTypeObject* method_wrapper_type(void) {
  static PyTypeObject* type = NULL;
  if (!type) {
    PyObject* wrapper = PyObject_GetAttrString(Py_None, "__str__");
    if (!wrapper) {
      PyErr_Clear();
      return NULL;
    }
    type = Py_TYPE(wrapper);  // static: lives on
    Py_DECREF(wrapper);
  }
  return type;
}

StatorCallable stator_callable(PyObject* callable) {
  StatorCallable out = {kStatorCallableOther, NULL, NULL, NULL};
  PyTypeObject* type = Py_TYPE(callable);
  if (type == &PyFunction_Type) {
    out.kind = kStatorCallableFunction;
  } else if (type == &PyMethod_Type) {
    out.kind = kStatorCallableBoundMethod;
    out.self = PyMethod_GET_SELF(callable);
    out.target = PyMethod_GET_FUNCTION(callable);
  } else if (type == &PyCFunction_Type || type == &PyCMethod_Type) {
    out.kind = kStatorCallableBuiltin;
    out.method = ((PyCFunctionObject*)callable)->m_ml;
    out.self = PyCFunction_GET_SELF(callable);
  } else if (type == &PyMethodDescr_Type || type == &PyClassMethodDescr_Type) {
    out.kind = type == &PyMethodDescr_Type ? kStatorCallableMethodDescriptor : kStatorCallableClassMethodDescriptor;
    out.method = ((PyMethodDescrObject*)callable)->d_method;
    out.target = (PyObject*)PyDescr_TYPE(callable);
  } else if (type == &PyWrapperDescr_Type) {
    out.kind = kStatorCallableSlotWrapper;
    out.target = (PyObject*)PyDescr_TYPE(callable);
  } else if (PyType_Check(callable)) {
    out.kind = kStatorCallableType;
  } else if (type == method_wrapper_type()) {
    out.kind = kStatorCallableMethodWrapper;
    out.self = ((MethodWrapper*)callable)->self;
    out.target = ((MethodWrapper*)callable)->descriptor;
  }
  return out;
}

// ---- iterators, ranges, views

// Where 3.11 keeps these private, the layouts are those of its listobject.c, tupleobject.c and rangeobject.c.
#if PY_VERSION_HEX < 0x030C0000
typedef struct {
  PyObject_HEAD
  Py_ssize_t it_index;
  PyObject* it_seq;
} SequenceIter;
typedef struct {
  PyObject_HEAD
  long index, start, step, len;
} RangeIter;
#else
typedef _PyListIterObject SequenceIter;
typedef _PyRangeIterObject RangeIter;
_Static_assert(sizeof(_PyListIterObject) == sizeof(_PyTupleIterObject), "one layout serves both");
#endif

// rangeobject.c and dictobject.c; the same in 3.11 to 3.13.
typedef struct {
  PyObject_HEAD
  PyObject *start, *stop, *step, *length;
} RangeObject;
typedef struct {
  PyObject_HEAD
  PyObject* di_dict;
  Py_ssize_t di_used;
  Py_ssize_t di_pos;
  PyObject* di_result;
  Py_ssize_t len;
} DictIter;
typedef struct {
  PyObject_HEAD
  PyObject* dv_dict;
} DictView;

StatorIter stator_iter(PyObject* iterator) {
  static const struct {
    PyTypeObject* type;
    StatorIterKind kind;
  } kinds[] = {{&PyListIter_Type, kStatorIterList},         {&PyTupleIter_Type, kStatorIterTuple},
               {&PyRangeIter_Type, kStatorIterRange},       {&PyDictIterKey_Type, kStatorIterDictKeys},
               {&PyDictIterValue_Type, kStatorIterDictValues}, {&PyDictIterItem_Type, kStatorIterDictItems}};
  StatorIter out = {kStatorIterOther, NULL, 0, 0, 0, 0};
  for (size_t i = 0; i < Py_ARRAY_LENGTH(kinds); ++i) {
    if (Py_TYPE(iterator) == kinds[i].type) out.kind = kinds[i].kind;
  }
  switch (out.kind) {
    case kStatorIterOther:
      break;
    case kStatorIterList:
    case kStatorIterTuple:
      out.source = (PyObject*)((SequenceIter*)iterator)->it_seq;
      out.index = ((SequenceIter*)iterator)->it_index;
      break;
    case kStatorIterRange: {
      const RangeIter* it = (const RangeIter*)iterator;
      out.step = it->step;
#if PY_VERSION_HEX < 0x030C0000
      out.start = (long)((unsigned long)it->start + (unsigned long)it->index * (unsigned long)it->step);
      out.index = it->index;
      out.count = it->len - it->index;
#else
      out.start = it->start;
      out.count = it->len;
#endif
      break;
    }
    default:
      out.source = ((DictIter*)iterator)->di_dict;
      out.index = ((DictIter*)iterator)->di_pos;
      out.count = ((DictIter*)iterator)->len;
  }
  return out;
}

StatorRange stator_range(PyObject* range) {
  const RangeObject* r = (const RangeObject*)range;
  const StatorRange parts = {r->start, r->stop, r->step, r->length};
  return parts;
}

PyObject* stator_view_dict(PyObject* view) { return ((DictView*)view)->dv_dict; }

// ---- threads

bool stator_is_tracing(PyThreadState* tstate) {
  if (tstate->c_tracefunc || tstate->c_profilefunc) return true;
#if PY_VERSION_HEX < 0x030C0000
  return tstate->cframe->use_tracing != 0;
#else
  // The two highest tools stand for sys.settrace and sys.setprofile of whichever thread: that was asked above.
  const uint8_t tools = (1 << PY_MONITORING_SYS_PROFILE_ID) - 1;
  for (size_t event = 0; event < Py_ARRAY_LENGTH(tstate->interp->monitors.tools); ++event) {
    if (tstate->interp->monitors.tools[event] & tools) return true;
  }
  return false;
#endif
}

bool stator_code_is_monitored(PyCodeObject* code) {
#if PY_VERSION_HEX >= 0x030C0000
  if (!code->_co_monitoring) return false;
  for (size_t event = 0; event < Py_ARRAY_LENGTH(code->_co_monitoring->local_monitors.tools); ++event) {
    if (code->_co_monitoring->local_monitors.tools[event]) return true;
  }
#else
  (void)code;
#endif
  return false;
}

static _PyInterpreterFrame* first_complete(_PyInterpreterFrame* frame) {
  while (frame && _PyFrame_IsIncomplete(frame)) frame = frame->previous;
  return frame;
}

bool stator_where(PyThreadState* tstate, int depth, PyCodeObject** code, int* line, int* offset) {
#if PY_VERSION_HEX < 0x030D0000
  _PyInterpreterFrame* frame = first_complete(tstate->cframe->current_frame);
#else
  _PyInterpreterFrame* frame = first_complete(tstate->current_frame);
#endif
  while (frame && depth-- > 0) frame = first_complete(frame->previous);
  if (!frame) return false;
#if PY_VERSION_HEX < 0x030D0000
  *code = frame->f_code;
#else
  *code = _PyFrame_GetCode(frame);
#endif
  const int unit = _PyInterpreterFrame_LASTI(frame);
  const int found = PyCode_Addr2Line(*code, unit * (int)sizeof(_Py_CODEUNIT));
  *line = found > 0 ? found : 0;
  if (offset) *offset = unit;
  return true;
}

int stator_current_line(PyThreadState* tstate) {
  PyCodeObject* code;
  int line;
  return stator_where(tstate, 0, &code, &line, NULL) ? line : 0;
}
