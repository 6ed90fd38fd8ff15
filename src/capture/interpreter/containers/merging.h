#pragma once

#include <functional>

#include "capture/interpreter/interpreter.h"

/// Items of anything are added to a container one after the other, as they are asked for: those that came before an
/// error stay, and who gives them sees those before.
namespace stator::capture {

using ItemVisitor = std::function<void(Value* key, Value* value)>;
using EachItem = void (*)(Interpreter& in, Value* mapping, const ItemVisitor& visit);

/// Keys and values of anything that `**` or `dict.update` takes.
void each_item(Interpreter& in, Value* mapping, const ItemVisitor& visit);
/// As OrderedDict does it, which takes only an exact dict for what it is.
void each_item_for_ordered(Interpreter& in, Value* mapping, const ItemVisitor& visit);
/// `dict.update`.
void merge_items(Interpreter& in, DictValue* dict, Value* mapping, EachItem each = each_item);
/// `list.extend`.
void extend_list(Interpreter& in, SequenceValue* list, Value* iterable);

}  // namespace stator::capture
