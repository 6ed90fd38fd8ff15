#pragma once

#include <ATen/core/Scalar.h>
#include <c10/core/SymBool.h>
#include <c10/core/SymFloat.h>
#include <c10/core/SymInt.h>

#include "core/shapes/expression.h"

/// Expressions as torch's symbolic integers, floats and booleans.
namespace stator::shapes {

/// Called, once set, with a question about a symbol that its range does not answer. Does not return. Set once.
using Undecided = void (*)(const std::string& question);
STATOR_API void set_undecided(Undecided handler);

/// Whether any symbolic number exists in the process. If not, callers skip looking for them.
STATOR_API bool has_symbols();

STATOR_API c10::SymNode to_node(Expr expr);
/// A plain integer if the expression is constant.
STATOR_API c10::SymInt to_sym_int(const Expr& expr);
/// Null for a node that is not of this file. Torch wraps float and bool nodes in a node of its own; their expression is
/// found by its text.
STATOR_API Expr expression_of(const c10::SymNodeImpl* node);
/// Of a plain or symbolic integer. Null for a symbolic integer that is not of this file.
STATOR_API Expr expression_of(const c10::SymInt& number);

/// A new unbacked size between 0 and `most`.
STATOR_API c10::SymInt new_size(const c10::SymInt& most);
/// The size of a tensor that was made with this number: the same number, known not to be negative.
STATOR_API c10::SymInt as_size(const c10::SymInt& number);
/// `a / b`; `b` must divide `a`.
STATOR_API c10::SymInt quotient(const c10::SymInt& a, const c10::SymInt& b);
/// An index into `size` elements, clamped to [0, size]. A negative index counts from the end.
STATOR_API c10::SymInt position_in(const c10::SymInt& index, const c10::SymInt& size);
/// A plain integer if the expression is constant; otherwise the number itself.
STATOR_API c10::SymInt simplified(const c10::SymInt& number);
/// The value, if it follows from the ranges of the symbols.
STATOR_API std::optional<bool> known(const c10::SymBool& truth);

}  // namespace stator::shapes
