#include "capture/interpreter/containers/merging.h"

#include "capture/interpreter/containers/keys.h"
#include "capture/interpreter/protocol/exceptions.h"
#include "capture/interpreter/protocol/iteration.h"
#include "capture/interpreter/protocol/mappings.h"
#include "capture/pycompat/text.h"

namespace stator::capture {
namespace {

void each_item_by_keys(Interpreter& in, Value* mapping, const ItemVisitor& visit) {
  for (Value* key : in.unpack(in.call_method(mapping, "keys", {}))) visit(key, in.get_item(mapping, key));
}

/// The error messages of a container for an item that is not a pair of key and value.
struct PairMessages {
  const char* not_iterable;  // null: the message of iterating it
  std::string (*wrong_size)(size_t number, size_t size);
};
const PairMessages kDictMessages = {"cannot convert dictionary update sequence element #%zu to a sequence",
                                    [](size_t number, size_t size) {
                                      return "dictionary update sequence element #" + std::to_string(number) +
                                             " has length " + std::to_string(size) + "; 2 is required";
                                    }};
const PairMessages kOrderedMessages = {nullptr, [](size_t, size_t size) -> std::string {
                                         if (size > 2) return "too many values to unpack (expected 2)";
                                         return size ? "need more than 1 value to unpack"
                                                     : "need more than 0 values to unpack";
                                       }};

std::vector<Value*> parts_of(Interpreter& in, Value* pair, size_t number, const PairMessages& messages) {
  try {
    return in.unpack(pair);
  } catch (const Raise& raised) {
    if (!messages.not_iterable || !is_exception(in, raised.exception, PyExc_TypeError)) throw;
  }
  Ref text = Ref::steal(PyUnicode_FromFormat(messages.not_iterable, number));
  in.raise(PyExc_TypeError, exact_text_of(text.get()));
}

void each_pair(Interpreter& in, Value* pairs, const ItemVisitor& visit, const PairMessages& messages) {
  Value* iterator = in.iterate(pairs);
  for (size_t number = 0; Value* pair = in.next(iterator); ++number) {
    std::vector<Value*> parts = parts_of(in, pair, number, messages);
    if (parts.size() != 2) in.raise(PyExc_ValueError, messages.wrong_size(number, parts.size()));
    visit(parts[0], parts[1]);
  }
}

void each_item_or_pair(Interpreter& in, Value* mapping, const ItemVisitor& visit, const PairMessages& messages) {
  // CPython reads an instance of a dict subclass directly only if the class does not override `__iter__`.
  const bool is_other = mapping->kind == Kind::Object && in.type_of(mapping)->tp_iter != PyDict_Type.tp_iter;
  if (is_other && has_keys(in, mapping)) return each_item_by_keys(in, mapping, visit);
  DictValue* dict = in.dict_part(mapping);
  if (!dict) return each_pair(in, mapping, visit, messages);
  in.realise(dict);
  for (size_t i = 0; i < dict->entries.size(); ++i)
    if (dict->entries[i].key) visit(dict->entries[i].key, in.entry_value(dict, i));
}

}  // namespace

void each_item(Interpreter& in, Value* mapping, const ItemVisitor& visit) {
  each_item_or_pair(in, mapping, visit, kDictMessages);
}

void each_item_for_ordered(Interpreter& in, Value* mapping, const ItemVisitor& visit) {
  bool by_keys = mapping->kind == Kind::Object && has_keys(in, mapping);
  by_keys ? each_item_by_keys(in, mapping, visit) : each_item_or_pair(in, mapping, visit, kOrderedMessages);
}

void merge_items(Interpreter& in, DictValue* dict, Value* mapping, EachItem each) {
  bool changed = false;
  // CPython reuses the hashes of a dict's keys, and raises if that dict changes meanwhile.
  DictValue* from = in.dict_part(mapping);
  if (from) refuse_rehash(in, from);
  try {
    each(in, mapping, [&](Value* key, Value* value) {
      const uint64_t changes = in.effects.changes();
      in.dict_set(dict, key, value);
      changed = true;
      if (from && in.effects.changes() != changes) throw Break{BreakId::raises, "an __eq__ that changes containers"};
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
  while (Value* item = in.next(iterator)) {
    list->items.push_back(item);
    in.mutated(list);
    refuse_endless(list->items.size());
  }
}

}  // namespace stator::capture
