#include "core/shapes/float_markers.h"

#include <algorithm>
#include <bit>
#include <random>

namespace stator::shapes {
namespace {

thread_local FloatMarkers* innermost = nullptr;

/// Between 0.25 and 0.5, where every operator that takes a probability accepts it; 52 random bits.
double next_marker() {
  std::random_device random;
  constexpr uint64_t kFraction = (uint64_t{1} << 52) - 1;
  const uint64_t drawn = (uint64_t{random()} << 32) | random();
  return std::bit_cast<double>(std::bit_cast<uint64_t>(0.25) | (drawn & kFraction));
}

}  // namespace

FloatMarkers::FloatMarkers() : before_(innermost) { innermost = this; }
FloatMarkers::~FloatMarkers() { innermost = before_; }

FloatMarkers* FloatMarkers::current() { return innermost; }

double FloatMarkers::mark(const Expr& expr) { return made_.emplace_back(next_marker(), expr).first; }

Expr FloatMarkers::take(double number) {
  auto found = std::find_if(made_.begin(), made_.end(), [&](const auto& entry) { return entry.first == number; });
  if (found == made_.end()) return nullptr;
  Expr expr = std::move(found->second);
  made_.erase(found);
  return expr;
}

FloatMarkers::Suspended::Suspended() : before_(innermost) { innermost = nullptr; }
FloatMarkers::Suspended::~Suspended() { innermost = before_; }

}  // namespace stator::shapes
