#pragma once

#include <string>

#include "core/base/export.h"

namespace stator::observe {

/// A named range in whatever profiler records this thread, from here to the end of the scope; nothing where none does.
class STATOR_API ProfiledRange {
 public:
  /// `name()` gives the name; asked only where something records.
  template <class Name>
  explicit ProfiledRange(Name&& name) {
    if (is_recorded()) open(name());
  }
  ~ProfiledRange() {
    if (range_) close();
  }
  ProfiledRange(const ProfiledRange&) = delete;
  ProfiledRange& operator=(const ProfiledRange&) = delete;

 private:
  struct Range;

  static bool is_recorded();
  void open(std::string name);
  void close();

  Range* range_ = nullptr;  // owned
};

}  // namespace stator::observe
