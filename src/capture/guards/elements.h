#pragma once

#include <string>

#include "capture/pycompat/ref.h"

/// The keys of a dict or the elements of a set as a guard keeps them: a tuple in which literals stand for themselves
/// and other objects for their address, where somebody else watches that they live.
namespace stator::capture {

class CheckArray;

/// The tuple for these elements. What cannot be watched is owned by it.
Ref watched_elements(CheckArray& by, PyObject* tuple);

/// Whether this is the object, or a literal equal to the one, that the tuple has for it. Runs no code of the program.
bool is_element(PyObject* seen, PyObject* expected);

std::string describe_elements(PyObject* tuple);

}  // namespace stator::capture
