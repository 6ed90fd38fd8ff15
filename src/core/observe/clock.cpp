#include "core/observe/clock.h"

#include <ctime>

namespace stator::observe {

static int64_t read_clock(clockid_t clock) {
  timespec time;
  clock_gettime(clock, &time);
  return int64_t{time.tv_sec} * 1'000'000'000 + time.tv_nsec;
}

/// From the one clock to the other, as it was when the library was loaded: records of one process are in one order,
/// even if the system's time is set meanwhile.
static const int64_t offset = read_clock(CLOCK_REALTIME) - read_clock(CLOCK_MONOTONIC);

int64_t now_ns() { return read_clock(CLOCK_MONOTONIC); }
int64_t wall_ns(int64_t now) { return now + offset; }

}  // namespace stator::observe
