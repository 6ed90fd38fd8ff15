#pragma once

#include "capture/pycompat/ref.h"

namespace stator::capture {

/// Whether a user said that it only calls operators, and may be called on fakes as it is (torch's `allow_in_graph`).
bool is_allowed_in_graph(PyObject* callable);

}  // namespace stator::capture
