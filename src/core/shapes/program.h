#pragma once

#include <functional>
#include <span>
#include <string>
#include <vector>

#include "core/shapes/env.h"

/// Expressions and guards as flat programs over an array of inputs: integers, and the bits of floats. They do not refer
/// to the environment, and any thread may run them.
namespace stator::shapes {

/// The place of a symbol's value in the inputs; none if it has none.
using InputOf = std::function<std::optional<uint32_t>(Ex symbol)>;

/// Computes the values of expressions.
class STATOR_API Program {
 public:
  /// Adds an expression and those it is made of. Returns the number of its value, or none if a symbol has no input.
  std::optional<uint32_t> add(Ex expr, const InputOf& input_of);
  /// The number of values; `run` needs space for all of them.
  size_t size() const { return steps_.size(); }
  /// A value that could not be computed is none.
  void run(const int64_t* inputs, Value* values) const;

 private:
  struct Step {
    Op op;
    Type type;
    uint32_t first;  // into operands_ and numbers_; the input of a symbol
    uint32_t count;
    int64_t addend;
    Value constant;
  };

  Value result(const Step& step, const int64_t* inputs, const Value* values) const;

  std::vector<Step> steps_;
  std::vector<uint32_t> operands_;
  std::vector<int64_t> numbers_;
  std::unordered_map<Ex, uint32_t> places_;  // only valid while expressions are added
};

/// The guards of an environment. A guard that cannot be computed (division by zero, no 128 bits) does not hold.
class STATOR_API GuardProgram {
 public:
  /// The inputs are those of `ShapeEnv::inputs`. Sources that share a symbol are guarded to be equal.
  static GuardProgram compile(ShapeEnv& env, std::span<const Guard> guards);
  static GuardProgram compile(ShapeEnv& env) { return compile(env, env.final_guards()); }

  bool holds(const int64_t* inputs) const { return first_failure(inputs) == kNone; }
  /// The place of a failing guard among those given to `compile`; kShared for two sources that should be equal; kNone.
  int first_failure(const int64_t* inputs) const;
  static constexpr int kNone = -1, kShared = -2;

 private:
  /// `low <= sum of terms <= high`; with a modulus, `sum % modulus` is compared; `excluded` negates.
  struct Row {
    int64_t low, high;
    int64_t addend, modulus;
    uint32_t first, count;
    int guard, high_guard;  // of the lower and of the upper bound
    bool excluded;
  };
  struct Term {
    int64_t times;
    uint32_t input;
    uint32_t first, count;  // further factors, in factors_
  };
  /// `low <= input <= high`: most guards.
  struct Bound {
    int64_t low, high;
    uint32_t input;
    int guard, high_guard;
  };

  bool add_row(Ex truth, int guard, const InputOf& input_of);
  bool add_bound(Ex truth, int64_t bound, int guard, const InputOf& input_of);
  bool add_terms(Ex form, Row* row, const InputOf& input_of);
  /// kNone, or the guard that does not hold.
  int check(const Row& row, const int64_t* inputs) const;
  int check_wide(const Row& row, const int64_t* inputs) const;

  std::vector<Bound> bounds_;
  std::vector<Row> rows_;
  std::vector<Term> terms_;
  std::vector<uint32_t> factors_;
  Program program_;
  std::vector<std::pair<uint32_t, int>> truths_;  // a value of the program, and its guard
};

}  // namespace stator::shapes
