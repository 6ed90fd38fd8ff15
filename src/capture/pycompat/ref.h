#pragma once

#define PY_SSIZE_T_CLEAN
#include <Python.h>

#include <utility>

namespace stator {

/// An owned reference to a Python object, or null. The only place where reference counts are touched by hand.
class Ref {
 public:
  Ref() = default;
  Ref(std::nullptr_t) {}
  /// Takes over a new reference.
  static Ref steal(PyObject* object) { return Ref(object); }
  /// Adds a reference to a borrowed one.
  static Ref borrow(PyObject* object) {
    Py_XINCREF(object);
    return Ref(object);
  }
  Ref(const Ref& other) : object_(other.object_) { Py_XINCREF(object_); }
  Ref(Ref&& other) noexcept : object_(std::exchange(other.object_, nullptr)) {}
  Ref& operator=(Ref other) noexcept {
    std::swap(object_, other.object_);
    return *this;
  }
  ~Ref() { Py_XDECREF(object_); }

  PyObject* get() const { return object_; }
  PyObject* release() { return std::exchange(object_, nullptr); }
  explicit operator bool() const { return object_ != nullptr; }
  template <class T>
  T* as() const {
    return reinterpret_cast<T*>(object_);
  }

 private:
  explicit Ref(PyObject* object) : object_(object) {}
  PyObject* object_ = nullptr;
};

}  // namespace stator
