#include "capture/interpreter/state/call_args.h"

namespace stator::capture {

Value* CallArgs::keyword(const char* name) const {
  for (auto& [key, value] : keywords)
    if (PyUnicode_CompareWithASCIIString(key.get(), name) == 0) return value;
  return nullptr;
}

}  // namespace stator::capture
