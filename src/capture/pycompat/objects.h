#pragma once

#define PY_SSIZE_T_CLEAN
#include <Python.h>

/// What CPython can do with objects of its own but promises to nobody. No user code runs but where said; references
/// are borrowed; GIL held.
namespace stator::pycompat {

/// Goes over the elements of a set or frozenset in its own order, whatever a subclass makes of iteration. The set must
/// not change meanwhile.
class SetCursor {
 public:
  explicit SetCursor(PyObject* set) : set_(set) {}
  /// Null at the end.
  PyObject* next() {
    PyObject* element = nullptr;
    Py_hash_t hash;
    return _PySet_NextEntry(set_, &position_, &element, &hash) ? element : nullptr;
  }

 private:
  PyObject* set_;
  Py_ssize_t position_ = 0;
};

/// `set.update` of the built-in class, which may run code of the elements; -1 with an error set.
inline int set_update(PyObject* set, PyObject* iterable) { return _PySet_Update(set, iterable); }

/// The value of a key whose hash is known; null without an error if there is none. Asks `__eq__` of unequal keys.
inline PyObject* dict_get_by_hash(PyObject* dict, PyObject* key, Py_hash_t hash) {
  return _PyDict_GetItem_KnownHash(dict, key, hash);
}

/// What a types.MappingProxyType shows.
inline PyObject* proxied_mapping(PyObject* proxy) {
  PyObject* mapping = nullptr;
  // It is the one object that the collector finds in it.
  visitproc take = [](PyObject* object, void* into) {
    *static_cast<PyObject**>(into) = object;
    return 1;
  };
  PyDictProxy_Type.tp_traverse(proxy, take, &mapping);
  return mapping;
}

/// A slot of an object, bound: `[].__len__`.
inline PyTypeObject* method_wrapper_type() { return &_PyMethodWrapper_Type; }
inline bool is_method_wrapper(PyObject* object) { return Py_TYPE(object) == method_wrapper_type(); }

/// Whether a class pattern with one positional sub-pattern matches the subject itself, as those of int and str do.
inline bool matches_self(const PyTypeObject* type) { return (type->tp_flags & _Py_TPFLAGS_MATCH_SELF) != 0; }

}  // namespace stator::pycompat
