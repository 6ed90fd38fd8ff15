#pragma once

#include <span>

#include "capture/interpreter/protocol/models.h"

namespace stator::capture {

/// Tables are joined at the first capture; a path that does not exist in this version is left out.
#define STATOR_MODEL_TABLES(table)                                                                                 \
  table(builtin_function) table(builtin_type) table(list) table(dict) table(set) table(deque) table(object)        \
      table(iterator) table(itertools) table(operator) table(library) table(copy) table(torch) table(autograd)     \
          table(transform) table(control) table(array) table(descriptor) table(overrides) table(class) table(weak) \
              table(warning) table(cut) table(random) table(math)
#define STATOR_MODEL_TABLE(name) std::span<const ModelRow> name##_models();
STATOR_MODEL_TABLES(STATOR_MODEL_TABLE)
#undef STATOR_MODEL_TABLE

}  // namespace stator::capture
