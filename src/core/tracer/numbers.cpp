#include "core/tracer/numbers.h"

#include <cstring>

namespace stator::tracer {

size_t Numbers::Hash::operator()(const Key& key) const {
  constexpr uint64_t kOdd = 0x9E3779B97F4A7C15ull;
  uint64_t mixed = (key.bits[0] * kOdd) ^ ((key.bits[1] + static_cast<uint64_t>(key.dtype)) * kOdd * kOdd);
  return mixed ^ (mixed >> 32);
}

const at::Tensor& Numbers::shared(const at::Tensor& number) {
  if (number.dim() != 0 || !number.device().is_cpu() || number.itemsize() > sizeof(Key::bits)) return number;
  Key key{number.scalar_type(), {0, 0}};
  std::memcpy(key.bits, number.const_data_ptr(), number.itemsize());
  return known_.emplace(key, number).first->second;
}

}  // namespace stator::tracer
