#pragma once

#include <utility>
#include <vector>

#include "capture/interpreter/protocol/interpreter.h"

/// Operations on dicts, beside those that `Interpreter` declares.
namespace stator::capture {

/// Reads every entry of an external dict, which is about to change.
void realise_all(Interpreter& in, DictValue* dict);
/// `dict.setdefault`: the value that is there, or null after storing the new one.
Value* dict_put_new(Interpreter& in, DictValue* dict, Value* key, Value* value);
/// `dict.pop`: the value that was there, or null.
Value* dict_take(Interpreter& in, DictValue* dict, Value* key);
/// The factory of a defaultdict, or None.
Value* default_factory(Interpreter& in, DictValue* dict);
/// A missing key of a defaultdict: calls the factory, stores its result and gives it.
Value* missing_item(Interpreter& in, DictValue* dict, Value* key);
/// types.MappingProxyType(mapping).
Value* make_proxy(Interpreter& in, Value* mapping);

}  // namespace stator::capture
