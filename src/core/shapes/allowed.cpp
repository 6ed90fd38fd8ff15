#include "core/shapes/allowed.h"

#include <utility>

namespace stator::shapes {

static thread_local bool allowed = false;

bool symbols_allowed() { return allowed; }
bool allow_symbols(bool now) { return std::exchange(allowed, now); }

}  // namespace stator::shapes
