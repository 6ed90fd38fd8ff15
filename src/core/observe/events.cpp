#include "core/observe/events.h"

#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <deque>
#include <mutex>

#include "core/base/fork_safe.h"
#include "core/observe/record.h"
#include "core/observe/recording.h"

namespace stator::observe {
namespace {

constexpr size_t kMaxEventBytes = size_t{64} << 20;

struct EventBuffer {
  std::deque<Event> events;
  size_t limit = 65536, bytes = 0;
  uint64_t dropped = 0;

  static size_t size_of(const Event& event) {
    return sizeof(Event) + event.name.size() + event.args.size() + event.compile_id.size();
  }
  void shrink() {
    while (events.size() > limit || (bytes > kMaxEventBytes && events.size() > 1)) {
      bytes -= size_of(events.front());
      events.pop_front();
      ++dropped;
    }
  }
};
ForkSafeMutex& event_mutex = *new ForkSafeMutex;
EventBuffer& buffer = *new EventBuffer;
std::atomic<int> requests{0};

}  // namespace

bool records_events() { return kIsRecording && requests.load(std::memory_order_relaxed) > 0; }
void request_events(bool wanted) { requests.fetch_add(wanted ? 1 : -1, std::memory_order_relaxed); }

void add_event(Event event) {
  if constexpr (!kIsRecording) return;
  if (const CompilationRecord* record = open_record(); record && event.compile_id.empty())
    event.compile_id = record->compile_id;
  event.thread = static_cast<uint64_t>(syscall(SYS_gettid));
  event.process = getpid();
  std::lock_guard lock(event_mutex);
  buffer.bytes += EventBuffer::size_of(event);
  buffer.events.push_back(std::move(event));
  buffer.shrink();
}

std::vector<Event> events(uint64_t* dropped) {
  std::lock_guard lock(event_mutex);
  if (dropped) *dropped = buffer.dropped;
  return {buffer.events.begin(), buffer.events.end()};
}

void clear_events() {
  std::lock_guard lock(event_mutex);
  buffer.events.clear();
  buffer.bytes = buffer.dropped = 0;
}

void set_event_limit(size_t limit) {
  std::lock_guard lock(event_mutex);
  buffer.limit = std::max<size_t>(limit, 2);
  buffer.shrink();
}
size_t event_limit() {
  std::lock_guard lock(event_mutex);
  return buffer.limit;
}

}  // namespace stator::observe
