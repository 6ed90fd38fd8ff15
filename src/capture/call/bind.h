#pragma once

#include <vector>

#include "capture/pycompat/code.h"
#include "capture/pycompat/ref.h"

namespace stator::capture {

/// The arguments of a call bound to the callee's parameters, in localsplus order (parameters, keyword-only parameters,
/// *args tuple, **kwargs dict), with defaults filled in.
class BoundArguments {
 public:
  /// False (no error set) if the call does not fit the signature: CPython then calls the function and raises. The bound
  /// references are borrowed from the call and the function; only the *args tuple and **kwargs dict are owned here.
  bool bind(const pycompat::Code& code, PyObject* function, PyObject* const* args, size_t positional, PyObject* names);
  PyObject* const* data() const { return data_; }

 private:
  struct Call {
    const pycompat::Code& code;
    PyObject* function;
    PyObject* const* args;
    size_t positional;
    PyObject* names;  // tuple or null
  };
  bool bind_slowly(const Call& call);
  bool bind_positional(const Call& call, PyObject** to);
  bool bind_keywords(const Call& call, PyObject** to);
  static bool fill_defaults(const Call& call, PyObject** to);

  PyObject* const* data_ = nullptr;
  static constexpr size_t kInline = 24;
  PyObject* inline_[kInline];
  std::vector<PyObject*> heap_;
  Ref varargs_, varkeywords_;
};

}  // namespace stator::capture
