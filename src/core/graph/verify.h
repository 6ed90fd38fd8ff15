#pragma once

#include <string>

#include "core/base/export.h"
#include "core/graph/graph.h"

namespace stator::graph {

/// The first thing that makes the graph malformed, in words, or an empty string. Looked at: that values are defined
/// once and before use, that arguments and results agree with the operator's schema in number and kind, and that
/// states, locations and outputs exist. Linear.
STATOR_API std::string find_problem(const Graph& graph);

/// Throws InternalError with the problem.
STATOR_API void verify(const Graph& graph);

/// Whether a plain number stands there (or none): a value there is a number tensor, whose element is read.
STATOR_API bool is_number(const c10::Type& type);

/// Whether a constant may stand where the schema says `type`.
STATOR_API bool constant_fits(const c10::IValue& value, const c10::Type& type);

}  // namespace stator::graph
