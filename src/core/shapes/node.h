#pragma once

#include <c10/core/SymNodeImpl.h>

#include <vector>

#include "core/shapes/sym_node.h"

namespace stator::shapes {

/// An expression as the node of torch's symbolic numbers. Python sees its own class for it, with methods that the base
/// class lacks.
class STATOR_API Node final : public c10::SymNodeImpl {
 public:
  using Nodes = c10::ArrayRef<c10::SymNode>;

  explicit Node(Ex e) : expr(e) {}
  const Expr expr;

  /// The results of operators. A result that does not exist for any values is refused.
  c10::SymNode unary(Op op);
  c10::SymNode binary(Op op, const c10::SymNode& other);
  c10::SymNode sum(Nodes terms);
  c10::SymNode round_digits(int64_t digits);
  c10::SymNode is_integer();

  bool is_int() override { return expr->type == Type::Int; }
  bool is_float() override { return expr->type == Type::Float; }
  bool is_bool() override { return expr->type == Type::Bool; }
  bool has_hint() override { return static_cast<bool>(expr->hint); }
  std::string str() override { return to_python(expr); }
  c10::SymNode clone() override { return to_node(expr); }
  c10::SymNode wrap_int(int64_t number) override { return to_node(env().constant(number)); }
  c10::SymNode wrap_float(double number) override { return to_node(env().constant(number)); }
  c10::SymNode wrap_bool(bool truth) override { return to_node(env().constant(truth)); }

  c10::SymNode add(const c10::SymNode& other) override { return binary(Op::Add, other); }
  c10::SymNode sub(const c10::SymNode& other) override { return binary(Op::Sub, other); }
  c10::SymNode mul(const c10::SymNode& other) override { return binary(Op::Mul, other); }
  c10::SymNode truediv(const c10::SymNode& other) override { return binary(Op::TrueDiv, other); }
  c10::SymNode float_truediv(const c10::SymNode& other) override { return binary(Op::TrueDiv, other); }
  c10::SymNode int_truediv(const c10::SymNode& other) override { return binary(Op::TrueDiv, other); }
  c10::SymNode floordiv(const c10::SymNode& other) override { return binary(Op::FloorDiv, other); }
  c10::SymNode int_floordiv(const c10::SymNode& other) override { return binary(Op::FloorDiv, other); }
  c10::SymNode mod(const c10::SymNode& other) override { return binary(Op::Mod, other); }
  c10::SymNode pow(const c10::SymNode& other) override { return binary(Op::Pow, other); }
  c10::SymNode float_pow(const c10::SymNode& other) override { return binary(Op::Pow, other); }
  c10::SymNode pow_by_natural(const c10::SymNode& other) override { return binary(Op::Pow, other); }
  c10::SymNode eq(const c10::SymNode& other) override { return binary(Op::Eq, other); }
  c10::SymNode ne(const c10::SymNode& other) override { return binary(Op::Ne, other); }
  c10::SymNode gt(const c10::SymNode& other) override { return binary(Op::Gt, other); }
  c10::SymNode lt(const c10::SymNode& other) override { return binary(Op::Lt, other); }
  c10::SymNode le(const c10::SymNode& other) override { return binary(Op::Le, other); }
  c10::SymNode ge(const c10::SymNode& other) override { return binary(Op::Ge, other); }
  c10::SymNode sym_min(const c10::SymNode& other) override { return binary(Op::Min, other); }
  c10::SymNode sym_max(const c10::SymNode& other) override { return binary(Op::Max, other); }
  c10::SymNode sym_and(const c10::SymNode& other) override { return binary(Op::And, other); }
  c10::SymNode sym_or(const c10::SymNode& other) override { return binary(Op::Or, other); }
  c10::SymNode sym_not() override { return unary(Op::Not); }
  c10::SymNode neg() override { return unary(Op::Neg); }
  c10::SymNode ceil() override { return unary(Op::Ceil); }
  c10::SymNode floor() override { return unary(Op::Floor); }
  c10::SymNode sym_float() override { return unary(Op::ToFloat); }
  c10::SymNode sym_ite(const c10::SymNode& then_value, const c10::SymNode& else_value) override;

  c10::SymNode is_contiguous(Nodes sizes, Nodes strides) override;
  c10::SymNode is_channels_last_contiguous_2d(Nodes sizes, Nodes strides) override;
  c10::SymNode is_channels_last_contiguous_3d(Nodes sizes, Nodes strides) override;
  c10::SymNode is_channels_last_strides_2d(Nodes sizes, Nodes strides) override;
  c10::SymNode is_channels_last_strides_3d(Nodes sizes, Nodes strides) override;
  c10::SymNode is_non_overlapping_and_dense(Nodes sizes, Nodes strides) override;

  int64_t guard_int(const char*, int64_t) override;
  double guard_float(const char*, int64_t) override;
  bool guard_bool(const char*, int64_t) override;
  bool guard_size_oblivious(const char*, int64_t) override;
  bool guard_or_false(const char*, int64_t) override { return env().guard_or(expr, false); }
  bool guard_or_true(const char*, int64_t) override { return env().guard_or(expr, true); }
  bool statically_known_true(const char*, int64_t) override { return env().statically_known_true(expr); }
  bool expect_true(const char* file, int64_t) override;
  int64_t int_() override { return guard_int(nullptr, 0); }
  bool bool_() override { return guard_bool(nullptr, 0); }

  std::optional<int64_t> constant_int() override { return expr->int_constant(); }
  std::optional<bool> constant_bool() override;
  std::optional<int64_t> maybe_as_int() override;
  bool is_constant() override { return expr->is_constant(); }
  bool is_symbolic() override { return !expr->is_constant(); }

 private:
  ShapeEnv& env() const { return *expr->env; }
  Ex operand(const c10::SymNode& node);
  std::vector<Ex> operands(Nodes nodes);
  c10::SymNode layout(Ex truth);
  c10::SymNode made(Op op, Ex result);
};

/// Reports a question about an unbacked symbol, or a result that does not exist.
[[noreturn]] void raise_undecided(const std::string& question);
/// The text of an expression in a question; long ones are cut.
std::string question_text(Ex expr);

}  // namespace stator::shapes
