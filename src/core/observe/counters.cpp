#include "core/observe/counters.h"

#include <mutex>

namespace stator::observe {
namespace {
std::mutex mutex;
std::map<std::string, uint64_t>& table() {
  static auto* made = new std::map<std::string, uint64_t>;
  return *made;
}
}  // namespace

void count(const std::string& name, uint64_t by) {
  std::lock_guard lock(mutex);
  table()[name] += by;
}

std::map<std::string, uint64_t> counts() {
  std::lock_guard lock(mutex);
  return table();
}

void reset_counts() {
  std::lock_guard lock(mutex);
  table().clear();
}

}  // namespace stator::observe
