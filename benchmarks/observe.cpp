// What recording costs while nothing listens; benchmarks/observe.py builds and runs it.
#include "core/observe/clock.h"
#include "core/observe/counters.h"
#include "core/observe/phases.h"
#include "core/observe/profile.h"

#include <algorithm>
#include <cstdio>
#include <string>

using namespace stator::observe;

static PhaseKind& outer_kind = *new PhaseKind("benchmark");
static PhaseKind& inner_kind = *new PhaseKind("benchmark_inner");
static Counter counter("benchmark", "count");

/// Nanoseconds of one `work()`: the best of 20 runs.
template <class Work>
static double best_ns(int repeats, const Work& work) {
  double best = 1e9;
  for (int run = 0; run < 20; ++run) {
    const int64_t start = now_ns();
    for (int i = 0; i < repeats; ++i) work();
    best = std::min(best, static_cast<double>(now_ns() - start) / repeats);
  }
  return best;
}

int main() {
  const double outermost = best_ns(10000, [] { Phase phase(outer_kind); });
  // As phases of a compilation: one outermost phase, in which others end.
  constexpr int kInside = 1000;
  const double inside = best_ns(1, [] {
    Phase around(outer_kind);
    for (int i = 0; i < kInside; ++i) Phase phase(inner_kind);
  });
  const double count = best_ns(100000, [] { counter.add(); });
  // What a steady call does beside its work: it asks whether a profiler records, and adds to a counter.
  const double call = best_ns(100000, [] {
    ProfiledRange range([] { return std::string("benchmark"); });
    counter.bump();
  });
  std::printf("%f %f %f %f\n", outermost, inside / kInside, count, call);
}
