#pragma once

#include <vector>

#include "capture/pycompat/code.h"
#include "capture/pycompat/ref.h"

namespace stator::capture {

/// The arguments of a call laid out as the callee's frame would hold them (localsplus order: parameters, keyword-only
/// parameters, *args tuple, **kwargs dict), with defaults filled in.
class BoundArguments {
 public:
  /// False when the call does not fit the signature: then CPython itself should say so. References are borrowed from
  /// the caller except for what had to be made.
  bool bind(const pycompat::Code& code, PyObject* function, PyObject* const* args, size_t positional, PyObject* names);
  PyObject* const* data() const { return data_; }

 private:
  bool bind_slowly(const pycompat::Code& code, PyObject* function, PyObject* const* args, size_t positional,
                   PyObject* names);

  PyObject* const* data_ = nullptr;
  static constexpr size_t kInline = 24;
  PyObject* inline_[kInline];
  std::vector<PyObject*> heap_;
  Ref varargs_, varkeywords_;
};

}  // namespace stator::capture
