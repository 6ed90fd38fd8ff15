#pragma once

#define PY_SSIZE_T_CLEAN
#include <Python.h>

/// Private CPython functions on built-in objects. They run no user code unless stated; references are borrowed; GIL
/// held.
namespace stator::pycompat {

/// Iterates over the elements of a set or frozenset in storage order, also for a subclass that overrides `__iter__`.
/// The set must not change during the iteration.
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

/// `set.update` of the built-in class; may run `__hash__` and `__eq__` of the elements. -1 with an error set.
inline int set_update(PyObject* set, PyObject* iterable) { return _PySet_Update(set, iterable); }

/// The value of a key whose hash is known; null without an error if there is none. May call `__eq__` of keys.
inline PyObject* dict_get_by_hash(PyObject* dict, PyObject* key, Py_hash_t hash) {
  return _PyDict_GetItem_KnownHash(dict, key, hash);
}

/// The mapping behind a types.MappingProxyType.
inline PyObject* proxied_mapping(PyObject* proxy) {
  PyObject* mapping = nullptr;
  // The mapping is the only object that the proxy's tp_traverse visits.
  visitproc take = [](PyObject* object, void* into) {
    *static_cast<PyObject**>(into) = object;
    return 1;
  };
  PyDictProxy_Type.tp_traverse(proxy, take, static_cast<void*>(&mapping));
  return mapping;
}

/// The type of bound slot wrappers, such as `[].__len__`.
inline PyTypeObject* method_wrapper_type() { return &_PyMethodWrapper_Type; }
inline bool is_method_wrapper(PyObject* object) { return Py_TYPE(object) == method_wrapper_type(); }

/// A method of a C class that is bound to an instance, such as `[].append` or `[].__len__`. `method`: the definition
/// of the method, or the descriptor of the slot; compared only.
struct NativeMethod {
  PyObject* self = nullptr;
  const void* method = nullptr;
};
/// Nulls for any other object, and where a C function is bound to nothing.
inline NativeMethod native_method(PyObject* bound) {
  if (PyCFunction_CheckExact(bound)) {
    auto* function = reinterpret_cast<PyCFunctionObject*>(bound);
    return {function->m_self, function->m_ml};
  }
  if (!is_method_wrapper(bound)) return {};
  // The only objects that its tp_traverse visits are the descriptor and the instance, in this order.
  NativeMethod found;
  visitproc take = [](PyObject* object, void* into) {
    auto* parts = static_cast<NativeMethod*>(into);
    if (parts->method)
      parts->self = object;
    else
      parts->method = object;
    return 0;
  };
  method_wrapper_type()->tp_traverse(bound, take, static_cast<void*>(&found));
  return found;
}
/// What `native_method` gives as `method` for what the descriptor binds.
inline const void* method_of_descriptor(PyObject* descriptor) {
  if (!Py_IS_TYPE(descriptor, &PyMethodDescr_Type)) return descriptor;
  return reinterpret_cast<PyMethodDescrObject*>(descriptor)->d_method;
}

/// Whether a class pattern with one positional sub-pattern matches the subject itself, as for int and str.
inline bool matches_self(const PyTypeObject* type) { return (type->tp_flags & _Py_TPFLAGS_MATCH_SELF) != 0; }

}  // namespace stator::pycompat
