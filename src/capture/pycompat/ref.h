#pragma once

#define PY_SSIZE_T_CLEAN
#include <Python.h>

#include <memory>
#include <new>
#include <utility>

namespace stator {

/// An owned reference to a Python object, or null. Other code uses this class instead of Py_INCREF and Py_DECREF.
class Ref {
 public:
  Ref() = default;
  Ref(std::nullptr_t) {}
  /// Takes ownership of a new reference.
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

/// Saves the current Python error and restores it in the destructor, so that code in between runs without one.
class LaterError {
 public:
  LaterError() = default;
  LaterError(const LaterError&) = delete;
  ~LaterError() {
    if (type_) PyErr_Restore(type_, value_, trace_);
  }
  /// Saves the error that is set, if there is one and none is saved yet.
  void take() {
    if (!type_) PyErr_Fetch(&type_, &value_, &trace_);
  }

 private:
  PyObject *type_ = nullptr, *value_ = nullptr, *trace_ = nullptr;
};

/// An array of references of fixed length; up to `Inline` elements need no allocation.
template <size_t Inline>
class RefRow {
 public:
  explicit RefRow(size_t size) : size_(size), data_(reinterpret_cast<Ref*>(inline_)) {
    if (size > Inline) data_ = static_cast<Ref*>(::operator new(size * sizeof(Ref)));
    std::uninitialized_value_construct_n(data_, size);
  }
  ~RefRow() {
    std::destroy_n(data_, size_);
    if (size_ > Inline) ::operator delete(data_);
  }
  RefRow(const RefRow&) = delete;
  RefRow& operator=(const RefRow&) = delete;
  Ref* data() { return data_; }
  size_t size() const { return size_; }
  Ref& operator[](size_t index) { return data_[index]; }

 private:
  size_t size_;
  Ref* data_;
  alignas(Ref) unsigned char inline_[Inline * sizeof(Ref)];
};

}  // namespace stator
