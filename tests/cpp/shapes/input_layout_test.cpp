#include "core/shapes/input_layout.h"

#include <gtest/gtest.h>

namespace stator::shapes {
namespace {

using Sizes = std::vector<int64_t>;
using Strides = std::vector<int8_t>;

InputLayout layout(const Sizes& sizes, const Sizes& strides, uint64_t symbolic) {
  return layout_of(sizes, strides, symbolic);
}

TEST(InputLayout, StridesFollowTheSizesThatTheyAreProductsOf) {
  EXPECT_EQ(layout({4, 5, 6}, {30, 6, 1}, 0b010).strides, (Strides{1, -1, -1})) << "only the outer stride has size 1";
  EXPECT_EQ(layout({4, 5, 6}, {30, 6, 1}, 0b111).strides, (Strides{1, 2, -1}));
  EXPECT_EQ(layout({4, 5, 6}, {30, 6, 1}, 0b001).strides, (Strides{-1, -1, -1})) << "no stride has the outermost size";
}

TEST(InputLayout, ATransposedTensorFollowsItsOwnOrder) {
  EXPECT_EQ(layout({6, 5}, {1, 6}, 0b01).strides, (Strides{-1, 0}));
}

TEST(InputLayout, StridesThatAreNoProductStayConstants) {
  EXPECT_EQ(layout({4, 5}, {7, 1}, 0b11).strides, (Strides{-1, -1})) << "rows of a wider buffer";
  EXPECT_EQ(layout({4, 5}, {0, 1}, 0b11).strides, (Strides{-1, -1})) << "an expanded dimension";
}

TEST(InputLayout, ADimensionOfSizeOneIsPassedOver) {
  EXPECT_EQ(layout({4, 1, 6}, {6, 6, 1}, 0b101).strides, (Strides{1, 2, -1}));
}

TEST(InputLayout, OpenStridesBecomeSymbols) {
  EXPECT_EQ(layout_of(Sizes{4, 5}, Sizes{7, 1}, 0b11, 0b11).strides, (Strides{InputLayout::kOwnSymbol, -1}));
  EXPECT_EQ(layout_of(Sizes{3, 4, 5}, Sizes{28, 7, 1}, 0, 0b111).strides, (Strides{1, InputLayout::kOwnSymbol, -1}))
      << "the outer stride follows";
  EXPECT_EQ(layout_of(Sizes{4, 5}, Sizes{10, 2}, 0, 0b11).strides, (Strides{1, InputLayout::kOwnSymbol}));
  EXPECT_EQ(layout_of(Sizes{4, 5}, Sizes{0, 1}, 0b11, 0b11).strides, (Strides{-1, -1})) << "0 and 1 stay constants";
  EXPECT_EQ(layout_of(Sizes{4, 5}, Sizes{5, 1}, 0, 0b11).strides, (Strides{-1, -1})) << "a product of constants";
  EXPECT_FALSE(layout_of(Sizes{4, 5}, Sizes{7, 1}, 0, 0b01).is_static());
}

TEST(InputLayout, NoSymbolNoChange) {
  EXPECT_TRUE(layout({4, 5}, {5, 1}, 0).is_static());
  EXPECT_EQ(layout({4, 5}, {5, 1}, 0).strides, (Strides{-1, -1}));
  EXPECT_TRUE(layout({}, {}, 0).is_static());
}

}  // namespace
}  // namespace stator::shapes
