#pragma once

#include <cstdint>

namespace stator::capture {

/// Why a capture ended in a graph break.
enum class BreakId : uint8_t {
#define STATOR_BREAK(id, title, hint) id,
#include "capture/call/break_reasons.def"
#undef STATOR_BREAK
};

}  // namespace stator::capture
