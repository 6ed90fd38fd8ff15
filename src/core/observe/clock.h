#pragma once

#include <cstdint>

#include "core/base/export.h"

/// Time in nanoseconds. Durations are differences of `now_ns`, which never goes back.
namespace stator::observe {

STATOR_API int64_t now_ns();
/// The time since 1970 at which `now_ns` gave this value, as files and other programs understand it.
STATOR_API int64_t wall_ns(int64_t now);

}  // namespace stator::observe
