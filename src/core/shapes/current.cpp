#include "core/shapes/current.h"

#include <utility>

namespace stator::shapes {

static thread_local ShapeEnv* current = nullptr;

ShapeEnv* current_env() { return current; }

EnvScope::EnvScope(ShapeEnv* env) : previous_(std::exchange(current, env)) {}
EnvScope::~EnvScope() { current = previous_; }

}  // namespace stator::shapes
