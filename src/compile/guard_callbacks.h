#pragma once

#include <string>
#include <vector>

#include "capture/pycompat/ref.h"

namespace stator::capture {
class SourceTree;
}

namespace stator {

/// The user's callbacks about guards, for one `stator.compile` call. Each may be null. If one raises, the methods
/// return false with the Python error set.
struct GuardCallbacks {
  Ref filter;    // (rows) -> list of bool: which facts are guarded
  Ref exported;  // (rows), called after each capture that made a graph
  Ref failed;    // (reason, code), called before a recompile for each entry whose guards do not hold

  /// A row per fact: name and kind, value, whether it is global, text.
  static Ref rows_of(const capture::SourceTree& tree);

  bool apply_filter(const capture::SourceTree& tree) const;
  bool wants_failures() const { return static_cast<bool>(failed); }
  bool tell_failures(const std::vector<std::string>& reasons, PyCodeObject* code) const;
};

}  // namespace stator
