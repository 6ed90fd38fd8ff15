#pragma once

#include "core/base/export.h"

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

}  // namespace stator::shapes
