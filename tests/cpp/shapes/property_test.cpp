// Random expressions, against exact evaluation. STATOR_FUZZ_COUNT and STATOR_FUZZ_SEED choose how many, and which.
#include <gtest/gtest.h>

#include <cmath>
#include <cstdlib>
#include <memory>
#include <random>

#include "core/shapes/env.h"
#include "core/shapes/program.h"

namespace stator::shapes {
namespace {

constexpr int kSymbols = 4;

/// An expression as the program wrote it.
struct Tree {
  Op op = Op::Constant;
  int64_t number = 0;  // a constant, or the number of a symbol
  std::vector<std::shared_ptr<Tree>> operands;
};
using TreePtr = std::shared_ptr<Tree>;

Value exact(const Tree& tree, const int64_t* values) {
  if (tree.op == Op::Constant) return Value::of_int(tree.number);
  if (tree.op == Op::Symbol) return Value::of_int(values[tree.number]);
  std::vector<Value> operands;
  for (const auto& operand : tree.operands) {
    operands.push_back(exact(*operand, values));
    if (!operands.back()) return {};
  }
  if (tree.op == Op::Ite) return operands[0].truth() ? operands[1] : operands[2];
  return compute(tree.op, operands[0], operands.size() > 1 ? operands[1] : Value());
}

/// An upper bound of the constants in the canonical form; symbols count as the numbers that they are.
double magnitude(const Tree& tree) {
  if (tree.op == Op::Constant) return std::abs(static_cast<double>(tree.number)) + 1;
  double sum = 1, product = 1;
  for (const auto& operand : tree.operands) {
    sum += magnitude(*operand);
    product *= magnitude(*operand);
  }
  if (tree.op == Op::Pow || tree.op == Op::Shl)
    return tree.op == Op::Shl ? sum * 16
                              : std::pow(magnitude(*tree.operands[0]), static_cast<double>(tree.operands[1]->number));
  return std::max(sum, product);
}

class Generator {
 public:
  explicit Generator(uint64_t seed) : random_(seed) {}
  int64_t number(int64_t low, int64_t high) { return std::uniform_int_distribution<int64_t>(low, high)(random_); }
  bool chance(int percent) { return number(0, 99) < percent; }

  TreePtr integer(int depth) {
    if (depth == 0 || chance(15)) return leaf();
    constexpr Op kOps[] = {Op::Add,   Op::Add,   Op::Sub, Op::Mul,   Op::Mul,       Op::FloorDiv, Op::FloorDiv,
                           Op::Mod,   Op::Mod,   Op::Min, Op::Max,   Op::Neg,       Op::Abs,      Op::Pow,
                           Op::Ite,   Op::ToInt, Op::Shl, Op::Shr,   Op::BitAnd,    Op::BitOr,    Op::BitXor,
                           Op::Floor, Op::Ceil,  Op::Gcd, Op::Isqrt, Op::BitLength, Op::BitCount};
    const Op op = kOps[number(0, std::size(kOps) - 1)];
    switch (op) {
      case Op::Ite:
        return node(op, {truth(depth - 1), integer(depth - 1), integer(depth - 1)});
      case Op::ToInt:
        return node(op, {chance(50) ? truth(depth - 1) : real(depth - 1)});
      case Op::Floor:
      case Op::Ceil:
        return node(op, {real(depth - 1)});
      case Op::Pow:
        return node(op, {integer(depth - 1), constant(number(0, 3))});
      case Op::Shl:
      case Op::Shr:
        return node(op, {integer(depth - 1), constant(number(0, 4))});
      case Op::Neg:
      case Op::Abs:
      case Op::Isqrt:
      case Op::BitLength:
      case Op::BitCount:
        return node(op, {integer(depth - 1)});
      case Op::FloorDiv:
      case Op::Mod:
        return node(op, {integer(depth - 1), chance(60) ? constant(number(-6, 8)) : integer(depth - 1)});
      default:
        return node(op, {integer(depth - 1), integer(depth - 1)});
    }
  }

  TreePtr truth(int depth) {
    constexpr Op kOps[] = {Op::Lt, Op::Le, Op::Eq, Op::Ne, Op::Gt, Op::Ge, Op::And, Op::Or, Op::Not};
    const Op op = kOps[number(0, depth > 0 ? std::size(kOps) - 1 : 5)];
    if (op == Op::Not) return node(op, {truth(depth - 1)});
    if (op == Op::And || op == Op::Or) return node(op, {truth(depth - 1), truth(depth - 1)});
    const int inner = depth > 0 ? depth - 1 : 0;
    return node(op, {integer(inner), chance(10) ? real(inner) : integer(inner)});
  }

  TreePtr real(int depth) {
    const int inner = depth > 0 ? depth - 1 : 0;
    if (chance(60)) return node(Op::TrueDiv, {integer(inner), chance(50) ? constant(number(1, 5)) : integer(inner)});
    if (chance(50)) return node(Op::ToFloat, {integer(inner)});
    return node(chance(50) ? Op::Add : Op::Mul, {node(Op::ToFloat, {integer(inner)}), integer(inner)});
  }

 private:
  static TreePtr node(Op op, std::vector<TreePtr> operands) {
    return std::make_shared<Tree>(Tree{op, 0, std::move(operands)});
  }
  static TreePtr constant(int64_t value) { return std::make_shared<Tree>(Tree{Op::Constant, value, {}}); }
  TreePtr leaf() {
    if (chance(25)) return constant(number(-5, 9));
    return std::make_shared<Tree>(Tree{Op::Symbol, number(0, kSymbols - 1), {}});
  }

  std::mt19937_64 random_;
};

/// Null as `ShapeEnv::apply`.
Ex build(ShapeEnv& env, const Tree& tree, const std::vector<Ex>& symbols) {
  if (tree.op == Op::Constant) return env.constant(tree.number);
  if (tree.op == Op::Symbol) return symbols[tree.number];
  std::vector<Ex> operands;
  for (const auto& operand : tree.operands) {
    operands.push_back(build(env, *operand, symbols));
    if (operands.back() == nullptr) return nullptr;
  }
  operands.resize(3, nullptr);
  return env.apply(tree.op, operands[0], operands[1], operands[2]);
}

class Evaluator {
 public:
  Evaluator(const std::vector<Ex>& symbols, Ex expr) {
    place_ = *program_.add(expr, [&](Ex symbol) -> std::optional<uint32_t> {
      for (uint32_t i = 0; i < symbols.size(); ++i)
        if (symbols[i] == symbol) return i;
      return std::nullopt;
    });
    values_.resize(program_.size());
  }
  Value operator()(const int64_t* inputs) {
    program_.run(inputs, values_.data());
    return values_[place_];
  }

 private:
  Program program_;
  uint32_t place_;
  std::vector<Value> values_;
};

struct Limits {
  int64_t low, high;
};

void choose(Generator& random, const std::vector<Limits>& limits, int64_t* values) {
  for (int i = 0; i < kSymbols; ++i) values[i] = random.number(limits[i].low, limits[i].high);
}

std::string shown(const int64_t* values) {
  std::string text;
  for (int i = 0; i < kSymbols; ++i) text += std::to_string(values[i]) + " ";
  return text;
}

/// The expression has the exact value where there is one, and fails where the program does.
void check_value(ShapeEnv& env, Ex expr, const Tree& tree, Evaluator& evaluate, const int64_t* values) {
  const Value expected = exact(tree, values), found = evaluate(values);
  ASSERT_EQ(static_cast<bool>(found), static_cast<bool>(expected)) << to_python(expr) << " at " << shown(values);
  if (!expected) {
    ASSERT_TRUE(env.derived(expr).may_fail) << to_python(expr) << " at " << shown(values);
    return;
  }
  const bool same =
      found == expected || (expected.is_float() && std::isnan(expected.real()) && std::isnan(found.real()));
  ASSERT_TRUE(same) << to_python(expr) << " at " << shown(values);
  if (expr->type != Type::Int) return;
  const Derived& derived = env.derived(expr);
  ASSERT_TRUE(derived.range.contains(expected.integer())) << to_python(expr) << " at " << shown(values);
  const auto [modulus, remainder] = derived.congruence;
  const WideInt distance = expected.integer() - remainder;
  ASSERT_TRUE(modulus == 0 ? distance == 0 : distance % modulus == 0) << to_python(expr) << " at " << shown(values);
}

void check_expression(Generator& random) {
  EnvPtr env = ShapeEnv::make();
  std::vector<Ex> symbols;
  std::vector<Limits> limits;
  for (int i = 0; i < kSymbols; ++i) {
    const int64_t low = random.chance(50) ? random.number(0, 3) : random.number(-4, 1);
    limits.push_back({low, low + random.number(1, 8)});
    symbols.push_back(env->add_unbacked(Type::Int, {limits.back().low, limits.back().high}));
  }
  const TreePtr tree = random.chance(25) ? random.truth(4) : random.chance(10) ? random.real(4) : random.integer(4);
  Ex expr = build(*env, *tree, symbols);
  int64_t values[kSymbols];
  if (expr == nullptr) {
    // Python would raise for all values, or a coefficient is too large.
    if (magnitude(*tree) > 0x1p60) return;
    for (int i = 0; i < 5; ++i) {
      choose(random, limits, values);
      ASSERT_FALSE(exact(*tree, values)) << shown(values);
    }
    return;
  }
  Ex parsed = env->parse(to_python(expr));
  ASSERT_NE(parsed, nullptr) << to_python(expr);
  // The text may have sums that the expression does not have as parts, and one of these may be known to be a constant.
  ASSERT_TRUE(parsed == expr || parsed->tree_size < expr->tree_size) << to_python(expr) << " and " << to_python(parsed);
  ASSERT_FALSE(to_cpp(expr).empty());
  Ex simple = env->simplify(expr);
  Evaluator evaluate(symbols, expr), evaluate_simple(symbols, simple), evaluate_parsed(symbols, parsed);
  for (int i = 0; i < 10; ++i) {
    choose(random, limits, values);
    check_value(*env, expr, *tree, evaluate, values);
    if (parsed != expr) check_value(*env, parsed, *tree, evaluate_parsed, values);
    check_value(*env, simple, *tree, evaluate_simple, values);
    if (testing::Test::HasFatalFailure()) return;
  }
}

/// Guards are taken for one choice of values. What follows from them must hold for all values that satisfy them.
void check_guards(Generator& random) {
  EnvPtr env = ShapeEnv::make({.duck_shaping = false, .zero_one = false});
  std::vector<Ex> symbols;
  std::vector<Limits> limits;
  int64_t hints[kSymbols];
  for (int i = 0; i < kSymbols; ++i) limits.push_back({0, random.number(2, 12)});
  choose(random, limits, hints);
  for (int i = 0; i < kSymbols; ++i) {
    BackedSpec spec;
    spec.hint = hints[i];
    spec.range = {0, limits[i].high};
    symbols.push_back(env->add_backed(spec).expr);
  }
  const int guards = static_cast<int>(random.number(1, 5));
  for (int i = 0; i < guards; ++i) {
    const TreePtr tree = random.truth(2);
    Ex truth = build(*env, *tree, symbols);
    const Value expected = exact(*tree, hints);
    if (truth == nullptr || !expected) continue;
    const auto mark = env->mark();
    const std::string before = env->describe();
    ASSERT_EQ(env->decide(truth), expected.truth()) << to_python(truth);
    if (random.chance(20)) {
      env->rollback(mark);
      ASSERT_EQ(env->describe(), before);
    } else {
      ASSERT_EQ(env->known(truth), expected.truth()) << to_python(truth) << "\n" << env->describe();
    }
  }
  const TreePtr tree = random.chance(50) ? random.truth(3) : random.integer(3);
  Ex expr = build(*env, *tree, symbols);
  if (expr == nullptr) return;
  const std::string before = env->describe();
  const std::vector<Guard> minimal = env->final_guards();
  ASSERT_EQ(env->describe(), before);
  const GuardProgram all = GuardProgram::compile(*env, env->guards()), few = GuardProgram::compile(*env, minimal);
  ASSERT_TRUE(few.holds(hints));
  Ex simple = env->simplify(expr);
  Evaluator evaluate(symbols, simple);
  const auto known = simple->type == Type::Bool ? env->known(simple) : std::nullopt;
  int64_t values[kSymbols];
  for (int i = 0; i < 40; ++i) {
    choose(random, limits, values);
    const bool holds = all.holds(values);
    ASSERT_EQ(holds, few.holds(values)) << shown(values) << "\n" << env->describe();
    if (!holds) continue;
    check_value(*env, simple, *tree, evaluate, values);
    if (testing::Test::HasFatalFailure()) return;
    if (!known) continue;
    ASSERT_EQ(Value::of_bool(*known), exact(*tree, values)) << to_python(simple) << " at " << shown(values);
  }
}

int64_t setting(const char* name, int64_t otherwise) {
  const char* text = std::getenv(name);
  return text != nullptr ? std::atoll(text) : otherwise;
}

template <class F>
void repeat(int64_t count, const F& check) {
  const int64_t seed = setting("STATOR_FUZZ_SEED", 1);
  for (int64_t i = 0; i < count; ++i) {
    Generator random(static_cast<uint64_t>(seed) * 1000003 + static_cast<uint64_t>(i));
    check(random);
    if (testing::Test::HasFatalFailure()) FAIL() << "number " << i << " of seed " << seed;
  }
}

TEST(ShapeProperties, SimplificationKeepsValuesAndFailures) {
  repeat(setting("STATOR_FUZZ_COUNT", 20000), [](Generator& random) { check_expression(random); });
}

TEST(ShapeProperties, WhatFollowsFromGuardsHolds) {
  repeat(setting("STATOR_FUZZ_COUNT", 20000) / 4, [](Generator& random) { check_guards(random); });
}

}  // namespace
}  // namespace stator::shapes
