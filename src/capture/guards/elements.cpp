#include "capture/guards/elements.h"

#include <cstdio>

#include "capture/guards/check_array.h"
#include "capture/guards/literals.h"

namespace stator::capture {
namespace {

constexpr const char* kAddress = "stator.element";

/// The address that an item of the tuple stores; null if it is the element itself.
const void* address_in(PyObject* expected) {
  return PyCapsule_IsValid(expected, kAddress) ? PyCapsule_GetPointer(expected, kAddress) : nullptr;
}

}  // namespace

PyObject* any_element() {
  static PyObject* const any = PyCapsule_New(const_cast<char*>(kAddress), "stator.any_element", nullptr);
  return any;
}

Ref watched_elements(CheckArray& array, PyObject* tuple) {
  Py_ssize_t count = PyTuple_GET_SIZE(tuple);
  Ref made = Ref::steal(PyTuple_New(count));
  for (Py_ssize_t i = 0; i < count; ++i) {
    PyObject* element = PyTuple_GET_ITEM(tuple, i);
    const bool is_owned = element == any_element() || is_literal(element);
    Ref kept = !is_owned && array.watch(element) ? Ref::steal(PyCapsule_New(element, kAddress, nullptr))
                                                 : Ref::borrow(element);
    PyTuple_SET_ITEM(made.get(), i, kept.release());
  }
  return made;
}

bool is_element(PyObject* seen, PyObject* expected) {
  if (expected == any_element()) return true;
  return seen == expected || literal_equal(seen, expected) || address_in(expected) == seen;
}

std::string describe_elements(PyObject* tuple) {
  std::string text = "(";
  for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(tuple); ++i) {
    PyObject* expected = PyTuple_GET_ITEM(tuple, i);
    char address[32] = "";
    if (const void* known = address_in(expected)) std::snprintf(address, sizeof address, "<object at %p>", known);
    if (expected == any_element()) std::snprintf(address, sizeof address, "...");
    text += (i ? ", " : "") + (*address ? std::string(address) : short_repr(expected));
    if (text.size() > 200) return text + ", ...)";
  }
  return text + (PyTuple_GET_SIZE(tuple) == 1 ? ",)" : ")");
}

}  // namespace stator::capture
