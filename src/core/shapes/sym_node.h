#pragma once

#include <ATen/core/Scalar.h>
#include <c10/core/SymBool.h>
#include <c10/core/SymFloat.h>
#include <c10/core/SymInt.h>

#include "core/shapes/expression.h"

/// Expressions in the form that torch carries through sizes, numbers and truths.
namespace stator::shapes {

/// A question about a symbol that nothing known of it answers ends in `handler`, which does not return. Given once.
using Undecided = void (*)(const std::string& question);
STATOR_API void set_undecided(Undecided handler);

/// Whether there is any such number in the process. While there is none, nothing need be looked at.
STATOR_API bool has_symbols();

STATOR_API c10::SymNode to_node(Expr expr);
/// A plain integer where the expression is constant.
STATOR_API c10::SymInt to_sym_int(const Expr& expr);
/// Null for a node that is not made here. Torch hands floats and truths on behind a node of its own, which shows their
/// text.
STATOR_API Expr expression_of(const c10::SymNodeImpl* node);
/// Of a plain or symbolic integer; null for one of somebody else's.
STATOR_API Expr expression_of(const c10::SymInt& number);

/// A size that depends on data, at most `most`.
STATOR_API c10::SymInt new_size(const c10::SymInt& most);
/// A number as the size of a tensor that was made with it, which is not negative.
STATOR_API c10::SymInt as_size(const c10::SymInt& number);
/// `a / b`, where `b` divides `a`.
STATOR_API c10::SymInt quotient(const c10::SymInt& a, const c10::SymInt& b);
/// An index into `size` elements, counted from the end where it is negative, brought into [0, size].
STATOR_API c10::SymInt position_in(const c10::SymInt& index, const c10::SymInt& size);
/// A constant expression as a plain integer.
STATOR_API c10::SymInt simplified(const c10::SymInt& number);
/// The truth if it follows from what is known.
STATOR_API std::optional<bool> known(const c10::SymBool& truth);

}  // namespace stator::shapes
