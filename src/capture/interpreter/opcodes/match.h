#pragma once

#include "capture/interpreter/protocol/interpreter.h"

/// The tests of `match` statements, by CPython's rules.
namespace stator::capture {

bool matches_sequence(Interpreter& in, Value* subject);
bool matches_mapping(Interpreter& in, Value* subject);
/// Values of the keys as a tuple, or None.
Value* match_keys(Interpreter& in, Value* subject, Value* keys);
/// Attributes for `count` positional patterns and the names as a tuple, or None.
Value* match_class(Interpreter& in, Value* subject, Value* cls, size_t count, Value* names);

}  // namespace stator::capture
