#include "core/shapes/linear_sum.h"

#include <gtest/gtest.h>

namespace stator::shapes {
namespace {

LinearSum sum_of(const Expr& expr, int64_t times) {
  LinearSum sum;
  sum.add(expr, times);
  return sum;
}

TEST(LinearSum, TakesSumsAndMultiplesApart) {
  const Expr a = symbol(Type::Int, {0, 10}), b = symbol(Type::Int, {0, 10});
  LinearSum sum = sum_of(shapes::apply(Op::Add, shapes::apply(Op::Mul, constant(int64_t{2}), a), b), 3);
  sum.add(b, -3);
  EXPECT_EQ(sum.multiple_of(a), 6);
  EXPECT_EQ(sum.multiple_of(b), std::nullopt);
  sum.add(constant(int64_t{1}), 1);
  EXPECT_EQ(sum.multiple_of(a), std::nullopt);
}

TEST(LinearSum, RangesFollowTheSignOfTheFactor) {
  const Expr a = symbol(Type::Int, {1, 5}), unbounded = symbol(Type::Int, {0, INT64_MAX});
  EXPECT_EQ(sum_of(a, -2).range().low, -10);
  EXPECT_EQ(sum_of(a, -2).range().high, -2);
  EXPECT_EQ(sum_of(unbounded, -1).range().low, INT64_MIN);
  EXPECT_EQ(sum_of(unbounded, -1).range().high, 0);
  EXPECT_EQ(sum_of(a, INT64_MIN).range().high, INT64_MIN);
}

TEST(LinearSum, AddsManyLargeRanges) {
  LinearSum sum;
  for (int i = 0; i < 100; ++i) sum.add(symbol(Type::Int, {-INT64_MAX, INT64_MAX - 1}), INT64_MAX);
  EXPECT_EQ(sum.range().low, INT64_MIN);
  EXPECT_EQ(sum.range().high, INT64_MAX);
}

TEST(LinearSum, NoticesCoefficientsThatDoNotFit) {
  const Expr a = symbol(Type::Int);
  LinearSum sum = sum_of(a, INT64_MAX);
  EXPECT_TRUE(sum.fits());
  sum.add(a, 1);
  EXPECT_FALSE(sum.fits());
}

TEST(LinearSum, DividesOnlyWithoutRemainder) {
  const Expr a = symbol(Type::Int, {0, 10});
  LinearSum sum = sum_of(a, 6);
  sum.add(constant(int64_t{9}), 1);
  EXPECT_FALSE(sum.divide(2));
  EXPECT_EQ(sum.range().high, 69);
  EXPECT_TRUE(sum.divide(3));
  EXPECT_EQ(sum.range().high, 23);
  EXPECT_EQ(sum.range().low, 3);
}

}  // namespace
}  // namespace stator::shapes
