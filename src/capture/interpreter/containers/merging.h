#pragma once

#include <functional>

#include "capture/interpreter/protocol/interpreter.h"

/// Adding all items of an iterable to a container, one after the other: items before an error stay, and the iterable
/// sees the items added so far.
namespace stator::capture {

using ItemVisitor = std::function<void(Value* key, Value* value)>;
using EachItem = void (*)(Interpreter& in, Value* mapping, const ItemVisitor& visit);

/// Keys and values of anything that `**` or `dict.update` takes.
void each_item(Interpreter& in, Value* mapping, const ItemVisitor& visit);
/// The same by OrderedDict's rules, which reads only an exact dict directly.
void each_item_for_ordered(Interpreter& in, Value* mapping, const ItemVisitor& visit);
/// `dict.update`.
void merge_items(Interpreter& in, DictValue* dict, Value* mapping, EachItem each = each_item);
/// `list.extend`.
void extend_list(Interpreter& in, SequenceValue* list, Value* iterable);

}  // namespace stator::capture
