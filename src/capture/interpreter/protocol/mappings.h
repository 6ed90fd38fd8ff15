#pragma once

#include "capture/interpreter/protocol/interpreter.h"

namespace stator::capture {

/// Keys and values of a mapping, as `**` and `dict.update` read it.
std::vector<std::pair<Value*, Value*>> mapping_items(Interpreter& in, Value* mapping);
/// Whether it has `keys`, which makes it a mapping and no sequence of pairs.
bool has_keys(Interpreter& in, Value* mapping);

}  // namespace stator::capture
