#pragma once

#include <memory>

#include "capture/pycompat/ref.h"

namespace stator::backend {
class Choice;
}

/// How Python code names a native backend with its options: an opaque object (a capsule), given to a compiled function
/// in place of a Python callable.
namespace stator {

Ref native_backend_object(std::shared_ptr<const backend::Choice> choice);
/// Null, without an error, if the object is none of these.
std::shared_ptr<const backend::Choice> native_backend_of(PyObject* object);

}  // namespace stator
