#pragma once

#include <atomic>
#include <cstdint>
#include <map>
#include <string>

#include "core/base/export.h"

/// Counts of named events since the last reset: the one store of them. Names have the form `group.name`. Thread-safe.
namespace stator::observe {

/// A count whose name is known when Stator is built, for events on hot paths. An object at namespace scope: it adds
/// itself to the store when it is made, in whichever order libraries are loaded, and is never destroyed. The store
/// shows it even if it is 0.
class STATOR_API Counter {
 public:
  Counter(const char* group, const char* name);
  Counter(const Counter&) = delete;
  Counter& operator=(const Counter&) = delete;

  /// From any thread.
  void add(int64_t by = 1) { value_.fetch_add(by, std::memory_order_relaxed); }
  /// For a count to which one thread at a time adds, as it holds the GIL. Costs a plain addition.
  void bump() { value_.store(value() + 1, std::memory_order_relaxed); }
  int64_t value() const { return value_.load(std::memory_order_relaxed); }
  void set(int64_t value) { value_.store(value, std::memory_order_relaxed); }

 private:
  friend struct FixedCounters;
  const char *group_, *name_;
  std::atomic<int64_t> value_{0};
  Counter* next_ = nullptr;
};

/// Adds to the count of this name, which is made at 0 if there is none. Returns the new value.
STATOR_API int64_t count(const std::string& name, int64_t by = 1);
STATOR_API void set_count(const std::string& name, int64_t value);
/// 0 if there is none.
STATOR_API int64_t count_of(const std::string& name);
/// All counts by name: those that are not 0, and those of `Counter` objects.
STATOR_API std::map<std::string, int64_t> counts();
/// Sets the counts of one group to 0; of all groups if it is empty.
STATOR_API void reset_counts(const std::string& group = {});
/// Sets all counts to those that `counts` returned earlier.
STATOR_API void restore_counts(const std::map<std::string, int64_t>& earlier);

}  // namespace stator::observe
