#pragma once

#include <cstdint>
#include <string>
#include <utility>

#include "core/base/export.h"
#include "core/shapes/number.h"

/// Expressions over symbols. A `ShapeEnv` owns its expressions and makes each one once: within an environment two
/// expressions are equal if and only if they have the same address.
namespace stator::shapes {

class ShapeEnv;
struct SymbolInfo;

/// An interval of integers with both ends included.
struct Range {
  WideInt low = -kInfinite;
  WideInt high = kInfinite;

  bool contains(WideInt value) const { return low <= value && value <= high; }
  bool fits_int64() const { return low >= INT64_MIN && high <= INT64_MAX; }
  bool operator==(const Range&) const = default;
};

/// The value is `remainder` plus a multiple of `modulus`. A modulus of 0 means that it is `remainder`; 1 says nothing.
struct Congruence {
  int64_t modulus = 1;
  int64_t remainder = 0;
  bool operator==(const Congruence&) const = default;
};

/// What follows about an expression from its operands and the facts of its environment.
struct Derived {
  Range range;                   // Type::Int
  Congruence congruence;         // Type::Int
  bool may_fail = false;         // Python may raise while it or a part of it is computed
  bool may_leave_int64 = false;  // it or a part of it may not fit 64 bits
  uint32_t generation = 0;       // see ShapeEnv::derived
  uint32_t epoch = 0;
};

/// Immutable, except for what is derived from facts. Operands and coefficients live as long as the environment.
///
/// Integers are kept in a canonical form:
///   - Op::Add is a sum: `numbers[i] * operands[i]`, sorted, plus `addend`. No operand is a sum. A coefficient is zero
///     only if its operand may fail. A multiple such as `2 * s0` is a sum with one operand.
///   - Op::Mul is a product: operands to the power `numbers[i]`, sorted, without constants. An operand may be a sum
///     whose coefficients have no common divisor, and whose first one is positive.
///   - Op::Min, Op::Max, Op::And, Op::Or have two or more sorted operands.
///   - A comparison of integers is Le, Ge, Eq or Ne of such a sum without an addend, and a constant.
///   - Op::Sub, Op::Neg, Op::Lt, Op::Gt do not occur.
/// Operations on floats have their operands in the program's order.
struct STATOR_API Expression {
  ShapeEnv* env = nullptr;
  Op op = Op::Constant;
  Type type = Type::Int;
  bool has_unbacked = false;
  uint32_t count = 0;  // of operands
  uint32_t depth = 0;
  uint32_t tree_size = 1;  // of operands counted as often as they occur; at most UINT32_MAX
  uint64_t hash = 0;
  const SymbolInfo* symbol = nullptr;  // Op::Symbol
  const Expression* const* operands = nullptr;
  const int64_t* numbers = nullptr;
  int64_t addend = 0;
  Value constant;  // Op::Constant
  Value hint;      // the value for the hints of the symbols; none if there is an unbacked one, or if it fails

  mutable Derived derived;
  mutable const Expression* simplified = nullptr;  // valid in `simplified_epoch`
  mutable uint32_t simplified_epoch = 0;

  bool is_constant() const { return op == Op::Constant; }
  /// Of an integer constant that fits 64 bits; none for other expressions.
  std::optional<int64_t> int_constant() const { return is_constant() ? constant.int64() : std::nullopt; }
  const Expression* const* begin() const { return operands; }
  const Expression* const* end() const { return operands + count; }
};

/// Does not own. Valid while the environment lives.
using Ex = const Expression*;

/// Shares ownership of an environment.
class STATOR_API EnvPtr {
 public:
  EnvPtr() = default;
  explicit EnvPtr(ShapeEnv* env);
  EnvPtr(const EnvPtr& other) : EnvPtr(other.env_) {}
  EnvPtr(EnvPtr&& other) noexcept : env_(std::exchange(other.env_, nullptr)) {}
  EnvPtr& operator=(EnvPtr other) noexcept {
    std::swap(env_, other.env_);
    return *this;
  }
  ~EnvPtr();

  ShapeEnv* get() const { return env_; }
  ShapeEnv* operator->() const { return env_; }
  ShapeEnv& operator*() const { return *env_; }
  explicit operator bool() const { return env_ != nullptr; }

 private:
  ShapeEnv* env_ = nullptr;
};

/// An expression that keeps its environment alive. May be null.
class Expr {
 public:
  Expr() = default;
  Expr(std::nullptr_t) {}                                           // NOLINT(google-explicit-constructor)
  Expr(Ex expr) : expr_(expr), env_(expr ? expr->env : nullptr) {}  // NOLINT(google-explicit-constructor)

  operator Ex() const { return expr_; }  // NOLINT(google-explicit-constructor)
  Ex get() const { return expr_; }
  Ex operator->() const { return expr_; }
  explicit operator bool() const { return expr_ != nullptr; }
  bool operator==(const Expr& other) const { return expr_ == other.expr_; }

 private:
  Ex expr_ = nullptr;
  EnvPtr env_;
};

/// An order of expressions that does not depend on the environment: symbols by name, then by depth and structure.
STATOR_API int compare_structure(Ex a, Ex b);
/// Whether two expressions, possibly of different environments, have the same structure and names.
inline bool same_structure(Ex a, Ex b) { return a == b || compare_structure(a, b) == 0; }

/// As Python and as C++ write it. Large expressions name the parts that occur more than once.
STATOR_API std::string to_python(Ex expr);
STATOR_API std::string to_cpp(Ex expr);

}  // namespace stator::shapes
