#pragma once

#include <string>

#include "core/base/export.h"

namespace stator::observe {

/// RAII: a named range in the profiler that records this thread. Does nothing if no profiler records.
class STATOR_API ProfiledRange {
 public:
  /// `name()` returns the name. Called only if a profiler records.
  template <class Name>
  explicit ProfiledRange(Name&& name) {
    if (is_recorded()) open(name());
  }
  ~ProfiledRange() {
    if (range_) close();
  }
  ProfiledRange(const ProfiledRange&) = delete;
  ProfiledRange& operator=(const ProfiledRange&) = delete;

  /// Whether a profiler records this thread.
  static bool is_recorded();

 private:
  struct Range;

  void open(std::string name);
  void close();

  Range* range_ = nullptr;  // owned
};

}  // namespace stator::observe
