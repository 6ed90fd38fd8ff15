#define Py_BUILD_CORE 1
#include "capture/pycompat/facts.h"

#include <internal/pycore_dict.h>
#include <internal/pycore_object.h>

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

// The attribute values that an object stores without a dict, or NULL.
static PyDictValues* inline_values(PyObject* object) {
  PyTypeObject* type = Py_TYPE(object);
  if (!(type->tp_flags & Py_TPFLAGS_MANAGED_DICT)) return NULL;
#if PY_VERSION_HEX < 0x030C0000
  return *_PyObject_ValuesPointer(object);
#elif PY_VERSION_HEX < 0x030D0000
  const PyDictOrValues either = *_PyObject_DictOrValuesPointer(object);
  return _PyDictOrValues_IsValues(either) ? _PyDictOrValues_GetValues(either) : NULL;
#else
  // If there is a dict object, 3.13 uses the same values through the dict.
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
    // Not a managed dict: this only computes the address.
    PyObject** place = _PyObject_GetDictPtr(object);
    if (!place) return kStatorDictNone;
    *dict = *place;
  }
  return *dict ? kStatorDictObject : kStatorDictEmpty;
}

const StatorWord* stator_dict_pointer_place(PyObject* object) {
  if (!(Py_TYPE(object)->tp_flags & Py_TPFLAGS_MANAGED_DICT)) return (const StatorWord*)_PyObject_GetDictPtr(object);
#if PY_VERSION_HEX < 0x030C0000
  return (const StatorWord*)_PyObject_ManagedDictPointer(object);
#elif PY_VERSION_HEX < 0x030D0000
  return (const StatorWord*)_PyObject_DictOrValuesPointer(object);
#else
  return (const StatorWord*)_PyObject_ManagedDictPointer(object);
#endif
}

static PyDictKeysObject* shared_keys(PyObject* object) { return ((PyHeapTypeObject*)Py_TYPE(object))->ht_cached_keys; }

// The number of stored values, and (below) the index of the `position`-th one.
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

bool stator_is_bare(PyObject* object) {
  PyObject *dict, *name, *value;
  Py_ssize_t position = 0;
  switch (stator_instance_dict(object, &dict)) {
    case kStatorDictObject:
      return false;
    case kStatorDictInline:
      return !stator_inline_next(object, &position, &name, &value);
    default:
      return true;
  }
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
