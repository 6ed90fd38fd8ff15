#pragma once

#include "core/base/export.h"

namespace stator::shapes {

class ShapeEnv;

/// What a trace on this thread may make of data.
struct DataUses {
  bool sizes = true;    // operators whose results have sizes that depend on data
  bool numbers = true;  // numbers that are read from tensors
};

STATOR_API const DataUses& data_uses();

/// Sets it for a block.
class STATOR_API DataScope {
 public:
  explicit DataScope(const DataUses& uses);
  ~DataScope();
  DataScope(const DataScope&) = delete;

 private:
  const DataUses previous_;
};

/// The environment in which an operator may make a size that depends on data; null if it may not.
STATOR_API ShapeEnv* env_for_sizes();

}  // namespace stator::shapes
