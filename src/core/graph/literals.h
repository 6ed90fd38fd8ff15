#pragma once

#include <c10/core/ScalarType.h>

#include <optional>
#include <string>
#include <string_view>

#include "core/base/export.h"

/// Spelling of single constants, for the printer and the parser.
namespace stator::graph {

/// The shortest text that parses to the same number and is recognisable as a float.
std::string float_text(double value);
/// The text in double quotes, with escapes.
std::string quote_text(std::string_view text);
bool is_identifier(std::string_view text);

STATOR_API std::string dtype_name(c10::ScalarType dtype);
std::optional<c10::ScalarType> find_dtype(std::string_view name);

/// The name of an integer that the schema declares as an enumeration (`MemoryFormat`, `Layout`, `ScalarType`).
std::optional<std::string> enum_name(std::string_view type, int64_t value);
std::optional<int64_t> enum_value(std::string_view type, std::string_view name);

}  // namespace stator::graph
