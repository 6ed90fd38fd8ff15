#include "capture/pycompat/hidden.h"

// ---- functools.lru_cache. 3.11 and 3.12 have the same layout; is_layout_of verifies it on a sample cache.

typedef struct Link {
  PyObject_HEAD struct Link *prev, *next;
  Py_hash_t hash;
  PyObject *key, *result;
} Link;

typedef struct {
  Link root;
  ternaryfunc wrapper;
  int typed;
  PyObject* cache;
  Py_ssize_t hits;
  PyObject* func;
  Py_ssize_t maxsize;
  Py_ssize_t misses;
  PyObject* kwd_mark;
} Cache;

/// The key with its weak references resolved. New reference.
static PyObject* strong_key(PyObject* key) {
  if (!PyTuple_CheckExact(key)) return Py_NewRef(key);
  const Py_ssize_t size = PyTuple_GET_SIZE(key);
  bool is_weak = false;
  for (Py_ssize_t i = 0; i < size; ++i) is_weak = is_weak || PyWeakref_CheckRefExact(PyTuple_GET_ITEM(key, i));
  if (!is_weak) return Py_NewRef(key);
  PyObject* strong = PyTuple_New(size);
  for (Py_ssize_t i = 0; strong && i < size; ++i) {
    PyObject* part = PyTuple_GET_ITEM(key, i);
    // A dead reference gives None, so the key is not found.
    PyTuple_SET_ITEM(strong, i, PyWeakref_CheckRefExact(part) ? PyObject_CallNoArgs(part) : Py_NewRef(part));
  }
  return strong;
}

static PyObject* stored_result(Cache* self, PyObject* given) {
  PyObject* key = strong_key(given);
  PyObject* found = key ? PyDict_GetItemWithError(self->cache, key) : NULL;
  Py_XDECREF(key);
  if (!found) PyErr_Clear();
  return found && self->maxsize >= 0 ? ((Link*)found)->result : found;
}

/// Makes a cache with this limit, stores one result, and verifies that it is found through the assumed layout.
static bool is_layout_of(PyObject* lru_cache, PyObject* limit, Py_ssize_t maxsize) {
  PyObject* text = PyObject_GetAttrString((PyObject*)Py_TYPE(limit), "__repr__");
  PyObject* decorate = text ? PyObject_CallFunctionObjArgs(lru_cache, limit, Py_True, NULL) : NULL;
  PyObject* cached = decorate ? PyObject_CallOneArg(decorate, text) : NULL;
  PyObject* result = cached ? PyObject_CallOneArg(cached, limit) : NULL;
  bool is_known = false;
  if (result && (size_t)Py_TYPE(cached)->tp_basicsize >= sizeof(Cache)) {
    Cache* self = (Cache*)cached;
    is_known = self->typed == 1 && self->hits == 0 && self->misses == 1 && self->maxsize == maxsize &&
               self->func == text && PyDict_CheckExact(self->cache) && PyDict_GET_SIZE(self->cache) == 1;
    PyObject* key = is_known ? stator_cache_key(cached, &limit, 1, NULL) : NULL;
    is_known = key && stored_result(self, key) == result;
    Py_XDECREF(key);
  }
  Py_XDECREF(result);
  Py_XDECREF(cached);
  Py_XDECREF(decorate);
  Py_XDECREF(text);
  PyErr_Clear();
  return is_known;
}

bool stator_caches_are_known(void) {
  static int known = -1;
  if (known >= 0) return known;
  PyObject* functools = PyImport_ImportModule("functools");
  PyObject* lru_cache = functools ? PyObject_GetAttrString(functools, "lru_cache") : NULL;
  PyObject* four = PyLong_FromLong(4);
  known = 1;  // the functions called by is_layout_of check this flag
  known = lru_cache && four && is_layout_of(lru_cache, four, 4) && is_layout_of(lru_cache, Py_None, -1);
  Py_XDECREF(four);
  Py_XDECREF(lru_cache);
  Py_XDECREF(functools);
  PyErr_Clear();
  return known;
}

PyObject* stator_cached(PyObject* function, PyObject* key) {
  return stator_caches_are_known() ? stored_result((Cache*)function, key) : NULL;
}

PyObject* stator_weak_key(PyObject* key, bool (*is_literal)(PyObject*)) {
  if (!PyTuple_CheckExact(key)) return Py_NewRef(key);
  PyObject* weak = PyTuple_New(PyTuple_GET_SIZE(key));
  for (Py_ssize_t i = 0; weak && i < PyTuple_GET_SIZE(key); ++i) {
    PyObject* part = PyTuple_GET_ITEM(key, i);
    const bool stays = is_literal(part) || PyType_Check(part) || Py_TYPE(part) == &PyBaseObject_Type;
    PyObject* held = stays ? Py_NewRef(part) : PyWeakref_NewRef(part, NULL);
    if (!held) {
      PyErr_Clear();
      Py_DECREF(weak);
      return NULL;
    }
    PyTuple_SET_ITEM(weak, i, held);
  }
  return weak;
}

Py_ssize_t stator_cache_limit(PyObject* function) { return ((Cache*)function)->maxsize; }

PyObject* stator_cache_key(PyObject* function, PyObject* const* args, Py_ssize_t count, PyObject* names) {
  if (!stator_caches_are_known()) return NULL;
  const Cache* self = (Cache*)function;
  const Py_ssize_t named = names ? PyTuple_GET_SIZE(names) : 0, positional = count - named;
  if (!self->typed && !named && positional == 1 && (PyUnicode_CheckExact(args[0]) || PyLong_CheckExact(args[0])))
    return Py_NewRef(args[0]);
  PyObject* key = PyTuple_New(count + (named ? named + 1 : 0) + (self->typed ? count : 0));
  if (!key) {
    PyErr_Clear();
    return NULL;
  }
  Py_ssize_t at = 0;
  for (Py_ssize_t i = 0; i < positional; ++i) PyTuple_SET_ITEM(key, at++, Py_NewRef(args[i]));
  if (named) PyTuple_SET_ITEM(key, at++, Py_NewRef(self->kwd_mark));
  for (Py_ssize_t i = 0; i < named; ++i) {
    PyTuple_SET_ITEM(key, at++, Py_NewRef(PyTuple_GET_ITEM(names, i)));
    PyTuple_SET_ITEM(key, at++, Py_NewRef(args[positional + i]));
  }
  if (self->typed)
    for (Py_ssize_t i = 0; i < count; ++i) PyTuple_SET_ITEM(key, at++, Py_NewRef((PyObject*)Py_TYPE(args[i])));
  return key;
}

/// Called by the cache in place of the function. Restores the function first, so that nothing else calls this.
static PyObject* give_result(PyObject* parts, PyObject* args, PyObject* keywords) {
  (void)args, (void)keywords;
  Cache* self = (Cache*)PyTuple_GET_ITEM(parts, 0);
  PyObject* replacement = self->func;
  self->func = Py_NewRef(PyTuple_GET_ITEM(parts, 1));
  Py_DECREF(replacement);
  return Py_NewRef(PyTuple_GET_ITEM(parts, 2));
}

static PyMethodDef give_result_def = {"give_result", (PyCFunction)(void (*)(void))give_result,
                                      METH_VARARGS | METH_KEYWORDS, NULL};

PyObject* stator_fill_cache(PyObject* function, PyObject* result, PyObject* args, PyObject* keywords) {
  Cache* self = (Cache*)function;
  PyObject* func = self->func;
  PyObject* parts = PyTuple_Pack(3, function, func, result);
  PyObject* replacement = parts ? PyCFunction_New(&give_result_def, parts) : NULL;
  Py_XDECREF(parts);
  if (!replacement) return NULL;
  self->func = Py_NewRef(replacement);
  Py_DECREF(func);  // `parts` holds a reference
  PyObject* given = PyObject_Call(function, args, PyDict_GET_SIZE(keywords) ? keywords : NULL);
  if (self->func == replacement) {
    self->func = Py_NewRef(PyTuple_GET_ITEM(PyCFunction_GET_SELF(replacement), 1));
    Py_DECREF(replacement);
  }
  Py_DECREF(replacement);
  return given;
}

// ---- threading.local

PyObject* stator_thread_dict(PyObject* local) {
  static PyObject* name = NULL;
  if (!name) name = PyUnicode_InternFromString("__dict__");
  if (Py_TYPE(local)->tp_init != PyBaseObject_Type.tp_init) {
    PyObject* dicts = PyThreadState_GetDict();
    PyObject* key = dicts ? PyUnicode_FromFormat("thread.local.%p", local) : NULL;
    PyObject* made = key ? PyDict_GetItemWithError(dicts, key) : NULL;
    Py_XDECREF(key);
    PyErr_Clear();
    if (!made) return NULL;
  }
  // Call the C implementation, not an override of a subclass.
  PyTypeObject* base = Py_TYPE(local);
  while (base->tp_base != &PyBaseObject_Type) base = base->tp_base;
  PyObject* dict = base->tp_getattro(local, name);
  PyErr_Clear();
  Py_XDECREF(dict);  // the thread state holds a reference
  return dict && PyDict_CheckExact(dict) ? dict : NULL;
}
