#include "core/observe/clock.h"

#include <ctime>

namespace stator::observe {

static int64_t read_clock(clockid_t clock) {
  timespec time;
  clock_gettime(clock, &time);
  return int64_t{time.tv_sec} * 1'000'000'000 + time.tv_nsec;
}

/// Real time minus monotonic time, read once at load. So the records of a process stay in order even if the system's
/// time is changed.
static const int64_t offset = read_clock(CLOCK_REALTIME) - read_clock(CLOCK_MONOTONIC);

int64_t now_ns() { return read_clock(CLOCK_MONOTONIC); }
int64_t wall_ns(int64_t now) { return now + offset; }

}  // namespace stator::observe
