#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "core/base/export.h"

/// Symbolic numbers: expressions over symbols whose values are known only when a graph runs. Integer expressions are
/// kept as sums with sorted terms, so that equal ones have equal texts. Float expressions are not rearranged.
namespace stator::shapes {

enum class Type : uint8_t { Int, Float, Bool };

/// Python's operators on numbers.
enum class Op : uint8_t {
#define STATOR_NUMBER_OPERATOR(name, text) name,
#include "core/shapes/number_operators.def"
#undef STATOR_NUMBER_OPERATOR
};
/// "add" for Op::Add.
STATOR_API const char* op_name(Op op);
/// The operator of that name. None for names of expressions without operands.
STATOR_API std::optional<Op> find_op(const std::string& name);
inline bool is_unary(Op op) { return op >= Op::Not; }

/// An interval with both ends included. The full int64 interval means that nothing is known.
struct Range {
  int64_t low = INT64_MIN;
  int64_t high = INT64_MAX;
};

using Number = std::variant<int64_t, double, bool>;

class Expression;
using Expr = std::shared_ptr<const Expression>;

/// Immutable and shared. Expressions with equal texts are equal.
class STATOR_API Expression {
 public:
  Op op = Op::Constant;
  Type type = Type::Int;
  Number constant;  // Op::Constant
  std::vector<Expr> args;
  Range range;  // Type::Int
  std::string text;
  bool fails = false;   // computing it may fail; see `may_fail`
  bool sealed = false;  // too long to be simplified further: the text is a unique name

  bool is_constant() const { return op == Op::Constant; }
};

STATOR_API Expr constant(Number value);
/// A new unbacked symbol, named u0, u1, ... in the order in which this thread makes them.
STATOR_API Expr symbol(Type type, Range range = {});
/// An expression `name(args...)` with a value in `range` and no formula.
STATOR_API Expr opaque(const std::string& name, std::vector<Expr> args, Range range);
/// Null if Python would raise for all values, or if the type of the result depends on the values.
STATOR_API Expr apply(Op op, const Expr& a, const Expr& b = nullptr);

/// `a / b` for integers; `b` must divide `a`.
STATOR_API Expr divided(const Expr& a, const Expr& b);

/// The value of a boolean expression, if it follows from the ranges of the symbols.
STATOR_API std::optional<bool> decide(const Expr& truth);
/// Whether computing the expression or a part of it may fail: a result may not fit 64 bits, a divisor may be zero.
inline bool may_fail(const Expr& expr) { return expr->fails; }

/// Python's result for these numbers. Throws std::domain_error if Python would raise, or if the result does not fit 64
/// bits.
STATOR_API Number compute(Op op, const Number& a, const Number& b);

}  // namespace stator::shapes
