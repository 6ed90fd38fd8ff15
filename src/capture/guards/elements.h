#pragma once

#include <string>

#include "capture/pycompat/ref.h"

/// The keys of a dict or the elements of a set as a guard stores them: a tuple of literals, and of addresses of objects
/// that the check array watches.
namespace stator::capture {

/// The item of such a tuple for a key that has a source of its own (SourceKind::DictKey): the key is guarded there.
PyObject* any_element();

class CheckArray;

/// Makes such a tuple for these elements. The array watches those that are not literals; the tuple owns the rest.
Ref watched_elements(CheckArray& array, PyObject* tuple);

/// Whether `seen` matches an item of such a tuple: the same object, or an equal literal. Runs no code of the program.
bool is_element(PyObject* seen, PyObject* expected);

std::string describe_elements(PyObject* tuple);

}  // namespace stator::capture
