// Each rule on all small integers, negative ones and zero included.
#include <gtest/gtest.h>

#include "core/shapes/env.h"
#include "core/shapes/program.h"

namespace stator::shapes {
namespace {

/// Compares the value of `text` with the value of the same operations one by one, for all x, y and z in [-6, 6].
class Rules : public testing::Test {
 protected:
  Ex parse(const std::string& text) { return env->parse(text); }
  std::string simple(const std::string& text) {
    Ex expr = parse(text);
    return expr != nullptr ? to_python(expr) : "none";
  }
  Ex symbol(const std::string& name) { return env->named_symbol(name); }
  void bound(const std::string& truth) { env->learn(parse(truth)); }

  /// `build(x, y)` of symbols has the value that it has of constants, or fails as that does.
  template <class F>
  void check(const F& build, int64_t low = -7, int64_t high = 7) {
    EnvPtr symbols = ShapeEnv::make(), constants = ShapeEnv::make();
    Ex x = symbols->add_unbacked(Type::Int, {low, high}), y = symbols->add_unbacked(Type::Int, {low, high});
    Ex expr = build(*symbols, x, y);
    ASSERT_NE(expr, nullptr);
    Program program;
    const auto place = program.add(expr, [&](Ex symbol) { return std::optional<uint32_t>(symbol == x ? 0 : 1); });
    std::vector<Value> values(program.size());
    for (int64_t a = low; a <= high; ++a)
      for (int64_t b = low; b <= high; ++b) {
        const int64_t inputs[] = {a, b};
        program.run(inputs, values.data());
        Ex expected = build(*constants, constants->constant(a), constants->constant(b));
        const Value value = values[*place];
        ASSERT_EQ(static_cast<bool>(value), expected != nullptr) << to_python(expr) << " at " << a << " " << b;
        if (expected == nullptr) continue;
        ASSERT_EQ(value, expected->constant) << to_python(expr) << " at " << a << " " << b;
      }
  }

  EnvPtr env = ShapeEnv::make();
};

/// Null operands give null.
Ex on(ShapeEnv& env, Op op, Ex a, Ex b) { return a != nullptr && b != nullptr ? env.apply(op, a, b) : nullptr; }

TEST_F(Rules, QuotientsByConstants) {
  for (int64_t by : {-6, -4, -3, -2, -1, 1, 2, 3, 4, 6}) {
    for (int64_t times : {-6, -4, -3, -1, 1, 2, 3, 4, 6, 8}) {
      for (int64_t addend : {-7, -1, 0, 1, 5}) {
        for (Op op : {Op::FloorDiv, Op::Mod}) {
          check([&](ShapeEnv& env, Ex x, Ex y) {
            Ex sum = on(env, Op::Add, on(env, Op::Mul, env.constant(times), x),
                        on(env, Op::Mul, env.constant(int64_t{4}), y));
            return on(env, op, on(env, Op::Add, sum, env.constant(addend)), env.constant(by));
          });
        }
      }
    }
  }
}

TEST_F(Rules, NestedQuotients) {
  for (int64_t a : {-3, -2, 1, 2, 3, 5})
    for (int64_t b : {-3, -2, 2, 4})
      for (Op outer : {Op::FloorDiv, Op::Mod})
        for (Op inner : {Op::FloorDiv, Op::Mod})
          check([&](ShapeEnv& env, Ex x, Ex y) {
            Ex part = on(env, inner, on(env, Op::Add, x, y), env.constant(a));
            return on(env, outer, part, env.constant(b));
          });
}

TEST_F(Rules, QuotientsBySymbols) {
  for (Op op : {Op::FloorDiv, Op::Mod})
    for (int64_t low : {-7, 1})
      for (int64_t times : {-2, 1, 3}) {
        check([&](ShapeEnv& env, Ex x, Ex y) { return on(env, op, on(env, Op::Mul, x, y), y); }, low);
        check(
            [&](ShapeEnv& env, Ex x, Ex y) {
              return on(env, op, on(env, Op::Mul, env.constant(times), on(env, Op::Mul, x, y)),
                        on(env, Op::Mul, env.constant(int64_t{2}), y));
            },
            low);
        check(
            [&](ShapeEnv& env, Ex x, Ex y) {
              Ex sum = on(env, Op::Add, x, env.constant(times));
              return on(env, op, on(env, Op::Mul, sum, y), sum);
            },
            low);
      }
}

TEST_F(Rules, WhatMayFailIsKept) {
  check([&](ShapeEnv& env, Ex x, Ex y) {
    Ex part = on(env, Op::FloorDiv, x, y);
    return on(env, Op::Sub, part, part);
  });
  check([&](ShapeEnv& env, Ex x, Ex y) { return on(env, Op::Mul, env.constant(int64_t{0}), on(env, Op::Mod, x, y)); });
  check([&](ShapeEnv& env, Ex x, Ex y) {
    Ex part = on(env, Op::Mod, x, y);
    return on(env, Op::Eq, part, part);
  });
  check([&](ShapeEnv& env, Ex x, Ex y) {
    Ex part = on(env, Op::FloorDiv, x, y);
    Ex truth = part != nullptr ? env.apply(Op::Ge, part, env.constant(int64_t{0})) : nullptr;
    return on(env, Op::And, truth, env.constant(false));
  });
  EXPECT_EQ(simple("x//y - x//y"), "0*(x // y)");
  bound("y >= 1");
  EXPECT_EQ(simple("x//y - x//y"), "0");
}

TEST_F(Rules, ComparisonsOfQuotients) {
  for (Op op : {Op::Lt, Op::Le, Op::Eq, Op::Ne, Op::Gt, Op::Ge})
    for (int64_t by : {1, 2, 3})
      for (int64_t bound = -3; bound <= 3; ++bound) {
        check([&](ShapeEnv& env, Ex x, Ex y) {
          Ex part = on(env, Op::FloorDiv, on(env, Op::Sub, x, y), env.constant(by));
          return on(env, op, on(env, Op::Mul, env.constant(by), part), env.constant(bound));
        });
        check([&](ShapeEnv& env, Ex x, Ex y) {
          return on(env, op, on(env, Op::Mul, env.constant(by), on(env, Op::FloorDiv, x, env.constant(by))), y);
        });
      }
}

TEST_F(Rules, ComparisonsOfProducts) {
  for (Op op : {Op::Lt, Op::Le, Op::Eq, Op::Ne, Op::Gt, Op::Ge})
    for (int64_t low : {-7, 1}) {
      check([&](ShapeEnv& env, Ex x, Ex y) { return on(env, op, on(env, Op::Mul, x, y), on(env, Op::Mul, x, x)); },
            low);
      check(
          [&](ShapeEnv& env, Ex x, Ex y) {
            Ex one = env.constant(int64_t{1});
            Ex product = on(env, Op::Mul, on(env, Op::Add, x, one), on(env, Op::Sub, y, one));
            return on(env, op, product, on(env, Op::Mul, x, y));
          },
          low);
    }
}

TEST_F(Rules, MinMaxAndBits) {
  for (Op op : {Op::Min, Op::Max, Op::BitAnd, Op::BitOr, Op::BitXor}) {
    check([&](ShapeEnv& env, Ex x, Ex y) { return on(env, op, x, y); });
    check([&](ShapeEnv& env, Ex x, Ex) { return on(env, op, on(env, Op::Add, x, env.constant(int64_t{1})), x); });
    check([&](ShapeEnv& env, Ex x, Ex y) { return on(env, op, on(env, op, x, y), env.constant(int64_t{2})); });
  }
  check([&](ShapeEnv& env, Ex x, Ex y) { return on(env, Op::Shl, x, y); });
  check([&](ShapeEnv& env, Ex x, Ex y) { return on(env, Op::Shr, x, y); });
}

TEST_F(Rules, CanonicalForms) {
  EXPECT_EQ(parse("x + y + 3 - 1"), parse("2 + (y + x)"));
  EXPECT_EQ(parse("2*(x + 1)"), parse("x + x + 2"));
  EXPECT_EQ(parse("(x*y)*z"), parse("z*(y*x)"));
  EXPECT_EQ(parse("(2*x + 2)*(3*y)"), parse("6*y*(x + 1)"));
  EXPECT_EQ(parse("(x - y)*(y - x)"), parse("-(x - y)**2"));
  EXPECT_EQ(parse("x < y"), parse("y > x"));
  EXPECT_EQ(parse("not x < y"), parse("x >= y"));
  EXPECT_EQ(parse("2*x < 2*y + 1"), parse("x <= y"));
  EXPECT_EQ(simple("2*x == 2*y + 1"), "False");
  EXPECT_EQ(parse("not (x < y and y < z)"), parse("x >= y or y >= z"));
  EXPECT_EQ(simple("(4*x + 6)//4"), "x + 1");
  EXPECT_EQ(simple("(x//2)//3"), "x // 6");
  EXPECT_EQ(simple("(4*x + 2*y + 3) % 4"), "2*((y + 1) % 2) + 1");
  EXPECT_EQ(simple("2*(x//2) - 2 < x"), "True");
  EXPECT_EQ(simple("x > 2.5"), "x >= 3");
  EXPECT_EQ(simple("x // 0"), "none");
}

TEST_F(Rules, SizesOfAtLeastTwo) {
  bound("x >= 2");
  bound("y >= 2");
  EXPECT_EQ(simple("max(x, 1)"), "x");
  EXPECT_EQ(simple("x*y == 0"), "False");
  EXPECT_EQ(simple("x*y == 1"), "False");
  EXPECT_EQ(simple("(x*y*4)//(y*2)"), "2*x");
  EXPECT_EQ(simple("x*y >= x"), "True");
  EXPECT_EQ(simple("x*y == x*z"), "y == z");
  EXPECT_EQ(simple("(x*y) % y"), "0");
  EXPECT_EQ(simple("(x*y*(z + 1)) % (4*x*y)"), "x*y*((z + 1) % 4)");
  EXPECT_EQ(simple("min(x, x//2)"), "x // 2");
  EXPECT_EQ(simple("max(x + y//3, x)"), "x + y // 3");
  EXPECT_EQ(simple("x//2 + x//3 <= x"), "True");
}

TEST_F(Rules, PaddedToAMultiple) {
  bound("x >= 2");
  bound("y >= 2");
  EXPECT_EQ(simple("(x + -x % 4) % 4"), "0");
  EXPECT_EQ(simple("(x*y + -(x*y) % 8 + 8) % 8"), "0");
  EXPECT_EQ(simple("(x + -x % 4)//4 >= 1"), "True");
  EXPECT_EQ(simple("(y*(x + -x % 4)) % (4*y)"), "0");
  for (int64_t by : {1, 2, 3, 4})
    check([&](ShapeEnv& env, Ex x, Ex y) {
      Ex divisor = env.constant(by), minus = on(env, Op::Sub, y, x);
      return on(env, Op::Mod, on(env, Op::Add, x, on(env, Op::Mod, minus, divisor)), divisor);
    });
}

}  // namespace
}  // namespace stator::shapes
