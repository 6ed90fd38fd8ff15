#include "capture/interpreter/containers/merging.h"

#include "capture/interpreter/containers/dicts.h"
#include "capture/interpreter/containers/keys.h"
#include "capture/interpreter/exceptions.h"
#include "capture/interpreter/iteration/iterators.h"

namespace stator::capture {
namespace {

void each_item_by_keys(Interpreter& in, Value* mapping, const ItemVisitor& visit) {
  for (Value* key : in.unpack(in.call_method(mapping, "keys", {}))) visit(key, in.get_item(mapping, key));
}

/// The words with which a container complains of what it is given instead of a key and a value.
struct PairWords {
  const char* not_iterable;  // null: whatever is said of iterating it
  std::string (*wrong_size)(size_t number, size_t size);
};
const PairWords kDictWords = {"cannot convert dictionary update sequence element #%zu to a sequence",
                              [](size_t number, size_t size) {
                                return "dictionary update sequence element #" + std::to_string(number) +
                                       " has length " + std::to_string(size) + "; 2 is required";
                              }};
const PairWords kOrderedWords = {nullptr, [](size_t, size_t size) -> std::string {
                                   if (size > 2) return "too many values to unpack (expected 2)";
                                   return size ? "need more than 1 value to unpack"
                                               : "need more than 0 values to unpack";
                                 }};

std::vector<Value*> parts_of(Interpreter& in, Value* pair, size_t number, const PairWords& words) {
  Frame* frame = in.frame;
  const int depth = in.depth;
  try {
    return in.unpack(pair);
  } catch (const Raise& raised) {
    if (!words.not_iterable || !is_exception(in, raised.exception, PyExc_TypeError)) throw;
  }
  in.frame = frame;
  in.depth = depth;
  Ref text = Ref::steal(PyUnicode_FromFormat(words.not_iterable, number));
  in.raise(PyExc_TypeError, PyUnicode_AsUTF8(text.get()));
}

void each_pair(Interpreter& in, Value* pairs, const ItemVisitor& visit, const PairWords& words) {
  Value* iterator = in.iterate(pairs);
  for (size_t number = 0; Value* pair = in.next(iterator); ++number) {
    std::vector<Value*> parts = parts_of(in, pair, number, words);
    if (parts.size() != 2) in.raise(PyExc_ValueError, words.wrong_size(number, parts.size()));
    visit(parts[0], parts[1]);
  }
}

void each_item_in_words(Interpreter& in, Value* mapping, const ItemVisitor& visit, const PairWords& words) {
  // An instance of a subclass is taken for the dict that it is only while nothing iterates it in another way.
  const bool is_other = mapping->kind == Kind::Object && in.type_of(mapping)->tp_iter != PyDict_Type.tp_iter;
  if (is_other && has_keys(in, mapping)) return each_item_by_keys(in, mapping, visit);
  DictValue* dict = in.dict_part(mapping);
  if (!dict) return each_pair(in, mapping, visit, words);
  in.realise(dict);
  for (size_t i = 0; i < dict->entries.size(); ++i)
    if (dict->entries[i].key) visit(dict->entries[i].key, in.entry_value(dict, i));
}

}  // namespace

void each_item(Interpreter& in, Value* mapping, const ItemVisitor& visit) {
  each_item_in_words(in, mapping, visit, kDictWords);
}

void each_item_for_ordered(Interpreter& in, Value* mapping, const ItemVisitor& visit) {
  bool by_keys = mapping->kind == Kind::Object && has_keys(in, mapping);
  by_keys ? each_item_by_keys(in, mapping, visit) : each_item_in_words(in, mapping, visit, kOrderedWords);
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
  while (Value* item = in.next(iterator)) {
    list->items.push_back(item);
    in.mutated(list);
    refuse_endless(list->items.size());
  }
}

}  // namespace stator::capture
