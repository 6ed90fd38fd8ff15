#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "capture/pycompat/ref.h"

namespace stator::capture {

enum class BreakId : uint8_t {
#define STATOR_BREAK(id, title, hint) id,
#include "capture/call/break_reasons.def"
#undef STATOR_BREAK
};
const char* break_name(BreakId id);
const char* break_title(BreakId id);
const char* break_hint(BreakId id);

struct StackLine {
  std::string file, function;
  int line = 0;
};

/// Why and where a capture ended: what a user is shown.
struct BreakReason {
  BreakId id;
  std::string detail;
  std::vector<StackLine> stack;  // outermost first
  bool is_error = false;         // the function in whose body it is was compiled to raise it

  std::string text() const;
};

struct Value;

/// Unwinds the interpreter to the capture's own loop, which turns it into a `BreakReason`. Never leaves the capture.
struct Break {
  BreakId id;
  std::string detail;
};

/// The captured program raised: unwinds to the frame that has a handler for it.
struct Raise {
  Value* exception;
};

}  // namespace stator::capture
