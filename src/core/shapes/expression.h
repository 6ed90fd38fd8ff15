#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "core/base/export.h"

/// Numbers that depend on data: expressions over symbols whose values are known only when a graph runs. Integers are
/// kept as sums with sorted terms, so that equal ones look equal; floats are left as they were written.
namespace stator::shapes {

enum class Type : uint8_t { Int, Float, Bool };

/// Python's operators. The order is that of the names in `op_name`.
enum class Op : uint8_t {
  Constant,
  Symbol,
  Opaque,  // a function of other numbers that only the tensor it describes can tell
  Add,
  Sub,
  Mul,
  TrueDiv,
  FloorDiv,
  Mod,
  Pow,
  Min,  // the first unless the second is less
  Max,  // the first unless the second is greater
  Lt,
  Le,
  Eq,
  Ne,
  Gt,
  Ge,
  And,
  Or,
  Not,
  Neg,
  Abs,
  ToInt,
  ToFloat,
  ToBool,
};
STATOR_API const char* op_name(Op op);
STATOR_API std::optional<Op> find_op(const std::string& name);
inline bool is_unary(Op op) { return op >= Op::Not; }

/// Both ends belong to it. The whole of int64 means that nothing is known.
struct Range {
  int64_t low = INT64_MIN;
  int64_t high = INT64_MAX;
};

using Number = std::variant<int64_t, double, bool>;

class Expression;
using Expr = std::shared_ptr<const Expression>;

/// Immutable and shared; expressions of equal texts are equal.
class STATOR_API Expression {
 public:
  Op op = Op::Constant;
  Type type = Type::Int;
  Number constant;  // Op::Constant
  std::vector<Expr> args;
  Range range;  // Type::Int
  std::string text;
  bool fails = false;   // whether computing it may
  bool sealed = false;  // too long to be looked into: the text is a name of its own

  bool is_constant() const { return op == Op::Constant; }
};

STATOR_API Expr constant(Number value);
/// A symbol of its own, named u0, u1, ... in the order they are made on this thread.
STATOR_API Expr symbol(Type type, Range range = {});
/// `name` of `args`, with a value in `range` that cannot be computed from them.
STATOR_API Expr opaque(const std::string& name, std::vector<Expr> args, Range range);
/// Null where Python would raise whatever the values are, or where the type of the result depends on them.
STATOR_API Expr apply(Op op, const Expr& a, const Expr& b = nullptr);

/// `a / b` of integers, where `b` divides `a`.
STATOR_API Expr divided(const Expr& a, const Expr& b);

/// The value of a truth that follows from what is known of the symbols.
STATOR_API std::optional<bool> decide(const Expr& truth);
/// Whether computing it, or a part of it, may fail: the result may not fit 64 bits, or a divisor may be zero.
inline bool may_fail(const Expr& expr) { return expr->fails; }

/// What Python gives for numbers. Throws std::domain_error where it would raise, or where 64 bits do not hold the
/// result.
STATOR_API Number compute(Op op, const Number& a, const Number& b);

}  // namespace stator::shapes
