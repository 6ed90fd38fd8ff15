// What is made at its first use, by code that may be called again meanwhile.
#include "capture/pycompat/keep_first.h"

#include <gtest/gtest.h>

#include <memory>

namespace stator {
namespace {

TEST(KeepFirst, MakesOnce) {
  int* kept = nullptr;
  int calls = 0;
  auto make = [&] { return std::make_unique<int>(++calls); };
  int* first = keep_first(kept, make);
  EXPECT_EQ(*first, 1);
  EXPECT_EQ(keep_first(kept, make), first);
  EXPECT_EQ(calls, 1);
  delete first;
}

TEST(KeepFirst, WhatIsDoneFirstStays) {
  static int alive = 0;
  struct Counted {
    Counted() { ++alive; }
    ~Counted() { --alive; }
  };
  Counted* kept = nullptr;
  Counted* inner = nullptr;
  Counted* outer = keep_first(kept, [&] {
    auto made = std::make_unique<Counted>();
    inner = keep_first(kept, [] { return std::make_unique<Counted>(); });
    return made;
  });
  EXPECT_EQ(outer, inner);
  EXPECT_EQ(kept, inner);
  EXPECT_EQ(alive, 1);
  delete kept;
}

TEST(KeepFirst, AFailureIsTriedAgain) {
  int* kept = nullptr;
  EXPECT_EQ(keep_first(kept, [] { return std::unique_ptr<int>(); }), nullptr);
  std::unique_ptr<int> owner(keep_first(kept, [] { return std::make_unique<int>(7); }));
  EXPECT_EQ(*owner, 7);
}

}  // namespace
}  // namespace stator
