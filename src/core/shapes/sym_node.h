#pragma once

#include <c10/core/SymBool.h>
#include <c10/core/SymFloat.h>
#include <c10/core/SymInt.h>
#include <c10/core/SymIntArrayRef.h>

#include "core/shapes/env.h"

/// Expressions as torch's symbolic integers, floats and booleans.
namespace stator::shapes {

/// Called, once set, with a question about an unbacked symbol that the facts do not answer. Does not return. Set once.
using Undecided = void (*)(const std::string& question);
STATOR_API void set_undecided(Undecided handler);

/// Torch's bindings wrap float and bool nodes that come from Python in a node of their own. The function, set once by
/// the code that knows Python, gives the node inside; null for other nodes.
using Unwrap = c10::SymNode (*)(c10::SymNodeImpl* wrapper);
STATOR_API void set_unwrap(Unwrap unwrap);

STATOR_API c10::SymNode to_node(Ex expr);
/// A plain integer if the expression is constant.
STATOR_API c10::SymInt to_sym_int(Ex expr);
/// Null for a node that is not of this file.
STATOR_API Expr expression_of(const c10::SymNodeImpl* node);
/// Null for a plain integer, and for a symbolic one that is not of this file.
STATOR_API Expr expression_of(const c10::SymInt& number);
/// The number at the sizes of the captured call; none if it depends on data.
STATOR_API std::optional<int64_t> captured_number(const c10::SymInt& number);

/// A new unbacked size between 0 and `most`, in the current environment, which must be there.
STATOR_API c10::SymInt new_size(const c10::SymInt& most);
/// The size of a tensor that an operator makes with this number: the run raises if it is negative. From here on it is
/// known not to be.
STATOR_API c10::SymInt as_size(const c10::SymInt& number);
/// `a / b`; `b` must divide `a`.
STATOR_API c10::SymInt quotient(const c10::SymInt& a, const c10::SymInt& b);
/// An index into `size` elements, clamped to [0, size]. A negative index counts from the end.
STATOR_API c10::SymInt position_in(const c10::SymInt& index, const c10::SymInt& size);
/// Simplified by the facts that hold now; a plain integer if the result is constant.
STATOR_API c10::SymInt simplified(const c10::SymInt& number);
/// Whether one of the numbers has an unbacked symbol, or is not of this file.
STATOR_API bool depends_on_data(c10::SymIntArrayRef numbers);
/// The value, if it follows from facts.
STATOR_API std::optional<bool> known(const c10::SymBool& truth);

}  // namespace stator::shapes
