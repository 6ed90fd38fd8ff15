#pragma once

#include "core/shapes/expression.h"

/// What expression.cpp shares with the other files that build expressions.
namespace stator::shapes {

/// A new expression, written `name(args...)`. It is not simplified.
Expr make_expression(Op op, Type type, std::vector<Expr> args, Range range, const std::string& name);

/// The value of an integer constant; none for other expressions.
std::optional<int64_t> int_constant(const Expr& expr);

/// Whether it is `round` or a function of Python's math module.
bool is_math(Op op);
/// The type of its result.
Type math_type(Op op);
/// Its result. Throws std::domain_error if Python would raise, or for a number that only Python computes.
Number compute_math(Op op, double a, double b);

}  // namespace stator::shapes
