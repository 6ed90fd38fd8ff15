#pragma once

#include <memory>

#include "capture/cache/entry.h"
#include "capture/pycompat/code.h"

namespace stator::capture {

/// A place in a frame of `function`; the frame is not running. Borrows everything.
struct Place {
  PyObject* function;
  const pycompat::Code* code;
  int32_t offset = 0;
  PyObject* const* values;  // the frame's slots, then its stack
  int32_t depth = 0;        // of the stack
};

/// How frames reach the compiler, which lives in a layer above.
class Compiler {
 public:
  virtual ~Compiler() = default;
  /// The entry for a place, captured now if there is none. Null: CPython runs the frame from here. Null with a Python
  /// error set: that error is raised here.
  virtual std::shared_ptr<Entry> entry_at(const Place& place) = 0;
  /// Whether a frame of `function` that the hook sees is worth a capture. `slots` holds its arguments.
  virtual bool is_candidate(PyObject* function, PyObject* const* slots) = 0;
  /// Whether CPython runs what handles the Python error that is set: the error reports a refused break, or the handler
  /// could break where that is refused.
  virtual bool handlers_run_plain() = 0;
};

}  // namespace stator::capture
