#pragma once

#include "capture/pycompat/ref.h"

namespace stator::capture {

/// One rule for all warnings of a scope: they are errors, or ignored. The registries of modules, in which Python notes
/// the warnings that it has given, stay valid.
class WarningRule {
 public:
  enum class Action { Error, Ignore };

  explicit WarningRule(Action action);
  ~WarningRule();
  WarningRule(const WarningRule&) = delete;
  WarningRule& operator=(const WarningRule&) = delete;

 private:
  Ref before_;
};

/// The globals of the module `warnings`, and the name of its filters in there.
PyObject* warnings_globals();
PyObject* filters_name();

}  // namespace stator::capture
