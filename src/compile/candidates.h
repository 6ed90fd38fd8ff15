#pragma once

#include <Python.h>

#include <string>
#include <vector>

namespace stator {

/// Path prefixes of files whose frames are not captured on their own. They are still inlined where a capture calls
/// them.
std::vector<std::string>& skipped_files();

/// Whether a frame that the hook sees is worth a capture: it can reach tensors or torch, its file is not skipped, and
/// its caller does not ask for plain Python. `slots` holds the frame's arguments.
bool is_worth_capturing(PyObject* function, PyObject* const* slots);

}  // namespace stator
