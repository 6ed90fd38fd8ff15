#pragma once

#include "capture/interpreter/interpreter.h"

/// Programs that change what becomes of warnings. The change is made for real when the plan ends, so what torch warns
/// of until then would be treated by the wrong rules: in a capture such a warning is a break, and in a run the program
/// itself runs.
namespace stator::capture {

/// Makes errors of the warnings that are given while it lives.
class WarningsAsErrors {
 public:
  WarningsAsErrors();
  ~WarningsAsErrors();
  WarningsAsErrors(const WarningsAsErrors&) = delete;
  WarningsAsErrors& operator=(const WarningsAsErrors&) = delete;

 private:
  Ref before_;
};

/// Whether the rules are others than those that are in force while the program is captured.
bool has_changed_filters(Interpreter& in);

}  // namespace stator::capture
