#pragma once

#include <string>

#include "core/base/export.h"
#include "core/graph/graph.h"

namespace stator::graph {

/// The first problem of a malformed graph as text, or an empty string. Checked: values are made once and before
/// use; arguments and results agree with the operator's schema in number and type; sub-graphs are well-formed and take
/// and give what their node says; definitions, states, locations and outputs exist. Linear.
STATOR_API std::string find_problem(const Graph& graph);

/// Throws InternalError with the problem.
STATOR_API void verify(const Graph& graph);

/// Whether an argument of this type is a plain number (or None). A tensor given there is read: it has one element.
STATOR_API bool is_number_type(const c10::Type& type);

/// Whether a constant is valid for an argument of this type.
STATOR_API bool constant_fits(const c10::IValue& value, const c10::Type& type);

}  // namespace stator::graph
