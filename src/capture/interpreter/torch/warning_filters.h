#pragma once

#include "capture/interpreter/protocol/interpreter.h"

namespace stator::capture {

/// Whether the program changed the filters of `warnings`. The plan makes the change when it ends, so a torch warning
/// before that would meet the wrong filters: in a capture it is a break, and in a run of the graph it makes
/// the program itself run.
bool has_changed_filters(Interpreter& in);
/// Whether the program gave a warning, which the plan gives when it ends.
bool has_warned(Interpreter& in);

}  // namespace stator::capture
