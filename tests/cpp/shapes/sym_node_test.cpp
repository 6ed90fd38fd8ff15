#include "core/shapes/sym_node.h"

#include <c10/core/ConstantSymNodeImpl.h>
#include <gtest/gtest.h>

#include "core/shapes/current.h"

namespace stator::shapes {
namespace {

class SymNumbers : public testing::Test {
 protected:
  c10::SymInt size(int64_t hint) {
    BackedSpec spec;
    spec.hint = hint;
    spec.shared = false;
    return to_sym_int(env->add_backed(spec).expr);
  }
  c10::SymInt unbacked(bool is_size = true) {
    return to_sym_int(env->add_unbacked(Type::Int, {INT64_MIN, INT64_MAX}, is_size));
  }
  static c10::SymNode node(const c10::SymInt& number) {
    return number.is_heap_allocated() ? number.toSymNode() : nullptr;
  }
  /// Whether a tensor of these sizes and strides is contiguous, by the node of the first symbolic one.
  static bool contiguous(std::vector<c10::SymInt> sizes, std::vector<c10::SymInt> strides) {
    c10::SymNode base;
    for (const auto& number : sizes)
      if (!base && number.is_heap_allocated()) base = number.toSymNode();
    std::vector<c10::SymNode> a, b;
    for (const auto& number : sizes) a.push_back(number.wrap_node(base));
    for (const auto& number : strides) b.push_back(number.wrap_node(base));
    return base->is_contiguous(a, b)->guard_bool("", 0);
  }

  EnvPtr env = ShapeEnv::make();
};

TEST_F(SymNumbers, UnbackedOnesAreNotDecided) {
  EnvScope scope(env.get());
  const c10::SymInt a = new_size(10);
  EXPECT_TRUE(a.is_heap_allocated());
  EXPECT_FALSE(simplified(a - a).is_heap_allocated());
  EXPECT_TRUE(a >= 0);
  EXPECT_EQ(known(a.sym_eq(3)), std::nullopt);
  EXPECT_THROW((void)(a == 3), std::exception);
  EXPECT_TRUE(a.sym_eq(3).expect_true(__FILE__, __LINE__));
  EXPECT_FALSE(a.sym_eq(11).expect_true(__FILE__, __LINE__));
  EXPECT_EQ(expression_of(position_in(a, 20)), expression_of(a));
  EXPECT_TRUE(position_in(unbacked(false), 6) <= 6);
  EXPECT_EQ(quotient(a * 6, c10::SymInt(3)).sym_eq(a * 2).maybe_as_bool(), true);
}

TEST_F(SymNumbers, BackedOnesAreDecidedByHintsAndGuarded) {
  const c10::SymInt a = size(6), b = size(6);
  EXPECT_TRUE(a.toSymNode()->has_hint());
  EXPECT_TRUE(a == b);
  EXPECT_FALSE(a > 100);
  ASSERT_EQ(env->guards().size(), 2u);
  EXPECT_TRUE(a == b);
  EXPECT_FALSE(a == 1);
  EXPECT_EQ(env->guards().size(), 2u);
  EXPECT_FALSE(a.sym_eq(7).expect_true("", 0));
  EXPECT_FALSE(a.sym_eq(8).statically_known_true("", 0));
  EXPECT_EQ((a * 2).guard_int("", 0), 12);
  EXPECT_EQ(simplified(b), 6);
}

TEST_F(SymNumbers, SizesAreNotNegativeOnceAnOperatorTookThem) {
  const c10::SymInt n = unbacked(false);
  EXPECT_EQ(known(n.sym_ge(0)), std::nullopt);
  {
    EnvScope scope(env.get());
    EXPECT_EQ(expression_of(as_size(n)), expression_of(n));
  }
  EXPECT_EQ(known(n.sym_ge(0)), true);
  const c10::SymInt m = unbacked(false);
  EXPECT_EQ(known(as_size(m).sym_ge(0)), true);
  EXPECT_EQ(known(m.sym_ge(0)), std::nullopt);
}

TEST_F(SymNumbers, ContiguityOfSizesIsKnownWithoutGuards) {
  const c10::SymInt a = size(5), b = size(7), c = size(9);
  EXPECT_TRUE(contiguous({a, b, c}, {b * c, c, 1}));
  EXPECT_TRUE(contiguous({a, 1, c}, {c, 12345, 1}));
  EXPECT_FALSE(contiguous({a, b, c}, {b * c * 2, c, 1}));
  EXPECT_TRUE(env->guards().empty());
  EXPECT_FALSE(contiguous({a, b}, {1, a}));
  const c10::SymInt u = unbacked();
  EXPECT_TRUE(contiguous({u, b}, {b, 1}));
  EXPECT_THROW(contiguous({u, b}, {1, u}), std::exception);
}

TEST_F(SymNumbers, ConstantsOfOtherNodesAreAccepted) {
  const c10::SymInt a = size(5);
  const c10::SymNode least = c10::make_intrusive<c10::ConstantSymNodeImpl<int64_t>>(INT64_MIN);
  EXPECT_TRUE(a.toSymNode()->gt(least)->guard_bool("", 0));
  EXPECT_TRUE(env->guards().empty());
  EnvPtr other = ShapeEnv::make();
  const c10::SymNode foreign = to_node(other->add_unbacked(Type::Int));
  EXPECT_THROW(a.toSymNode()->add(foreign), std::exception);
  EXPECT_EQ(a.toSymNode()->add(to_node(other->constant(int64_t{2})))->guard_int("", 0), 7);
}

TEST_F(SymNumbers, AnExpressionKeepsItsEnvironmentAlive) {
  c10::SymInt sum = size(5) + size(6);
  env = {};
  EXPECT_EQ(sum.toSymNode()->str(), "s0 + s1");
  EXPECT_TRUE(sum > 4);
}

}  // namespace
}  // namespace stator::shapes
