#pragma once

#include <string>
#include <vector>

#include "capture/pycompat/ref.h"

namespace stator::capture {
class SourceTree;
}

namespace stator {

/// What one `stator.compile` call wants to hear, or have a say, of its guards. Each may be null. Their errors are the
/// user's: false with a Python error set.
struct GuardCallbacks {
  Ref filter;    // (rows) -> list of bool: the facts to guard
  Ref exported;  // (rows), after each capture that made a graph
  Ref failed;    // (reason, code), for each entry that does not hold when there is to be a new one

  /// A row: name, kind, value, whether it is global, text.
  static Ref rows_of(const capture::SourceTree& tree);

  bool apply_filter(const capture::SourceTree& tree) const;
  bool tell_failures(const std::vector<std::string>& reasons, PyCodeObject* code) const;
};

}  // namespace stator
