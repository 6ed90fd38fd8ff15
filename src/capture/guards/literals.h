#pragma once

#include <cstdint>
#include <string>

#include "capture/pycompat/ref.h"

/// Literals: immutable objects of exact built-in (or torch value) types that are compared by value, never by user code.
namespace stator::capture {

/// Types of torch whose instances are values: dtype, device, Size, layout, memory_format. Set once at load.
void add_literal_type(PyTypeObject* type);
bool is_literal_type(PyTypeObject* type);
/// An enumeration that pybind11 bound: a new Python object may be made for the same member at any time.
bool is_foreign_enum(PyTypeObject* type);

/// None, bool, int, float, complex, str, bytes, Ellipsis, NotImplemented, torch values, and ranges, slices, tuples and
/// frozensets of them.
bool is_literal(PyObject* object);

/// Same exact type and same value; floats by bits (nan equals itself, 0.0 differs from -0.0). Takes any objects; false
/// if they are different objects and not literals.
bool literal_equal(PyObject* a, PyObject* b);

/// The counter of registrations with abstract base classes. While it is unchanged, `isinstance` gives the same answers.
int64_t abc_token();
/// The state of a set's hash table that decides, besides its elements and their order, where new elements go.
int64_t set_layout(PyObject* set);

/// The class to which a getset or member descriptor belongs; null for any other object.
inline PyTypeObject* class_of_field(PyObject* object) {
  const bool is_one = Py_TYPE(object) == &PyGetSetDescr_Type || Py_TYPE(object) == &PyMemberDescr_Type;
  return is_one ? reinterpret_cast<PyDescrObject*>(object)->d_type : nullptr;
}

/// The repr, cut to a readable length; never raises. If the repr would run code of the program: `<class name object>`.
std::string short_repr(PyObject* object);

}  // namespace stator::capture
