#include "core/observe/counters.h"

#include <mutex>

#include "core/base/fork_safe.h"

namespace stator::observe {
namespace {
ForkSafeMutex& mutex = *new ForkSafeMutex;
std::map<std::string, uint64_t>& table = *new std::map<std::string, uint64_t>;
}  // namespace

void count(const std::string& name, uint64_t by) {
  std::lock_guard lock(mutex);
  table[name] += by;
}

std::map<std::string, uint64_t> counts() {
  std::lock_guard lock(mutex);
  return table;
}

void reset_counts() {
  std::lock_guard lock(mutex);
  table.clear();
}

}  // namespace stator::observe
