#include "core/shapes/program.h"

#include <gtest/gtest.h>

namespace stator::shapes {
namespace {

class Compiled : public testing::Test {
 protected:
  void size(int64_t hint, bool shared = false) {
    BackedSpec spec;
    spec.hint = hint;
    spec.shared = shared;
    env->add_backed(spec);
  }
  void decide(const std::string& text) { env->decide(env->parse(text)); }
  bool holds(std::vector<int64_t> inputs) { return GuardProgram::compile(*env).holds(inputs.data()); }

  EnvPtr env = ShapeEnv::make();
};

TEST_F(Compiled, LinearFormsAndRanges) {
  size(7);
  size(9);
  decide("s0 + 2 == s1");
  decide("s0 < 100");
  EXPECT_TRUE(holds({7, 9}));
  EXPECT_TRUE(holds({50, 52}));
  EXPECT_FALSE(holds({50, 53}));
  EXPECT_FALSE(holds({100, 102}));
  EXPECT_FALSE(holds({1, 3}));
}

TEST_F(Compiled, SourcesOfOneSymbolMustBeEqual) {
  size(7, true);
  size(7, true);
  const GuardProgram program = GuardProgram::compile(*env);
  const int64_t good[] = {8, 8}, bad[] = {8, 9}, small[] = {1, 1};
  EXPECT_TRUE(program.holds(good));
  EXPECT_EQ(program.first_failure(bad), GuardProgram::kShared);
  EXPECT_EQ(program.first_failure(small), 0);
}

TEST_F(Compiled, OtherTruths) {
  size(12);
  size(4);
  decide("s0 % s1 == 0");
  decide("s0 % 3 == 0 or s1 > 100");
  decide("s0*s1 != 50");
  EXPECT_TRUE(holds({12, 4}));
  EXPECT_TRUE(holds({24, 8}));
  EXPECT_FALSE(holds({13, 4}));
  EXPECT_FALSE(holds({16, 4}));
}

TEST_F(Compiled, DivisionByZeroDoesNotHold) {
  env = ShapeEnv::make({.duck_shaping = false, .zero_one = false});
  size(12);
  size(4);
  decide("s0 // s1 >= 0");
  EXPECT_TRUE(holds({1, 1}));
  EXPECT_FALSE(holds({1, 0}));
}

TEST_F(Compiled, OverflowIsComputedExactly) {
  size(int64_t{1} << 31);
  size(int64_t{1} << 31);
  decide("s0*s1 <= 4611686018427387904");  // 2^62
  EXPECT_TRUE(holds({int64_t{1} << 31, int64_t{1} << 31}));
  EXPECT_FALSE(holds({int64_t{1} << 32, int64_t{1} << 31}));
  EXPECT_FALSE(holds({int64_t{1} << 40, int64_t{1} << 40}));
  EXPECT_FALSE(holds({INT64_MAX, INT64_MAX}));
}

TEST_F(Compiled, Floats) {
  Ex real = env->add_backed_float(0.5, "p", 0).expr;
  env->decide(env->apply(Op::Gt, real, env->constant(0.25)));
  EXPECT_TRUE(holds({std::bit_cast<int64_t>(0.75)}));
  EXPECT_FALSE(holds({std::bit_cast<int64_t>(0.125)}));
}

TEST_F(Compiled, TellsWhichGuardFailed) {
  size(7);
  decide("s0 >= 5");
  decide("s0 <= 9");
  const auto guards = env->final_guards();
  const GuardProgram program = GuardProgram::compile(*env, guards);
  const int64_t low = 3, high = 10;
  EXPECT_EQ(to_python(guards[program.first_failure(&low)].truth), "s0 >= 5");
  EXPECT_EQ(to_python(guards[program.first_failure(&high)].truth), "s0 <= 9");
}

TEST_F(Compiled, ComputesSizes) {
  size(7);
  size(9);
  Program program;
  const InputOf input_of = [&](Ex symbol) {
    return std::optional<uint32_t>(symbol == env->inputs()[0].symbol ? 0 : 1);
  };
  const auto a = program.add(env->parse("(s0*s1 + 3)//4"), input_of),
             b = program.add(env->parse("s0 // (s1 - 5)"), input_of);
  std::vector<Value> values(program.size());
  const int64_t inputs[] = {10, 5};
  program.run(inputs, values.data());
  EXPECT_EQ(values[*a], Value::of_int(13));
  EXPECT_FALSE(values[*b]);
}

}  // namespace
}  // namespace stator::shapes
