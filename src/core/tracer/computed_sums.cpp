#include "core/tracer/computed_sums.h"

namespace stator::tracer {

using shapes::Ex;

namespace {

/// The key of a sum is the total of its terms' keys, so that it is known without any one of them.
uint64_t key_of(Ex sum, uint32_t term) {
  uint64_t mixed = sum->operands[term]->hash * 0x9E3779B97F4A7C15ull;
  mixed ^= mixed >> 32;
  return mixed * static_cast<uint64_t>(sum->numbers[term]);
}

uint64_t key_of(Ex sum) {
  uint64_t key = 0;
  for (uint32_t i = 0; i < sum->count; ++i) key += key_of(sum, i);
  return key;
}

}  // namespace

void ComputedSums::add(Ex sum) {
  if (sum->count < 2) return;
  last_ = by_terms_[key_of(sum)] = sum;
}

Ex ComputedSums::find_near(Ex sum) const {
  if (sum->count < 3 || by_terms_.empty()) return nullptr;
  const uint64_t key = key_of(sum);
  // Terms are sorted by depth: what was added last is often at the end.
  for (uint32_t i = sum->count; i-- > 0;)
    if (auto found = by_terms_.find(key - key_of(sum, i)); found != by_terms_.end()) return found->second;
  return last_;
}

}  // namespace stator::tracer
