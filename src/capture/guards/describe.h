#pragma once

#include <string>

#include "capture/values/source.h"

/// Guards as text, for users. Runs no code of the program.
namespace stator::capture {

/// The name of a guard kind, as guard_kinds.def has it.
const char* name_of(FactKind kind);
/// One line: the source and what is asserted of it.
std::string describe_fact(const Source& source, const Fact& fact);
/// What is at the source of a guard that failed. `object`: null if the path leads nowhere.
std::string describe_seen(const Fact& fact, PyObject* object);

/// "  (needed at file:line)"; empty if the line is not known.
std::string at_line(const UserLine& line);

}  // namespace stator::capture
