#include "core/shapes/number.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

namespace stator::shapes {
namespace {

constexpr int64_t kMost = std::numeric_limits<int64_t>::max(), kLeast = std::numeric_limits<int64_t>::min();

Value whole(int64_t value) { return Value::of_int(value); }
Value real(double value) { return Value::of_float(value); }
int64_t result(Op op, int64_t a, int64_t b) { return *compute(op, whole(a), whole(b)).int64(); }

TEST(ShapeNumber, IntegersAsInPython) {
  EXPECT_EQ(result(Op::FloorDiv, -7, 2), -4);
  EXPECT_EQ(result(Op::Mod, -7, 2), 1);
  EXPECT_EQ(result(Op::Mod, 7, -2), -1);
  EXPECT_EQ(result(Op::FloorDiv, 6, -3), -2);
  EXPECT_EQ(result(Op::Pow, -3, 5), -243);
  EXPECT_EQ(result(Op::Shr, -7, 1), -4);
  EXPECT_EQ(result(Op::BitXor, -7, 2), -7 ^ 2);
  EXPECT_EQ(compute(Op::BitAnd, Value::of_bool(true), Value::of_bool(false)), Value::of_bool(false));
  EXPECT_EQ(compute(Op::Add, Value::of_bool(true), Value::of_bool(true)), whole(2));
  EXPECT_EQ(compute(Op::ToInt, real(-2.9), {}), whole(-2));
  EXPECT_EQ(compute(Op::Round, real(2.5), {}), whole(2));
  EXPECT_EQ(compute(Op::Round, real(-3.5), {}), whole(-4));
  EXPECT_EQ(compute(Op::Pow, whole(2), whole(-2)), real(0.25));
}

TEST(ShapeNumber, FunctionsOfIntegers) {
  EXPECT_EQ(result(Op::Gcd, 12, -18), 6);
  EXPECT_EQ(result(Op::Gcd, 0, 0), 0);
  EXPECT_EQ(result(Op::Gcd, kLeast, 6), 2);
  EXPECT_EQ(compute(Op::Gcd, whole(kLeast), whole(0)).integer(), -WideInt(kLeast));
  for (int64_t root : std::initializer_list<int64_t>{0, 1, 2, 3, 10, 3037000498}) {
    EXPECT_EQ(compute(Op::Isqrt, whole(root * root), {}), whole(root));
    EXPECT_EQ(compute(Op::Isqrt, whole(root * root + 2 * root), {}), whole(root)) << "before the next square";
  }
  EXPECT_FALSE(compute(Op::Isqrt, whole(-1), {}));
  EXPECT_EQ(compute(Op::BitLength, whole(0), {}), whole(0));
  EXPECT_EQ(compute(Op::BitLength, whole(-8), {}), whole(4));
  EXPECT_EQ(compute(Op::BitLength, whole(kLeast), {}), whole(64));
  EXPECT_EQ(compute(Op::BitCount, whole(-7), {}), whole(3));
  EXPECT_EQ(compute(Op::BitCount, Value::of_bool(true), {}), whole(1));
  for (Op op : {Op::Gcd, Op::Isqrt, Op::BitLength, Op::BitCount}) EXPECT_FALSE(compute(op, real(4.0), whole(2)));
}

TEST(ShapeNumber, IntegersBeyond64BitsAreExact) {
  EXPECT_EQ(compute(Op::FloorDiv, compute(Op::Mul, whole(kMost), whole(kMost)), whole(kMost)), whole(kMost));
  EXPECT_EQ(compute(Op::Neg, whole(kLeast), {}).integer(), -WideInt(kLeast));
  EXPECT_FALSE(compute(Op::Pow, whole(2), whole(127)));
  EXPECT_FALSE(compute(Op::Mul, compute(Op::Mul, whole(kMost), whole(kMost)), whole(4)));
  EXPECT_FALSE(compute(Op::Shl, whole(1), whole(127)));
}

TEST(ShapeNumber, FailsWherePythonRaises) {
  EXPECT_FALSE(compute(Op::FloorDiv, whole(1), whole(0)));
  EXPECT_FALSE(compute(Op::Mod, whole(1), whole(0)));
  EXPECT_FALSE(compute(Op::TrueDiv, whole(1), whole(0)));
  EXPECT_FALSE(compute(Op::TrueDiv, real(1), real(0)));
  EXPECT_FALSE(compute(Op::Shl, whole(1), whole(-1)));
  EXPECT_FALSE(compute(Op::Pow, real(-8), real(0.5)));
  EXPECT_FALSE(compute(Op::Pow, real(10), real(400)));
  EXPECT_FALSE(compute(Op::ToInt, real(std::numeric_limits<double>::infinity()), {}));
  EXPECT_FALSE(compute(Op::Sqrt, whole(-1), {}));
  EXPECT_FALSE(compute(Op::Log, whole(0), {}));
  EXPECT_FALSE(compute(Op::Exp, whole(1000), {}));
}

TEST(ShapeNumber, ComparesIntegersAndFloatsExactly) {
  const int64_t large = (int64_t{1} << 53) + 1;
  EXPECT_EQ(compute(Op::Gt, whole(large), real(0x1p53)), Value::of_bool(true));
  EXPECT_EQ(compute(Op::Eq, whole(large), real(0x1p53)), Value::of_bool(false));
  EXPECT_EQ(compute(Op::Lt, whole(kMost), real(0x1p63)), Value::of_bool(true));
  EXPECT_EQ(compute(Op::Ge, real(-0x1p63), whole(kLeast)), Value::of_bool(true));
  EXPECT_EQ(compute(Op::Lt, whole(-3), real(-2.5)), Value::of_bool(true));
  const double nan = std::nan("");
  EXPECT_EQ(compute(Op::Ne, whole(1), real(nan)), Value::of_bool(true));
  EXPECT_EQ(compute(Op::Lt, whole(1), real(nan)), Value::of_bool(false));
  EXPECT_EQ(compute(Op::Max, real(1), real(nan)), real(1));
}

TEST(ShapeNumber, QuotientsOfLargeIntegersAreRoundedOnce) {
  // Values of CPython.
  EXPECT_EQ(compute(Op::TrueDiv, whole(kMost), whole(3)), real(3.0744573456182584e18));
  EXPECT_EQ(compute(Op::TrueDiv, whole((int64_t{1} << 53) + 1), whole(2)), real(4503599627370496.0));
  EXPECT_EQ(compute(Op::TrueDiv, whole((int64_t{1} << 54) + 3), whole(1)), real(18014398509481988.0));
  EXPECT_EQ(compute(Op::TrueDiv, whole(1), whole(kMost)), real(1.0842021724855044e-19));
  EXPECT_EQ(compute(Op::TrueDiv, whole(0), whole(-kMost)), real(-0.0));
  EXPECT_EQ(compute(Op::FloorDiv, real(-7), real(2)), real(-4));
  EXPECT_EQ(compute(Op::Mod, real(7), real(-2)), real(-1));
}

}  // namespace
}  // namespace stator::shapes
