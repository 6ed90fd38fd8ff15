#include "core/fake/pool.h"

#include <gtest/gtest.h>

#include <cstring>
#include <set>
#include <vector>

namespace stator::fake {
namespace {

TEST(Pool, SlotsAreDistinctAndReused) {
  static auto* pool = new Pool(40);
  std::vector<void*> slots;
  for (int i = 0; i < 5000; ++i) {
    slots.push_back(pool->allocate());
    std::memset(slots.back(), i & 0xFF, 40);
  }
  EXPECT_EQ(std::set<void*>(slots.begin(), slots.end()).size(), slots.size());
  for (int i = 0; i < 5000; ++i) {
    for (int byte = 0; byte < 40; ++byte) ASSERT_EQ(static_cast<unsigned char*>(slots[i])[byte], i & 0xFF);
  }
  // Every other one goes and comes back; the rest must not be touched.
  for (int i = 0; i < 5000; i += 2) pool->free(slots[i]);
  std::set<void*> held;
  for (int i = 1; i < 5000; i += 2) held.insert(slots[i]);
  for (int i = 0; i < 5000; i += 2) {
    slots[i] = pool->allocate();
    EXPECT_TRUE(held.insert(slots[i]).second);
  }
  for (void* slot : slots) pool->free(slot);
  void* again = pool->allocate();
  std::memset(again, 1, 40);
  pool->free(again);
}

}  // namespace
}  // namespace stator::fake
