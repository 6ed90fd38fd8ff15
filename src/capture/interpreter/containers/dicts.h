#pragma once

#include <utility>
#include <vector>

#include "capture/interpreter/interpreter.h"

/// Dicts, beyond the interpreter's own operations on them.
namespace stator::capture {

/// Looks at every entry of an outside dict, which is about to change.
void realise_all(Interpreter& in, DictValue* dict);
/// `dict.setdefault`: what is there, or null after putting it there.
Value* dict_put_new(Interpreter& in, DictValue* dict, Value* key, Value* value);
/// `dict.pop`: what was there, or null.
Value* dict_take(Interpreter& in, DictValue* dict, Value* key);
/// Items of anything that `**` or `dict.update` takes.
std::vector<std::pair<Value*, Value*>> mapping_items(Interpreter& in, Value* mapping);
/// Whether it is a mapping and not a sequence of pairs.
bool has_keys(Interpreter& in, Value* mapping);
/// The factory of a defaultdict, or None.
Value* default_factory(Interpreter& in, DictValue* dict);
/// What a missing key of a defaultdict gives: its factory's value, stored.
Value* missing_item(Interpreter& in, DictValue* dict, Value* key);
/// types.MappingProxyType(mapping).
Value* make_proxy(Interpreter& in, Value* mapping);

}  // namespace stator::capture
