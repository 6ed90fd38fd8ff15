#pragma once

#include "capture/pycompat/ref.h"

namespace stator::capture {

/// Turns warnings into errors for the duration of a scope.
class WarningsAsErrors {
 public:
  WarningsAsErrors();
  ~WarningsAsErrors();
  WarningsAsErrors(const WarningsAsErrors&) = delete;
  WarningsAsErrors& operator=(const WarningsAsErrors&) = delete;

 private:
  Ref before_;
};

/// The globals of the module `warnings`, and the name of its filters in there.
PyObject* warnings_globals();
PyObject* filters_name();

}  // namespace stator::capture
