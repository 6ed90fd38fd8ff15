#include <gtest/gtest.h>

#include "core/shapes/env.h"

namespace stator::shapes {
namespace {

TEST(ShapeText, RoundTrips) {
  EnvPtr env = ShapeEnv::make();
  for (const char* text : {"x + 1",
                           "-x",
                           "2*x - 3*y + 4",
                           "x*y**2*(x + 1)",
                           "(x + 1) // y",
                           "x % (y + 2)",
                           "min(x, y)",
                           "x + 1 <= y",
                           "x == 4",
                           "x + y != 3",
                           "not f0 < 1.5",
                           "x / y",
                           "float(x)",
                           "math.floor(x / y)",
                           "int(f0)",
                           "math.sqrt(f0)",
                           "abs(x)",
                           "x if y >= 1 else z",
                           "x >= 2 and (y <= 1 or z == 0)",
                           "x & y",
                           "(x | y) ^ 3",
                           "x << y",
                           "2**f0",
                           "f0 - -1.0",
                           "f0 + float('inf')",
                           "f0*1e+20",
                           "(x // y)**3",
                           "0*(x // y)",
                           "x - (y + z) // 2",
                           "f0 - (f1 - f0)",
                           "round(f0)",
                           "-9223372036854775808"}) {
    Ex expr = env->parse(text);
    ASSERT_NE(expr, nullptr) << text;
    EXPECT_EQ(env->parse(to_python(expr)), expr) << text << " and " << to_python(expr);
  }
}

TEST(ShapeText, Python) {
  EnvPtr env = ShapeEnv::make();
  auto text = [&](const char* given) { return to_python(env->parse(given)); };
  EXPECT_EQ(text("y+x*2-3"), "2*x + y - 3");
  EXPECT_EQ(text("x - y < 5"), "x <= y + 4");
  EXPECT_EQ(text("y + 5 > x + 7"), "x + 3 <= y");
  EXPECT_EQ(text("(x//4)*3"), "3*(x // 4)");
  EXPECT_EQ(text("x*-1"), "-x");
  EXPECT_EQ(text("x*(y+1)"), "x*(y + 1)");
}

TEST(ShapeText, Cpp) {
  EnvPtr env = ShapeEnv::make();
  auto text = [&](const char* given) { return to_cpp(env->parse(given)); };
  EXPECT_EQ(text("(x + 1) // 4"), "stator_floordiv(x + 1, 4)");
  EXPECT_EQ(text("x >= 1 and y >= 2"), "x >= 1 && y >= 2");
  EXPECT_EQ(text("x if y >= 1 else z"), "y >= 1 ? x : z");
  EXPECT_EQ(text("x**2"), "stator_pow(x, 2)");
}

TEST(ShapeText, WhatIsNoExpression) {
  EnvPtr env = ShapeEnv::make();
  for (const char* text : {"", "x +", "(x", "x y", "foo(x)", "1..2", "99999999999999999999", "x if y", "abs(x, y)", ")",
                           "min()", "[a := 1", "x == "}) {
    EXPECT_EQ(env->parse(text), nullptr) << text;
  }
  EXPECT_EQ(env->parse(std::string(100000, '(')), nullptr);
}

}  // namespace
}  // namespace stator::shapes
