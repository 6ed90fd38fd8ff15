#pragma once

#include <cstdint>
#include <string>

#include "capture/pycompat/ref.h"

/// Literals: immutable objects of exact built-in (or torch value) types that are compared by value, never by user code.
namespace stator::capture {

/// Types of torch whose instances are values: dtype, device, Size, layout, memory_format. Set once at load.
void add_literal_type(PyTypeObject* type);
bool is_literal_type(PyTypeObject* type);
/// An enumeration of C++ that pybind11 made known: its members are values, and may be made anew at any time.
bool is_foreign_enum(PyTypeObject* type);

/// None, bool, int, float, complex, str, bytes, Ellipsis, NotImplemented, torch values, and ranges, slices, tuples and
/// frozensets of them.
bool is_literal(PyObject* object);

/// Same exact type and same value; floats by bits (nan equals itself, 0.0 differs from -0.0). Both may be anything:
/// what is no literal is unequal.
bool literal_equal(PyObject* a, PyObject* b);

/// Counts registrations with abstract base classes: while it stands, `isinstance` with one answers the same.
int64_t abc_token();
/// What decides, besides the elements and their order, where a set puts new ones.
int64_t set_layout(PyObject* set);

/// The class that the descriptor of a field or slot of a class belongs to; null for anything else.
inline PyTypeObject* class_of_field(PyObject* object) {
  const bool is_one = Py_TYPE(object) == &PyGetSetDescr_Type || Py_TYPE(object) == &PyMemberDescr_Type;
  return is_one ? reinterpret_cast<PyDescrObject*>(object)->d_type : nullptr;
}

/// repr cut to a readable length; never raises. Where the repr would be code of the program: what kind of object it is.
std::string short_repr(PyObject* object);

}  // namespace stator::capture
