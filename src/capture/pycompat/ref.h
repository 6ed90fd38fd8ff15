#pragma once

#define PY_SSIZE_T_CLEAN
#include <Python.h>

#include <memory>
#include <new>
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

/// An error that waits until this goes: nothing else should run while it is set.
class LaterError {
 public:
  LaterError() = default;
  LaterError(const LaterError&) = delete;
  ~LaterError() {
    if (type_) PyErr_Restore(type_, value_, trace_);
  }
  /// Takes the error that is set, if there is one.
  void take() {
    if (!type_) PyErr_Fetch(&type_, &value_, &trace_);
  }

 private:
  PyObject *type_ = nullptr, *value_ = nullptr, *trace_ = nullptr;
};

/// A row of references whose length is known when it is made; a short one needs no allocation.
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
