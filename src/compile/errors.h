#pragma once

#include <string>

#include "capture/call/break.h"

namespace stator {

/// The Python types of Stator's errors; set once at import.
struct ErrorTypes {
  Ref unsupported, internal, recompile_limit, backend_failed, skip_frame, recompile_forbidden, oracle, constraint;
};
ErrorTypes& error_types();

/// Sets the Python error `stator.Unsupported` for a graph break.
void raise_unsupported(const capture::BreakReason& reason);
/// Sets the Python error `stator.ConstraintViolation`. `where`: "file:line"; empty: not known.
void raise_constraint(const std::string& cause, const std::string& hint, const std::string& where);
/// Whether the Python error that is set says that a capture failed; else it is the program's.
bool is_capture_error();

/// A code object as messages name it: its qualified name, file and line.
std::string name_of(PyCodeObject* code);

}  // namespace stator
