#include "core/observe/counters.h"

#include <mutex>
#include <string_view>

#include "core/base/fork_safe.h"
#include "core/observe/recording.h"

namespace stator::observe {

/// The list of all `Counter` objects. It needs no lock: objects are only added, at its head.
struct FixedCounters {
  static constinit std::atomic<Counter*> head;

  static void add(Counter& counter) {
    counter.next_ = head.load(std::memory_order_relaxed);
    while (!head.compare_exchange_weak(counter.next_, &counter, std::memory_order_release)) {
    }
  }
  template <class Use>
  static void for_each(Use&& use) {
    for (Counter* at = head.load(std::memory_order_acquire); at; at = at->next_) use(*at, name_of(*at));
  }
  static std::string name_of(const Counter& counter) { return std::string(counter.group_) + "." + counter.name_; }
  static bool is_named(const Counter& counter, std::string_view name) {
    const std::string_view group = counter.group_;
    return name.size() > group.size() && name[group.size()] == '.' && name.starts_with(group) &&
           name.substr(group.size() + 1) == counter.name_;
  }
  /// Null if there is none of this name.
  static Counter* find(const std::string& name) {
    for (Counter* at = head.load(std::memory_order_acquire); at; at = at->next_)
      if (is_named(*at, name)) return at;
    return nullptr;
  }
};
constinit std::atomic<Counter*> FixedCounters::head{nullptr};

Counter::Counter(const char* group, const char* name) : group_(group), name_(name) { FixedCounters::add(*this); }

namespace {
ForkSafeMutex& count_mutex = *new ForkSafeMutex;
std::map<std::string, int64_t>& table = *new std::map<std::string, int64_t>;  // without those of Counter objects

bool is_of_group(const std::string& name, const std::string& group) {
  return group.empty() || (name.starts_with(group) && name.size() > group.size() && name[group.size()] == '.');
}
}  // namespace

int64_t count(const std::string& name, int64_t by) {
  if constexpr (!kIsRecording) return 0;
  if (Counter* fixed = FixedCounters::find(name)) {
    fixed->add(by);
    return fixed->value();
  }
  std::lock_guard lock(count_mutex);
  return table[name] += by;
}

void set_count(const std::string& name, int64_t value) {
  if (Counter* fixed = FixedCounters::find(name)) return fixed->set(value);
  std::lock_guard lock(count_mutex);
  table[name] = value;
}

int64_t count_of(const std::string& name) {
  if (const Counter* fixed = FixedCounters::find(name)) return fixed->value();
  std::lock_guard lock(count_mutex);
  auto found = table.find(name);
  return found == table.end() ? 0 : found->second;
}

std::map<std::string, int64_t> counts() {
  std::map<std::string, int64_t> all;
  {
    std::lock_guard lock(count_mutex);
    for (auto& [name, value] : table)
      if (value != 0) all.emplace(name, value);
  }
  FixedCounters::for_each([&](const Counter& counter, const std::string& name) { all[name] = counter.value(); });
  return all;
}

void reset_counts(const std::string& group) {
  FixedCounters::for_each([&](Counter& counter, const std::string& name) {
    if (is_of_group(name, group)) counter.set(0);
  });
  std::lock_guard lock(count_mutex);
  std::erase_if(table, [&](const auto& row) { return is_of_group(row.first, group); });
}

void restore_counts(const std::map<std::string, int64_t>& earlier) {
  reset_counts();
  for (auto& [name, value] : earlier) set_count(name, value);
}

}  // namespace stator::observe
