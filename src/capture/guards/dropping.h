#pragma once

#include <functional>

#include "capture/pycompat/ref.h"

/// What happens when the program drops references. Nothing here runs code of the program, except that an attribute of a
/// class is looked up as Python does.
namespace stator::capture {

/// What is dropped: an object, everything that it holds, one of its attributes, or an item of a dict.
enum class Dropped : uint8_t { Object, Parts, Attribute, Item };

/// Whether code that the program can observe may run when the last reference to the object is dropped. `is_ours`:
/// whether only the caller holds further references to a part (StatorLifetimeQueries); empty: never.
bool finalization_is_observable(PyObject* object, const std::function<bool(PyObject*)>& is_ours = {});
/// The attribute that the instance itself holds, in its `__dict__` or a slot; null if it holds none.
Ref attribute_held_by(PyObject* instance, PyObject* name);
/// Whether dropping it may run code that the program can observe. `name`: of the attribute, or the item's key; there
/// need not be one.
bool drop_is_observable(PyObject* object, Dropped what, PyObject* name);

/// Whether an object is kept alive by the root, directly or through others, or there are too many objects to search.
/// Classes and modules are not searched: they stay alive in any case.
bool is_reachable(PyObject* root, PyObject* wanted);

}  // namespace stator::capture
