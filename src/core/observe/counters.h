#pragma once

#include <cstdint>
#include <map>
#include <string>

#include "core/base/export.h"

/// Counts of named events since the last reset. Names have the form `group.name`. Thread-safe.
namespace stator::observe {

STATOR_API void count(const std::string& name, uint64_t by = 1);
STATOR_API std::map<std::string, uint64_t> counts();
STATOR_API void reset_counts();

}  // namespace stator::observe
