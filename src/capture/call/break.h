#pragma once

#include <algorithm>
#include <string>
#include <vector>

#include "capture/call/break_id.h"
#include "capture/pycompat/ref.h"

namespace stator::capture {

const char* break_name(BreakId id);
const char* break_title(BreakId id);
const char* break_hint(BreakId id);

struct StackLine {
  std::string file, function;
  int line = 0;
};

/// Why and where a capture ended, as shown to the user.
struct BreakReason {
  BreakId id;
  std::string detail;
  std::vector<StackLine> stack;  // outermost first
  bool is_error = false;         // graph breaks are errors at this place (`fullgraph`, `error_on_graph_break`)

  std::string text() const;
  /// Whether the other one is a break for the same reason on the same lines.
  bool is_same_place(const BreakReason& other) const {
    auto is_same = [](const StackLine& a, const StackLine& b) { return a.line == b.line && a.file == b.file; };
    return id == other.id && std::equal(stack.begin(), stack.end(), other.stack.begin(), other.stack.end(), is_same);
  }
};

struct Value;

/// A graph break, thrown as a C++ exception. The capture attempt catches it and makes a `BreakReason` from it.
struct Break {
  BreakId id;
  std::string detail;
};

/// The captured program raised a Python exception: unwinds the interpreter to the frame that handles it.
struct Raise {
  Value* exception;
};

}  // namespace stator::capture
