#include "core/base/pointer_map.h"

#include <gtest/gtest.h>

#include <random>
#include <unordered_map>

namespace stator {
namespace {

TEST(PointerMap, BehavesAsAMap) {
  PointerMap<int> map;
  std::unordered_map<const void*, int> model;
  std::mt19937 random(1);
  // Few distinct keys, so that runs collide and removals leave holes in their middle.
  auto key = [&] { return reinterpret_cast<const void*>(uintptr_t{16} * (1 + random() % 300)); };
  EXPECT_EQ(map.find(key()), nullptr);
  map.erase(key());
  for (int i = 0; i < 20000; ++i) {
    const void* k = key();
    switch (random() % 4) {
      case 0:
        EXPECT_EQ(map.insert(k, i).second, model.emplace(k, i).second);
        break;
      case 1:
        map.set(k, i);
        model[k] = i;
        break;
      default:
        map.erase(k);
        model.erase(k);
    }
    const void* probe = key();
    const int* found = map.find(probe);
    auto expected = model.find(probe);
    ASSERT_EQ(found != nullptr, expected != model.end());
    if (found) {
      ASSERT_EQ(*found, expected->second);
    }
    ASSERT_EQ(map.size(), model.size());
  }
}

TEST(PointerMap, HoldsMoreThanWasReserved) {
  PointerMap<int> map;
  map.reserve(20);
  auto key = [](int i) { return reinterpret_cast<const void*>(uintptr_t{16} * static_cast<uintptr_t>(1 + i)); };
  for (int i = 0; i < 100; ++i) EXPECT_TRUE(map.insert(key(i), i).second);
  EXPECT_EQ(map.size(), 100U);
  for (int i = 0; i < 100; ++i) EXPECT_EQ(*map.find(key(i)), i);
}

}  // namespace
}  // namespace stator
