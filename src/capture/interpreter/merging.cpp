#include "capture/interpreter/merging.h"

#include "capture/interpreter/handlers.h"
#include "capture/interpreter/iterators.h"
#include "capture/interpreter/keys.h"

namespace stator::capture {
namespace {

void each_item_by_keys(Interpreter& in, Value* mapping, const ItemVisitor& visit) {
  for (Value* key : in.unpack(in.call_method(mapping, "keys", {}))) visit(key, in.get_item(mapping, key));
}

/// What an iterable gives instead of a key and a value is complained of as CPython does.
std::vector<Value*> pair_of(Interpreter& in, Value* pair, size_t number) {
  std::vector<Value*> parts = in.unpack(pair);
  if (parts.size() != 2)
    in.raise(PyExc_ValueError, "dictionary update sequence element #" + std::to_string(number) + " has length " +
                                   std::to_string(parts.size()) + "; 2 is required");
  return parts;
}

}  // namespace

void each_item(Interpreter& in, Value* mapping, const ItemVisitor& visit) {
  // An instance of a subclass is taken for the dict that it is only while nothing iterates it in another way.
  const bool is_other = mapping->kind == Kind::Object && in.type_of(mapping)->tp_iter != PyDict_Type.tp_iter;
  if (is_other && has_keys(in, mapping)) return each_item_by_keys(in, mapping, visit);
  if (DictValue* dict = in.dict_part(mapping)) {
    in.realise(dict);
    for (size_t i = 0; i < dict->entries.size(); ++i)
      if (dict->entries[i].key) visit(dict->entries[i].key, in.entry_value(dict, i));
    return;
  }
  Value* iterator = in.iterate(mapping);
  for (size_t number = 0; Value* pair = in.next(iterator); ++number) {
    std::vector<Value*> parts = pair_of(in, pair, number);
    visit(parts[0], parts[1]);
  }
}

void each_item_for_ordered(Interpreter& in, Value* mapping, const ItemVisitor& visit) {
  bool by_keys = mapping->kind == Kind::Object && has_keys(in, mapping);
  by_keys ? each_item_by_keys(in, mapping, visit) : each_item(in, mapping, visit);
}

void merge_items(Interpreter& in, DictValue* dict, Value* mapping, EachItem each) {
  bool changed = false;
  // CPython knows the hashes of a dict's own keys, and refuses one that changes meanwhile.
  DictValue* from = in.dict_part(mapping);
  if (from) refuse_rehash(in, from);
  try {
    each(in, mapping, [&](Value* key, Value* value) {
      const uint64_t mutations = in.mutations;
      in.dict_set(dict, key, value);
      changed = true;
      if (from && in.mutations != mutations) throw Break{BreakId::raises, "an __eq__ that changes containers"};
    });
  } catch (...) {
    if (changed) in.mutated(dict);
    throw;
  }
  if (changed) in.mutated(dict);
}

void extend_list(Interpreter& in, SequenceValue* list, Value* iterable) {
  for (size_t i = 0; i < list->items.size(); ++i) in.item(list, i);
  if (as_sequence(iterable)) {
    std::vector<Value*> more = in.unpack(iterable);
    list->items.insert(list->items.end(), more.begin(), more.end());
    return in.mutated(list);
  }
  Value* iterator = hinted_iterator(in, iterable);
  if (!iterator) iterator = in.iterate(iterable);
  constexpr size_t kLimit = 1000000;
  while (Value* item = in.next(iterator)) {
    list->items.push_back(item);
    in.mutated(list);
    if (list->items.size() > kLimit) throw Break{BreakId::internal, "an iterator without an end"};
  }
}

}  // namespace stator::capture
