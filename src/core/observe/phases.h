#pragma once

#include <chrono>

namespace stator::observe {

/// Measures time since its construction or the last `lap`.
class Stopwatch {
 public:
  /// In milliseconds.
  double lap() {
    auto now = std::chrono::steady_clock::now();
    double passed = std::chrono::duration<double, std::milli>(now - start_).count();
    start_ = now;
    return passed;
  }

 private:
  std::chrono::steady_clock::time_point start_ = std::chrono::steady_clock::now();
};

}  // namespace stator::observe
