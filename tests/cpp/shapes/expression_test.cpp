#include "core/shapes/expression.h"

#include <gtest/gtest.h>

#include <limits>

#include "core/shapes/sym_node.h"

namespace stator::shapes {
namespace {

Expr number(int64_t value) { return constant(value); }
Expr size() { return symbol(Type::Int, {0, 100}); }

TEST(Expression, EqualSumsLookEqual) {
  const auto a = size(), b = size();
  const auto left = shapes::apply(Op::Sub, shapes::apply(Op::Add, shapes::apply(Op::Add, a, b), number(3)), number(1));
  const auto right = shapes::apply(Op::Add, number(2), shapes::apply(Op::Add, b, a));
  EXPECT_EQ(left->text, right->text);
  EXPECT_EQ(shapes::apply(Op::Sub, left, right)->text, "0");
  EXPECT_EQ(shapes::apply(Op::Mul, number(2), shapes::apply(Op::Add, a, number(1)))->text,
            shapes::apply(Op::Add, shapes::apply(Op::Add, a, a), number(2))->text);
}

TEST(Expression, DecidesWhatFollowsFromRanges) {
  const auto a = size(), item = symbol(Type::Int);
  EXPECT_EQ(decide(shapes::apply(Op::Ge, a, number(0))), true);
  EXPECT_EQ(decide(shapes::apply(Op::Lt, a, number(0))), false);
  EXPECT_EQ(decide(shapes::apply(Op::Gt, a, number(0))), std::nullopt);
  EXPECT_EQ(decide(shapes::apply(Op::Eq, a, number(101))), false);
  EXPECT_EQ(decide(shapes::apply(Op::Gt, shapes::apply(Op::Add, a, number(1)), a)), true);
  EXPECT_EQ(decide(shapes::apply(Op::Eq, a, a)), true);
  EXPECT_EQ(decide(shapes::apply(Op::Eq, a, size())), std::nullopt);
  EXPECT_EQ(decide(shapes::apply(Op::Ge, item, number(0))), std::nullopt);
  EXPECT_EQ(decide(shapes::apply(Op::Le, item, number(std::numeric_limits<int64_t>::max()))), std::nullopt);
  EXPECT_EQ(decide(shapes::apply(Op::Not, shapes::apply(Op::Lt, a, number(0)))), true);
  EXPECT_EQ(decide(shapes::apply(Op::Or, shapes::apply(Op::Eq, item, a), shapes::apply(Op::Ge, a, number(0)))), true);
}

TEST(Expression, FloatsAreLeftAlone) {
  const auto x = symbol(Type::Float);
  EXPECT_EQ(decide(shapes::apply(Op::Eq, x, x)), std::nullopt);  // not a number
  EXPECT_NE(shapes::apply(Op::Sub, shapes::apply(Op::Add, x, constant(1.0)), constant(1.0))->text, x->text);
  EXPECT_EQ(shapes::apply(Op::FloorDiv, x, constant(2.0))->type, Type::Float);
  EXPECT_EQ(shapes::apply(Op::Max, x, symbol(Type::Int)), nullptr);  // of which type depends on the values
}

TEST(Expression, ComputesAsPythonDoes) {
  auto whole = [](Op op, int64_t a, int64_t b) { return std::get<int64_t>(compute(op, a, b)); };
  EXPECT_EQ(whole(Op::FloorDiv, -7, 2), -4);
  EXPECT_EQ(whole(Op::Mod, -7, 2), 1);
  EXPECT_EQ(whole(Op::Mod, 7, -2), -1);
  EXPECT_EQ(whole(Op::FloorDiv, 6, -3), -2);
  EXPECT_EQ(std::get<double>(compute(Op::TrueDiv, int64_t{1}, int64_t{4})), 0.25);
  EXPECT_EQ(whole(Op::Add, 2, 3), 5);
  EXPECT_EQ(std::get<int64_t>(compute(Op::Add, true, true)), 2);
  EXPECT_EQ(std::get<int64_t>(compute(Op::ToInt, -2.9, {})), -2);
  const double nan = std::numeric_limits<double>::quiet_NaN();
  EXPECT_EQ(std::get<double>(compute(Op::Max, 1.0, nan)), 1.0);
  EXPECT_NE(std::get<double>(compute(Op::Max, nan, 1.0)), 1.0);
}

TEST(Expression, FailsWherePythonRaisesOrHasMoreBits) {
  const int64_t most = std::numeric_limits<int64_t>::max();
  EXPECT_THROW(compute(Op::Add, most, int64_t{1}), std::domain_error);
  EXPECT_THROW(compute(Op::Mul, most, int64_t{2}), std::domain_error);
  EXPECT_THROW(compute(Op::TrueDiv, 1.0, 0.0), std::domain_error);
  EXPECT_THROW(compute(Op::Mod, int64_t{1}, int64_t{0}), std::domain_error);
  EXPECT_THROW(compute(Op::ToInt, std::numeric_limits<double>::infinity(), {}), std::domain_error);
  EXPECT_THROW(compute(Op::Lt, most, 1.0), std::domain_error);
  EXPECT_THROW(compute(Op::Neg, std::numeric_limits<int64_t>::min(), {}), std::domain_error);
}

TEST(Expression, TellsWhetherItMayFail) {
  const auto a = size(), item = symbol(Type::Int), x = symbol(Type::Float);
  EXPECT_FALSE(may_fail(shapes::apply(Op::Add, a, number(1))));
  EXPECT_TRUE(may_fail(shapes::apply(Op::Add, item, number(1))));
  EXPECT_FALSE(may_fail(shapes::apply(Op::TrueDiv, a, number(3))));
  EXPECT_TRUE(may_fail(shapes::apply(Op::TrueDiv, number(3), a)));
  EXPECT_FALSE(may_fail(shapes::apply(Op::TrueDiv, x, constant(2.0))));
  EXPECT_TRUE(may_fail(shapes::apply(Op::ToInt, x)));
  EXPECT_TRUE(may_fail(shapes::apply(Op::Mul, x, item)));
  EXPECT_FALSE(may_fail(shapes::apply(Op::Lt, x, constant(1.0))));
}

TEST(Expression, PowersAreThoseOfPython) {
  auto power = [](Number a, Number b) { return compute(Op::Pow, a, b); };
  EXPECT_EQ(std::get<int64_t>(power(int64_t{-3}, int64_t{5})), -243);
  EXPECT_EQ(std::get<int64_t>(power(int64_t{2}, int64_t{62})), int64_t{1} << 62);
  EXPECT_EQ(std::get<double>(power(int64_t{2}, int64_t{-2})), 0.25);
  EXPECT_EQ(std::get<double>(power(-8.0, 3.0)), -512.0);
  EXPECT_THROW(power(int64_t{2}, int64_t{63}), std::domain_error);
  EXPECT_THROW(power(-8.0, 0.5), std::domain_error);
  EXPECT_THROW(power(10.0, 400.0), std::domain_error);
  EXPECT_THROW(power(0.0, -1.0), std::domain_error);
  EXPECT_THROW(power(int64_t{0}, int64_t{-1}), std::domain_error);
  EXPECT_EQ(std::get<double>(compute(Op::FloorDiv, -7.0, 2.0)), -4.0);
  EXPECT_EQ(std::get<double>(compute(Op::Mod, -7.0, 2.0)), 1.0);
  EXPECT_EQ(std::get<double>(compute(Op::Mod, 7.0, -2.0)), -1.0);
  EXPECT_THROW(compute(Op::Mod, 7.0, 0.0), std::domain_error);
  // For integers, the sign of the exponent decides the result type.
  EXPECT_EQ(shapes::apply(Op::Pow, number(2), symbol(Type::Int)), nullptr);
  EXPECT_EQ(shapes::apply(Op::Pow, number(2), symbol(Type::Int, {0, 9}))->type, Type::Int);
  EXPECT_EQ(shapes::apply(Op::Pow, symbol(Type::Int), number(-1))->type, Type::Float);
}

TEST(Expression, StaysShortHoweverOftenItIsUsed) {
  Expr a = symbol(Type::Int), truth = shapes::apply(Op::Gt, a, number(0));
  for (int i = 0; i < 100; ++i) {
    a = shapes::apply(Op::Mod, shapes::apply(Op::Mul, a, a), number(1000));
    truth = shapes::apply(Op::Or, truth, truth);
    EXPECT_LT(a->text.size() + truth->text.size(), 1000u);
  }
  EXPECT_TRUE(may_fail(a));
  EXPECT_FALSE(may_fail(truth));
  EXPECT_EQ(decide(truth), std::nullopt);
}

TEST(SymNode, SizesCarryTheirExpressions) {
  const c10::SymInt a = new_size(10);
  EXPECT_TRUE(a.is_heap_allocated());
  EXPECT_EQ(simplified(a - a), 0);
  EXPECT_FALSE(simplified(a - a).is_heap_allocated());
  EXPECT_TRUE(a >= 0);
  EXPECT_EQ(known(a.sym_eq(3)), std::nullopt);
  EXPECT_THROW((void)(a == 3), std::exception);
  EXPECT_TRUE(a.sym_eq(3).expect_true(__FILE__, __LINE__));
  EXPECT_FALSE(a.sym_eq(11).expect_true(__FILE__, __LINE__));
  EXPECT_EQ(expression_of(position_in(a, 20))->text, expression_of(a)->text);
  EXPECT_TRUE(position_in(to_sym_int(symbol(Type::Int)), 6) <= 6);
}

}  // namespace
}  // namespace stator::shapes
