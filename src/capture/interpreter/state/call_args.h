#pragma once

#include <optional>
#include <utility>
#include <vector>

#include "capture/call/plan.h"
#include "capture/values/value.h"

namespace stator::capture {

/// Arguments of a call in the program: positional, then keywords by name.
struct CallArgs {
  std::vector<Value*> positional;
  std::vector<std::pair<Ref, Value*>> keywords;  // names are exact str
  bool is_spread = false;                        // keywords were given by `**`, even if there are none

  Value* keyword(const char* name) const;
  size_t count() const { return positional.size() + keywords.size(); }
};

/// What a caller requires of the frame that a call inlines. Calls that inline no frame ignore it.
struct CallMode {
  /// How the calling instruction uses the result. Opaque: C code runs between, so a break inside moves out to
  /// the instruction that called it.
  Continuation continuation = Continuation::Opaque;
  /// Whether a break in the frame is an error; empty: as in the calling frame.
  std::optional<bool> break_is_error = std::nullopt;
  /// The namespace that the body of a class fills; null for all other code.
  DictValue* class_names = nullptr;
};

}  // namespace stator::capture
