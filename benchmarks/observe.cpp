// What a phase and a counter cost while nothing listens; benchmarks/observe.py builds and runs it.
#include <cstdio>

#include "core/observe/clock.h"
#include "core/observe/counters.h"
#include "core/observe/phases.h"

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
  double inner = 0;
  {
    // As phases of a compilation: one outermost phase, in which up to 1,000 others end.
    inner = best_ns(1,
                    [] {
                      Phase around(outer_kind);
                      for (int i = 0; i < 1000; ++i) Phase phase(inner_kind);
                    }) /
            1000;
  }
  const double count = best_ns(100000, [] { counter.add(); });
  std::printf("%f %f %f\n", outermost, inner, count);
}
