#pragma once

#include "core/base/export.h"
#include "core/shapes/expr.h"

namespace stator::shapes {

class ShapeEnv;

/// The environment in which operators on this thread may make unbacked symbols; null if they may not. The caller of
/// torch sets it if it can record how a run of the graph gets their values.
STATOR_API ShapeEnv* current_env();

/// Sets it for a block. The environment must outlive the block.
class STATOR_API EnvScope {
 public:
  explicit EnvScope(ShapeEnv* env);
  ~EnvScope();
  EnvScope(const EnvScope&) = delete;

 private:
  ShapeEnv* const previous_;
};

/// Receives each condition on unbacked symbols that the program asserts (`torch._check`), before it becomes a fact.
class STATOR_API AssertSink {
 public:
  virtual ~AssertSink() = default;
  virtual void asserted(Ex truth) = 0;

  /// That of this thread; null if there is none.
  static AssertSink* current();
};

/// RAII: `sink` (null: none) is the sink of this thread.
class STATOR_API AssertScope {
 public:
  explicit AssertScope(AssertSink* sink);
  ~AssertScope();
  AssertScope(const AssertScope&) = delete;

 private:
  AssertSink* previous_;
};

}  // namespace stator::shapes
