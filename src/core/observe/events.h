#pragma once

#include <atomic>
#include <cstdint>
#include <string>
#include <vector>

#include "core/base/export.h"

/// Events of the Chrome trace format, kept in memory until they are taken. Nothing is kept unless recording was
/// started.
namespace stator::observe {

struct Event {
  std::string name;
  char kind;            // 'B' begin, 'E' end, 'i' instant
  int64_t time_ns = 0;  // of `now_ns`
  std::string args;     // a JSON object, or empty
  // Filled in by `add_event`:
  std::string compile_id;  // of the compilation that is recorded on the thread; empty: none
  uint64_t thread = 0;
  int64_t process = 0;
};

/// Whether events are kept.
STATOR_API bool records_events();
/// Starts recording (`true`) or ends one such request (`false`). Events are kept while any request is open.
STATOR_API void request_events(bool wanted);

/// Thread-safe. The buffer has a bound, in events and in bytes: beyond it, the oldest events are dropped.
STATOR_API void add_event(Event event);
/// A copy of all events; `dropped`: how many were dropped since the last clear.
STATOR_API std::vector<Event> events(uint64_t* dropped = nullptr);
STATOR_API void clear_events();
/// The most events that are kept, from 2 on.
STATOR_API void set_event_limit(size_t limit);
STATOR_API size_t event_limit();

}  // namespace stator::observe
