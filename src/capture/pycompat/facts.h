#pragma once

/// Facts about objects that CPython keeps in version-dependent places. C linkage; nothing here runs user code. GIL
/// held. References are borrowed unless said otherwise.

#define PY_SSIZE_T_CLEAN
#include <Python.h>

#include <stdbool.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

// ---- dictionaries

/// Whether a dict's version tag changes with every store, deletion and insertion. From 3.13 on, stores to instance
/// attributes do not change it.
#define STATOR_HAS_DICT_TAGS (PY_VERSION_HEX < 0x030D0000)

/// A machine word of an object's memory, readable whatever its declared type.
#if defined(__GNUC__)
typedef uint64_t __attribute__((may_alias)) StatorWord;
#else
typedef uint64_t StatorWord;
#endif

/// Address of a dict's version tag (also for subclasses of dict). The tag changes with every store, deletion and
/// insertion, and no two dicts have the same. In 3.12 the low byte holds the dict's watchers instead. NULL if this
/// version has no usable tags.
static inline const StatorWord* stator_dict_tag_place(const PyObject* dict) {
#if STATOR_HAS_DICT_TAGS
#if defined(__GNUC__)
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wdeprecated-declarations"
#endif
  return (const StatorWord*)&((const PyDictObject*)dict)->ma_version_tag;
#if defined(__GNUC__)
#pragma GCC diagnostic pop
#endif
#else
  (void)dict;
  return NULL;
#endif
}

/// The version tag of the exact dict `dict`, which changes when the dict does (not when a value is mutated in place).
/// 0, which never matches, if this version has no usable tags.
static inline uint64_t stator_dict_tag(const PyObject* dict) {
#if STATOR_HAS_DICT_TAGS
  const uint64_t tag = *stator_dict_tag_place(dict);
  return PY_VERSION_HEX < 0x030C0000 ? tag : tag & ~(uint64_t)0xff;
#else
  (void)dict;
  return 0;
#endif
}

/// True if the key table of the exact dict is marked as having only exact str keys: then lookups by str run no user
/// code. False for a table that once held another key.
bool stator_dict_has_str_keys(PyObject* dict);

/// The value of an exact str key, NULL if absent (no error is set). Never calls a key's __eq__ or __hash__: in a table
/// with other keys only exact str keys are compared.
PyObject* stator_dict_get_str(PyObject* dict, PyObject* name);

// ---- types and instances

/// The type's version tag if it has a valid one, else 0. 0 never matches.
static inline unsigned stator_type_version(const PyTypeObject* type) {
#if PY_VERSION_HEX < 0x030D0000
  return type->tp_flags & Py_TPFLAGS_VALID_VERSION_TAG ? type->tp_version_tag : 0;
#else
  return type->tp_version_tag;
#endif
}

/// Address of that tag. A change of the type sets it to 0 in all versions. The upper half of the word is padding.
static inline const StatorWord* stator_type_version_place(const PyTypeObject* type) {
  return (const StatorWord*)&type->tp_version_tag;
}

/// As stator_type_version, but assigns a tag to a type without one. 0 if CPython has no tags left.
unsigned stator_type_assign_version(PyTypeObject* type);

typedef enum {
  kStatorDictNone,    // instances of this type have no __dict__
  kStatorDictEmpty,   // instances can have one, but nothing is stored yet
  kStatorDictInline,  // attributes are stored without a dict object
  kStatorDictObject,
} StatorInstanceDict;

/// How `object` stores its attributes. Does not change it. `*dict` is set for kStatorDictObject, otherwise NULL.
StatorInstanceDict stator_instance_dict(PyObject* object, PyObject** dict);

/// Address of the field that changes when the object gets a `__dict__` object, or another one. Not for kStatorDictNone.
const StatorWord* stator_dict_pointer_place(PyObject* object);

/// The attribute `name` (exact str) stored in the instance, in any of these forms; NULL if absent. Creates no dict.
PyObject* stator_instance_value(PyObject* object, PyObject* name);

/// Iterates over the attributes stored inline (kStatorDictInline), in insertion order; start with *position 0. False at
/// the end.
bool stator_inline_next(PyObject* object, Py_ssize_t* position, PyObject** name, PyObject** value);

/// Whether the instance has neither instance attributes (other than slots) nor a dict object for them.
bool stator_is_bare(PyObject* object);

// ---- iterators

typedef enum {
  kStatorIterOther,
  kStatorIterList,      // source: list, NULL when exhausted; index: next position
  kStatorIterTuple,     // source: tuple, NULL when exhausted; index: next position
  kStatorIterRange,     // start, step, index (items taken; 0 if CPython does not store it), count (items left)
  kStatorIterDictKeys,  // source: dict, NULL when exhausted; index: position as of PyDict_Next; count: items left
  kStatorIterDictValues,
  kStatorIterDictItems,
  kStatorIterListReversed,  // source: list, NULL when exhausted; index: next position
  kStatorIterReversed,      // source: any sequence, NULL when exhausted; index: next position
  kStatorIterEnumerate,     // source: the inner iterator; index: the next number, -1 if it does not fit
  kStatorIterZip,           // source: tuple of the inner iterators; count: 1 if strict
} StatorIterKind;

typedef struct {
  StatorIterKind kind;
  PyObject* source;
  Py_ssize_t index;
  Py_ssize_t count;
  long start, step;  // of the remaining range
} StatorIter;

/// Describes an iterator of one of these exact types without advancing it.
StatorIter stator_iter(PyObject* iterator);

typedef enum {
  kStatorPeekItem,     // the iterator would give `item`; `key` is its key in a dict
  kStatorPeekEnd,      // the iterator would end before
  kStatorPeekUnknown,  // only advancing the iterator would tell
} StatorPeek;

/// The item that an iterator over a list, tuple, range or dict gives after `ahead` other items. `item` and `key` are
/// new references; `key` is set for the items of a dict only. Either pointer may be NULL.
StatorPeek stator_iter_peek(PyObject* iterator, Py_ssize_t ahead, PyObject** key, PyObject** item);

// ---- abstract base classes

/// Address of the counter of registrations with abstract base classes in `_abc`; NULL if unknown. Sets no error.
const StatorWord* stator_abc_counter_place(void);

// ---- threads

/// True while a trace or profile function is set in this thread, or a monitoring tool (3.12 on) is active.
bool stator_is_tracing(PyThreadState* tstate);

/// True while a trace function is set in this thread (a debugger, coverage), or a monitoring tool other than a profiler
/// is registered (3.12 on). Cheap: asked in each call.
bool stator_is_debugged(const PyThreadState* tstate);

/// True if a monitoring tool has local events for this code object (3.12 on).
bool stator_code_is_monitored(PyCodeObject* code);

/// Code object (borrowed) of the running frame; NULL if there is none.
PyCodeObject* stator_running_code(PyThreadState* tstate);

#ifdef __cplusplus
}
#endif
