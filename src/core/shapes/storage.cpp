#include "core/shapes/storage.h"

#include <algorithm>

namespace stator::shapes {
namespace {

uint64_t mixed(uint64_t hash, uint64_t value) {
  hash ^= value + 0x9e3779b97f4a7c15ull + (hash << 6) + (hash >> 2);
  hash *= 0xff51afd7ed558ccdull;
  return hash ^ (hash >> 32);
}

uint64_t hash_of(const Expression& key) {
  uint64_t hash = mixed(static_cast<uint64_t>(key.op), static_cast<uint64_t>(key.type));
  hash = mixed(hash, reinterpret_cast<uintptr_t>(key.symbol));
  hash = mixed(hash, static_cast<uint64_t>(key.addend));
  if (key.is_constant()) {
    hash = mixed(hash, static_cast<uint64_t>(key.constant.integer()));
    hash = mixed(hash, std::bit_cast<uint64_t>(key.constant.real()));
  }
  for (uint32_t i = 0; i < key.count; ++i) {
    hash = mixed(hash, key.operands[i]->hash);
    if (key.numbers != nullptr) hash = mixed(hash, static_cast<uint64_t>(key.numbers[i]));
  }
  return hash;
}

bool is_same(const Expression& a, const Expression& b) {
  return a.hash == b.hash && a.op == b.op && a.type == b.type && a.count == b.count && a.symbol == b.symbol &&
         a.addend == b.addend && a.constant == b.constant && std::equal(a.begin(), a.end(), b.begin()) &&
         (a.numbers == nullptr) == (b.numbers == nullptr) &&
         (a.numbers == nullptr || std::equal(a.numbers, a.numbers + a.count, b.numbers));
}

}  // namespace

Ex Storage::find(Expression& key) const {
  key.hash = hash_of(key);
  if (slots_.empty()) return nullptr;
  for (size_t i = key.hash & (slots_.size() - 1);; i = (i + 1) & (slots_.size() - 1)) {
    if (slots_[i] == nullptr) return nullptr;
    if (is_same(*slots_[i], key)) return slots_[i];
  }
}

template <class T>
const T* Storage::copy(const T* values, uint32_t count) {
  if (values == nullptr || count == 0) return nullptr;
  const size_t bytes = count * sizeof(T);  // a multiple of 8
  if (bytes > left_) {
    constexpr size_t kBlock = 16384;
    left_ = std::max(bytes, kBlock);
    blocks_.push_back(std::make_unique<std::byte[]>(left_));
    free_ = blocks_.back().get();
  }
  std::memcpy(free_, values, bytes);
  const T* made = reinterpret_cast<const T*>(free_);
  free_ += bytes;
  left_ -= bytes;
  return made;
}

void Storage::grow() {
  std::vector<Ex> old = std::move(slots_);
  slots_.assign(std::max<size_t>(64, old.size() * 2), nullptr);
  for (Ex expr : old) {
    if (expr == nullptr) continue;
    size_t i = expr->hash & (slots_.size() - 1);
    while (slots_[i] != nullptr) i = (i + 1) & (slots_.size() - 1);
    slots_[i] = expr;
  }
}

Expression* Storage::add(const Expression& key) {
  if ((expressions_.size() + 1) * 2 > slots_.size()) grow();
  Expression& made = expressions_.emplace_back(key);
  made.operands = copy(key.operands, key.count);
  made.numbers = copy(key.numbers, key.count);
  size_t i = made.hash & (slots_.size() - 1);
  while (slots_[i] != nullptr) i = (i + 1) & (slots_.size() - 1);
  slots_[i] = &made;
  return &made;
}

}  // namespace stator::shapes
