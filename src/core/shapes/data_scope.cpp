#include "core/shapes/data_scope.h"

#include <utility>

#include "core/shapes/current.h"

namespace stator::shapes {

static thread_local DataUses uses_now;

const DataUses& data_uses() { return uses_now; }

DataScope::DataScope(const DataUses& uses) : previous_(std::exchange(uses_now, uses)) {}
DataScope::~DataScope() { uses_now = previous_; }

ShapeEnv* env_for_sizes() { return uses_now.sizes ? current_env() : nullptr; }

}  // namespace stator::shapes
