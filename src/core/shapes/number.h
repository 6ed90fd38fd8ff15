#pragma once

#include <bit>
#include <cstdint>
#include <optional>
#include <string_view>

#include "core/base/export.h"
#include "core/shapes/wide.h"

/// Numbers and Python's operators on them.
namespace stator::shapes {

enum class Type : uint8_t { Int, Float, Bool };

enum class Op : uint8_t {
#define STATOR_NUMBER_OPERATOR(name, text) name,
#include "core/shapes/operators.def"
#undef STATOR_NUMBER_OPERATOR
};
/// "add" for Op::Add.
STATOR_API const char* op_name(Op op);
/// The operator of that name. None for the names of what has no operands.
STATOR_API std::optional<Op> find_op(std::string_view name);

inline bool is_unary(Op op) { return op >= Op::Not; }
inline bool is_float_function(Op op) { return op >= Op::Sqrt; }
inline bool is_real_function(Op op) { return op >= Op::RoundDigits && op <= Op::Fmod; }
inline bool is_comparison(Op op) { return op >= Op::Lt && op <= Op::Ge; }
/// `a op b` is `b mirrored(op) a`.
Op mirrored(Op comparison);
/// `not (a op b)` is `a negated(op) b` for integers.
Op negated(Op comparison);

/// A number, or the failure to compute one: Python would raise, or the result does not fit 128 bits.
class Value {
 public:
  enum class Kind : uint8_t { None, Int, Float, Bool };

  Value() = default;
  static Value of_int(WideInt value) { return {Kind::Int, value, 0}; }
  static Value of_float(double value) { return {Kind::Float, 0, value}; }
  static Value of_bool(bool value) { return {Kind::Bool, value ? 1 : 0, 0}; }

  explicit operator bool() const { return kind_ != Kind::None; }
  bool is_float() const { return kind_ == Kind::Float; }
  bool is_bool() const { return kind_ == Kind::Bool; }
  Type type() const { return static_cast<Type>(static_cast<uint8_t>(kind_) - 1); }
  /// Of an integer or a truth.
  WideInt integer() const { return integer_; }
  double real() const { return real_; }
  bool truth() const { return integer_ != 0; }
  std::optional<int64_t> int64() const {
    return kind_ == Kind::Int && fits_int64(integer_) ? std::optional(static_cast<int64_t>(integer_)) : std::nullopt;
  }
  /// Equal in type and bits.
  bool operator==(const Value& other) const {
    return kind_ == other.kind_ && integer_ == other.integer_ &&
           std::bit_cast<uint64_t>(real_) == std::bit_cast<uint64_t>(other.real_);
  }

 private:
  Value(Kind kind, WideInt integer, double real) : integer_(integer), real_(real), kind_(kind) {}

  WideInt integer_ = 0;
  double real_ = 0;
  Kind kind_ = Kind::None;
};

/// Python's result for these numbers, exact for integers; unary operators ignore `b`. Not for Op::Ite.
STATOR_API Value compute(Op op, const Value& a, const Value& b);

/// The nearest float, as Python's float(a) and a / b give it.
double nearest_float(WideInt value);
Value divide_exactly(WideInt a, WideInt b);
/// -1, 0 or 1 for a < b, a == b, a > b; 2 if b is not a number.
int compare_exactly(WideInt a, double b);

}  // namespace stator::shapes
