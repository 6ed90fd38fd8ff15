#include "core/shapes/current.h"

#include <utility>

namespace stator::shapes {

static thread_local ShapeEnv* current = nullptr;

ShapeEnv* current_env() { return current; }

EnvScope::EnvScope(ShapeEnv* env) : previous_(std::exchange(current, env)) {}
EnvScope::~EnvScope() { current = previous_; }

static thread_local AssertSink* assert_sink = nullptr;

AssertSink* AssertSink::current() { return assert_sink; }
AssertScope::AssertScope(AssertSink* sink) : previous_(std::exchange(assert_sink, sink)) {}
AssertScope::~AssertScope() { assert_sink = previous_; }

}  // namespace stator::shapes
