#include "core/shapes/env.h"

#include <gtest/gtest.h>

#include "core/shapes/program.h"

namespace stator::shapes {
namespace {

class Env : public testing::Test {
 protected:
  Ex size(int64_t hint, bool shared = false) {
    BackedSpec spec;
    spec.hint = hint;
    spec.source = "x" + std::to_string(env->inputs().size());
    spec.shared = shared;
    return env->add_backed(spec).expr;
  }
  Ex parse(const std::string& text) { return env->parse(text); }
  std::optional<bool> decide(const std::string& text) { return env->decide(parse(text)); }
  std::optional<bool> known(const std::string& text) { return env->known(parse(text)); }
  std::vector<std::string> guards() {
    std::vector<std::string> texts;
    for (const Guard& guard : env->final_guards()) texts.push_back(to_python(guard.truth));
    return texts;
  }
  using Texts = std::vector<std::string>;

  EnvPtr env = ShapeEnv::make();
};

TEST_F(Env, HintsDecideAndAreGuarded) {
  size(7);
  env->set_locator([] { return Location{3, "line 3"}; });
  EXPECT_EQ(known("s0 > 5"), std::nullopt);
  EXPECT_EQ(decide("s0 > 5"), true);
  EXPECT_EQ(known("s0 > 5"), true);
  ASSERT_EQ(env->guards().size(), 1u);
  EXPECT_EQ(to_python(env->guards()[0].truth), "s0 >= 6");
  EXPECT_EQ(env->guards()[0].where.text, "line 3");
  EXPECT_EQ(decide("s0 > 4"), true);
  EXPECT_EQ(decide("s0 == 0"), false);
  EXPECT_EQ(env->guards().size(), 1u);
}

TEST_F(Env, RangesMergeAndImpliedGuardsVanish) {
  size(7);
  size(9);
  EXPECT_EQ(decide("s0 >= 3"), true);
  EXPECT_EQ(decide("s0 >= 5"), true);
  EXPECT_EQ(decide("s0 < 100"), true);
  EXPECT_EQ(decide("2*s0 > 9"), true);
  EXPECT_EQ(decide("s0 < s1"), true);
  EXPECT_EQ(decide("s0 <= s1 + 3"), true);
  EXPECT_EQ(decide("2*s1 > 2*s0"), true);
  EXPECT_EQ(guards(), (Texts{"s0 >= 5", "s0 <= 99", "s0 + 1 <= s1"}));
}

TEST_F(Env, OneTransitiveStep) {
  size(3);
  size(5);
  size(8);
  decide("s0 <= s1");
  decide("s1 <= s2");
  EXPECT_EQ(known("s0 <= s2"), true);
  EXPECT_EQ(known("s0 > s2"), false);
  decide("s0 >= 3");
  EXPECT_EQ(known("s1 >= 3"), true);
}

TEST_F(Env, EqualitiesReplaceSymbols) {
  size(4);
  size(4);
  size(8);
  size(16);
  EXPECT_EQ(decide("s0 == s1"), true);
  EXPECT_EQ(decide("2*s0 == s2"), true);
  EXPECT_EQ(known("s2 == 2*s1"), true);
  EXPECT_EQ(to_python(env->simplify(parse("s1*s2"))), "2*s0**2");
  EXPECT_EQ(decide("s3 % 8 == 0"), true);
  EXPECT_EQ(known("s3 % 4 == 0"), true);
  EXPECT_EQ(known("8*(s3//8) == s3"), true);
  EXPECT_EQ(known("s3 % 16 == 9"), false);
  EXPECT_EQ(decide("s0 == 4"), true);
  EXPECT_EQ(to_python(env->simplify(parse("s1 + s2"))), "12");
  EXPECT_EQ(guards(), (Texts{"s0 == s1", "2*s0 == s2", "s3 % 8 == 0", "s0 == 4", "s3 >= 2"}));
}

TEST_F(Env, FactsBeforeAnEqualityCountAfterIt) {
  size(6);
  size(6);
  decide("s1 >= 5");
  decide("s1 % 3 == 0");
  decide("s0 == s1");
  EXPECT_EQ(known("s0 >= 5"), true);
  EXPECT_EQ(known("s0 % 3 == 0"), true);
}

TEST_F(Env, DuckShapingAndZeroOne) {
  Ex a = size(5, true), b = size(5, true), c = size(5);
  EXPECT_EQ(a, b);
  EXPECT_NE(a, c);
  EXPECT_EQ(to_python(size(1)), "1");
  EXPECT_EQ(to_python(size(0)), "0");
  EXPECT_EQ(env->inputs().size(), 3u);
  EXPECT_EQ(known("s0 >= 2"), true);
  EnvPtr open = ShapeEnv::make({.duck_shaping = true, .zero_one = false});
  BackedSpec one;
  one.hint = 1;
  Ex symbol = open->add_backed(one).expr;
  EXPECT_EQ(symbol->op, Op::Symbol);
  EXPECT_EQ(open->decide(open->apply(Op::Eq, symbol, open->constant(int64_t{1}))), true);
  EXPECT_EQ(open->guards().size(), 1u);
}

TEST_F(Env, UnbackedSymbolsAreAnsweredByFactsAlone) {
  Ex u = env->add_unbacked(Type::Int, {0, 100});
  EXPECT_EQ(known("u0 <= 100"), true);
  EXPECT_EQ(decide("u0 == 7"), std::nullopt);
  EXPECT_TRUE(env->guards().empty());
  EXPECT_FALSE(env->guard_or(parse("u0 == 7"), false));
  EXPECT_TRUE(env->guard_or(parse("u0 == 7"), true));
  EXPECT_FALSE(env->assume(parse("u0 > 100")));
  EXPECT_TRUE(env->assume(parse("u0 >= 3")));
  EXPECT_EQ(env->asserts().size(), 1u);
  EXPECT_EQ(known("u0 + 1 > 3"), true);
  EXPECT_TRUE(env->assume(parse("u0 == 12")));
  EXPECT_EQ(to_python(env->simplify(u)), "12");
}

TEST_F(Env, UnbackedSymbolsDoNotReplaceBackedOnes) {
  size(5);
  env->add_unbacked(Type::Int, {0, 100});
  EXPECT_TRUE(env->assume(parse("s0 == u0")));
  EXPECT_EQ(to_python(env->simplify(parse("u0 + s0"))), "2*s0");
  EXPECT_TRUE(env->guards().empty());
}

TEST_F(Env, SizeOblivious) {
  env->add_unbacked(Type::Int, {0, INT64_MAX}, /*is_size=*/true);
  EXPECT_EQ(known("u0 == 1"), std::nullopt);
  EXPECT_EQ(env->guard_size_oblivious(parse("u0 == 1")), false);
  EXPECT_EQ(env->guard_size_oblivious(parse("u0 == 0")), false);
  EXPECT_EQ(env->guard_size_oblivious(parse("u0 == 5")), std::nullopt);
  EXPECT_EQ(known("u0 == 1"), std::nullopt);
}

TEST_F(Env, FrozenEnvironmentsTakeNoGuards) {
  size(5);
  decide("s0 < 10");
  env->freeze();
  EXPECT_EQ(decide("s0 < 11"), true);
  EXPECT_THROW(decide("s0 == 5"), FrozenError);
}

TEST_F(Env, RollbackLeavesTheEnvironmentEqual) {
  size(5);
  size(5);
  decide("s0 < 10");
  const std::string before = env->describe();
  const auto mark = env->mark();
  size(12);
  env->add_unbacked(Type::Int);
  decide("s0 == s1");
  decide("s2 % 4 == 0");
  decide("s0 < 8");
  env->assume(parse("u0 >= s0"));
  EXPECT_NE(env->describe(), before);
  env->rollback(mark);
  EXPECT_EQ(env->describe(), before);
  EXPECT_EQ(known("s0 < 8"), std::nullopt);
  EXPECT_EQ(known("s0 == s1"), std::nullopt);
  EXPECT_EQ(to_python(size(20)), "s2");
  EXPECT_EQ(known("s2 % 4 == 0"), std::nullopt);
}

TEST_F(Env, EqualEnvironments) {
  EnvPtr other = ShapeEnv::make();
  size(5);
  BackedSpec spec;
  spec.hint = 5;
  spec.source = "x0";
  spec.shared = false;
  other->add_backed(spec);
  EXPECT_TRUE(*env == *other);
  decide("s0 < 9");
  EXPECT_FALSE(*env == *other);
  other->decide(other->parse("s0 < 9"));
  EXPECT_TRUE(*env == *other);
  EXPECT_TRUE(same_structure(parse("s0*(s0 + 1)"), other->parse("(1 + s0)*s0")));
}

TEST_F(Env, SpecializesValues) {
  size(6);
  EXPECT_EQ(env->specialize(parse("s0//2")), Value::of_int(3));
  EXPECT_EQ(guards(), (Texts{"s0 // 2 == 3"}));
  EXPECT_EQ(known("s0 >= 6 and s0 < 8"), true);
  Ex real = env->add_backed_float(0.5, "p", 1).expr;
  EXPECT_EQ(env->specialize(real), Value::of_float(0.5));
}

TEST_F(Env, Substitutes) {
  size(6);
  size(7);
  Ex expr = parse("s0*(s1 + 1)//2");
  EXPECT_EQ(env->substitute(expr, {{parse("s1"), parse("3")}}), parse("2*s0"));
  EXPECT_EQ(env->substitute(parse("s0//s1"), {{parse("s1"), parse("0")}}), nullptr);
}

TEST_F(Env, LongSumsAndProducts) {
  Ex sum = env->constant(int64_t{0}), product = env->constant(int64_t{1});
  for (int i = 0; i < 2000; ++i) {
    sum = env->apply(Op::Add, sum, env->add_unbacked(Type::Int, {0, INT64_MAX}, true));
    if (i < 60)
      product = env->apply(Op::Mul, product, env->apply(Op::Add, env->symbols()[i]->expr, env->constant(int64_t{2})));
  }
  EXPECT_EQ(sum->count, 2000u);
  EXPECT_EQ(product->count, 60u);
  EXPECT_EQ(env->known(env->apply(Op::Ge, sum, env->constant(int64_t{0}))), true);
  EXPECT_EQ(env->known(env->apply(Op::Eq, product, env->constant(int64_t{0}))), false);
  EXPECT_EQ(env->apply(Op::Sub, sum, sum)->int_constant(), 0);
  EXPECT_EQ(parse(to_python(sum)), sum);
  EXPECT_EQ(parse(to_python(product)), product);
}

TEST_F(Env, DeepChainsNeedNoRecursion) {
  Ex u = env->add_unbacked(Type::Int, {0, 1000});
  Ex deep = u;
  for (int i = 0; i < 50000; ++i)
    deep = env->apply(Op::Add, env->apply(Op::FloorDiv, env->apply(Op::Mul, deep, deep), env->constant(int64_t{7})), u);
  env->assume(env->apply(Op::Ge, u, env->constant(int64_t{5})));
  EXPECT_EQ(env->simplify(deep)->type, Type::Int);
  Ex shared = u;
  for (int i = 0; i < 100; ++i)
    shared =
        env->apply(Op::Mod, env->apply(Op::Mul, shared, env->apply(Op::Add, shared, u)), env->constant(int64_t{1000}));
  const std::string text = to_python(shared);
  EXPECT_LT(text.size(), 10000u);
  EXPECT_EQ(parse(text), shared);
  EXPECT_LT(to_cpp(shared).size(), 20000u);
}

TEST_F(Env, LargeNumbersNeverWrap) {
  const int64_t k31 = int64_t{1} << 31, k62 = int64_t{1} << 62;
  Ex u = env->add_unbacked(Type::Int, {0, INT64_MAX});
  Ex large = env->apply(Op::Mul, u, env->constant(k62));
  EXPECT_EQ(env->apply(Op::Mul, large, env->constant(int64_t{4})), nullptr);  // 2^64 is not a coefficient
  EXPECT_TRUE(env->derived(large).may_leave_int64);
  EXPECT_EQ(env->known(env->apply(Op::Ge, large, u)), true);
  Ex square = env->apply(Op::Mul, u, u);
  EXPECT_EQ(env->derived(square).range.high, WideInt(INT64_MAX) * INT64_MAX);
  EXPECT_EQ(known(std::to_string(k31) + "*" + std::to_string(k31) + " == " + std::to_string(k62)), true);
  EXPECT_EQ(env->apply(Op::Add, env->constant(INT64_MAX), env->constant(int64_t{1})), nullptr);
  EXPECT_EQ(env->apply(Op::Add, env->apply(Op::Add, u, env->constant(INT64_MAX)), env->constant(int64_t{1})), nullptr);
  EXPECT_EQ(
      env->known(env->apply(Op::Gt, env->apply(Op::Add, u, env->constant(INT64_MAX)), env->constant(INT64_MAX - 1))),
      true);
  EXPECT_EQ(env->apply(Op::Neg, env->constant(INT64_MIN)), nullptr);
}

TEST_F(Env, ChecksOfOperatorsAreNoFacts) {
  Ex u = env->add_unbacked(Type::Int, {0, INT64_MAX}, /*is_size=*/true);
  const ShapeEnv::Mark mark = env->mark();
  Ex check = env->apply(Op::Ge, u, env->constant(int64_t{3}));
  env->note_check(check);
  env->note_check(env->constant(true));
  EXPECT_EQ(env->checks(), std::vector<Ex>{check});
  EXPECT_EQ(env->known(check), std::nullopt);
  env->rollback(mark);
  EXPECT_TRUE(env->checks().empty());
}

TEST_F(Env, NeedlessQuestionsOfThePeerFold) {
  size(8);
  size(9);
  for (const char* text : {"2*(s0//2) - 2 < s0", "s0*s1 != 0", "(s0*s1)//s1 == s0", "max(s0, 1) == s0", "s0 + 1 != 1",
                           "(s0 + 3)//4 >= 1", "s0*s1 == s1*s0", "-1*s0 < 0", "s0*s1 >= s0"}) {
    EXPECT_EQ(known(text), true) << text;
  }
  EXPECT_TRUE(env->guards().empty());
}

}  // namespace
}  // namespace stator::shapes
