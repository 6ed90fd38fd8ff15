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

/// Whether a dict's tag changes with every store, deletion and insertion. From 3.13 on stores to instance attributes
/// go past the tag.
#define STATOR_HAS_DICT_TAGS (PY_VERSION_HEX < 0x030D0000)

/// A word of an object's memory, whatever it is declared as.
#if defined(__GNUC__)
typedef uint64_t __attribute__((may_alias)) StatorWord;
#else
typedef uint64_t StatorWord;
#endif

/// Where any dict (of a subclass too) keeps a number that is never the same after a store, deletion or insertion, nor
/// in another dict, as long as the low byte counts: 3.12 keeps the watchers of the dict there. NULL without usable
/// tags.
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

/// A number that changes when the exact dict `dict` does (not when a value is mutated in place). 0 never matches: this
/// version has no usable tags.
static inline uint64_t stator_dict_tag(const PyObject* dict) {
#if STATOR_HAS_DICT_TAGS
  const uint64_t tag = *stator_dict_tag_place(dict);
  return PY_VERSION_HEX < 0x030C0000 ? tag : tag & ~(uint64_t)0xff;
#else
  (void)dict;
  return 0;
#endif
}

/// True when all keys of the exact dict are exact str, as its key table knows: then lookups by str run no user code.
/// False for a table that once held another key.
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

/// Where that tag is kept: a change of the type makes it 0 there in all versions. The upper half is padding.
static inline const StatorWord* stator_type_version_place(const PyTypeObject* type) {
  return (const StatorWord*)&type->tp_version_tag;
}

/// As above, but a type without a tag gets one first; 0 when CPython has no tags left.
unsigned stator_type_assign_version(PyTypeObject* type);

typedef enum {
  kStatorDictNone,    // instances of this type have no __dict__
  kStatorDictEmpty,   // there is a place for one, nothing is stored yet
  kStatorDictInline,  // attributes are stored without a dict object
  kStatorDictObject,
} StatorInstanceDict;

/// How `object` keeps its attributes; changes nothing. `*dict` is set for kStatorDictObject, else NULL.
StatorInstanceDict stator_instance_dict(PyObject* object, PyObject** dict);

/// The attribute `name` (exact str) as stored in the instance, in whatever form; NULL if absent. Makes no dict.
PyObject* stator_instance_value(PyObject* object, PyObject* name);

/// Walks the attributes stored inline (kStatorDictInline), in insertion order; start with *position 0. False at the
/// end.
bool stator_inline_next(PyObject* object, Py_ssize_t* position, PyObject** name, PyObject** value);

/// Whether the instance has no attributes beside those of its class and its slots, nor a dict for them that was asked
/// for.
bool stator_is_bare(PyObject* object);

// ---- iterators

typedef enum {
  kStatorIterOther,
  kStatorIterList,      // source: list, NULL when exhausted; index: next position
  kStatorIterTuple,     // likewise
  kStatorIterRange,     // start, step, index (items taken, 0 where CPython does not keep it), count (items left)
  kStatorIterDictKeys,  // source: dict, NULL when exhausted; index: position as of PyDict_Next; count: items left
  kStatorIterDictValues,
  kStatorIterDictItems,
  kStatorIterListReversed,  // source: list, NULL when exhausted; index: next position
  kStatorIterReversed,      // source: any sequence, NULL when exhausted; index: next position
  kStatorIterEnumerate,     // source: the iterator it asks; index: the next number, -1 where that is no small one
  kStatorIterZip,           // source: tuple of the iterators it asks; count: 1 if they must end together
} StatorIterKind;

typedef struct {
  StatorIterKind kind;
  PyObject* source;
  Py_ssize_t index;
  Py_ssize_t count;
  long start, step;  // of what is left of a range
} StatorIter;

/// Exact types only. Reads, never advances.
StatorIter stator_iter(PyObject* iterator);

typedef enum {
  kStatorPeekItem,     // it would give `item`, and has `key` for it in a dict
  kStatorPeekEnd,      // it would end before
  kStatorPeekUnknown,  // that cannot be told without asking it
} StatorPeek;

/// What an iterator over a list, tuple, range or dict gives after `ahead` other items. `item` and `key` are new
/// references; `key` is set for the items of a dict only. Any of them may be NULL where it is not wanted.
StatorPeek stator_iter_peek(PyObject* iterator, Py_ssize_t ahead, PyObject** key, PyObject** item);

// ---- abstract base classes

/// Where `_abc` counts registrations with abstract base classes, or NULL where that place is not known. Never an error.
const StatorWord* stator_abc_counter_place(void);

// ---- threads

/// True while a trace or profile function of this thread, or a monitoring tool (3.12 on), wants events.
bool stator_is_tracing(PyThreadState* tstate);

/// True if a tool asked for events of this code object alone (3.12 on).
bool stator_code_is_monitored(PyCodeObject* code);

/// Code (borrowed) of the running frame, NULL if there is none.
PyCodeObject* stator_running_code(PyThreadState* tstate);

#ifdef __cplusplus
}
#endif
