#include "capture/interpreter/opcodes/building.h"

#include "capture/interpreter/containers/sets.h"
#include "capture/interpreter/iteration/iterators.h"
#include "capture/interpreter/opcodes/operands.h"
#include "capture/interpreter/protocol/iteration.h"
#include "capture/interpreter/protocol/mappings.h"
#include "capture/interpreter/protocol/varying_numbers.h"
#include "capture/interpreter/torch/symbolic_numbers.h"

namespace stator::capture {

using pycompat::Instr;

void on_build_tuple(Interpreter& in, Frame& f, const Instr& i) { f.push(in.tuple(pop_many(f, i.arg))); }
void on_build_list(Interpreter& in, Frame& f, const Instr& i) { f.push(in.list(pop_many(f, i.arg))); }
void on_build_set(Interpreter& in, Frame& f, const Instr& i) {
  Value* set = make_set(in, pop_many(f, i.arg), &PySet_Type);
  f.push(set);
}
void on_build_map(Interpreter& in, Frame& f, const Instr& i) {
  std::vector<Value*> items = pop_many(f, 2 * i.arg);
  DictValue* dict = in.dict();
  for (size_t k = 0; k + 1 < items.size(); k += 2) in.dict_set(dict, items[k], items[k + 1]);
  f.push(dict);
}
void on_build_const_key_map(Interpreter& in, Frame& f, const Instr& i) {
  std::vector<Value*> keys = in.unpack(f.pop());
  std::vector<Value*> items = pop_many(f, i.arg);
  DictValue* dict = in.dict();
  for (int k = 0; k < i.arg; ++k) in.dict_set(dict, keys[k], items[k]);
  f.push(dict);
}
void on_build_slice(Interpreter& in, Frame& f, const Instr& i) {
  Value* step = i.arg == 3 ? f.pop() : in.none();
  Value* stop = f.pop();
  Value* start = f.pop();
  f.push(in.arena.make<SliceValue>(start, stop, step));
}
void on_build_string(Interpreter& in, Frame& f, const Instr& i) {
  Ref text = Ref::steal(PyUnicode_FromString(""));
  std::vector<Value*> parts = pop_many(f, i.arg);
  if (std::any_of(parts.begin(), parts.end(), [](Value* part) { return part->kind == Kind::Text; }))
    return f.push(joined_text(in, parts));
  for (Value* part : parts) {
    PyObject* piece = in.constant_of(part);
    if (!piece || !PyUnicode_Check(piece)) throw Break{BreakId::internal, "a string part that is not a constant"};
    text = Ref::steal(PyUnicode_Concat(text.get(), piece));
  }
  f.push(in.constant(std::move(text)));
}
// In a frame captured from its middle the container may be external.
void on_list_append(Interpreter& in, Frame& f, const Instr& i) {
  Value* item = f.pop();
  Value* list = f.top(i.arg);
  if (append_unseen(in, list, item)) return;
  in.mutated(list);
  as_sequence(list)->items.push_back(item);
}
void on_list_extend(Interpreter& in, Frame& f, const Instr& i) {
  Value* more = f.pop();
  if (!is_iterable(in, more))
    in.raise(PyExc_TypeError, std::string("Value after * must be an iterable, not ") + in.type_of(more)->tp_name);
  auto items = unpack_hinted(in, more);
  Value* list = in.list_part(f.top(i.arg));
  in.mutated(list);
  auto& to = as_sequence(list)->items;
  to.insert(to.end(), items.begin(), items.end());
}
void on_list_to_tuple(Interpreter& in, Frame& f, const Instr&) {
  Value* list = f.pop();
  f.push(in.tuple(in.unpack(list)));
}
void on_set_add(Interpreter& in, Frame& f, const Instr& i) {
  Value* item = f.pop();
  auto* set = as<SetValue>(f.top(i.arg));
  if (set->source) in.replay_method(set, "add", {item});
  set_insert(in, set, item);
}
void on_set_update(Interpreter& in, Frame& f, const Instr& i) {
  Value* more = f.pop();
  auto* set = as<SetValue>(f.top(i.arg));
  Value* items = in.tuple(in.unpack(more));
  if (set->source) in.replay_method(set, "update", {items});
  set_merge(in, set, items);
}
void on_map_add(Interpreter& in, Frame& f, const Instr& i) {
  Value* value = f.pop();
  Value* key = f.pop();
  Value* dict = f.top(i.arg);
  in.mutated(dict);
  in.dict_set(as<DictValue>(dict), key, value);
}
static void merge_into(Interpreter& in, DictValue* to, Value* from, bool refuse_doubles) {
  if (from->kind != Kind::Dict && (from->kind != Kind::Object || !has_keys(in, from))) {
    // The message for arguments names the function.
    if (refuse_doubles) throw Break{BreakId::raises, "** of an object that is not a mapping"};
    in.raise(PyExc_TypeError, std::string("'") + in.type_of(from)->tp_name + "' object is not a mapping");
  }
  for (auto& [key, value] : mapping_items(in, from)) {
    if (refuse_doubles && in.dict_get(to, key)) throw Break{BreakId::raises, "a keyword argument is given twice"};
    in.dict_set(to, key, value);
  }
}
void on_dict_update(Interpreter& in, Frame& f, const Instr& i) {
  Value* from = f.pop();
  Value* dict = f.top(i.arg);
  in.mutated(dict);
  merge_into(in, as<DictValue>(dict), from, false);
}
void on_dict_merge(Interpreter& in, Frame& f, const Instr& i) {
  Value* from = f.pop();
  Value* dict = f.top(i.arg);
  in.mutated(dict);
  merge_into(in, as<DictValue>(dict), from, true);
}
/// Takes the wanted number of items, and one more if there is one, which is an error.
static std::vector<Value*> take_items(Interpreter& in, Value* iterable, size_t wanted) {
  if (as_sequence(iterable)) return in.unpack(iterable);
  std::vector<Value*> items;
  Value* iterator = in.iterate(iterable);
  while (items.size() <= wanted)
    if (Value* item = in.next(iterator))
      items.push_back(item);
    else
      break;
  return items;
}
void on_unpack_sequence(Interpreter& in, Frame& f, const Instr& i) {
  std::vector<Value*> items = take_items(in, unpackable(in, f.pop()), static_cast<size_t>(i.arg));
  if (items.size() != static_cast<size_t>(i.arg)) {
    if (items.size() < static_cast<size_t>(i.arg))
      in.raise(PyExc_ValueError, "not enough values to unpack (expected " + std::to_string(i.arg) + ", got " +
                                     std::to_string(items.size()) + ")");
    in.raise(PyExc_ValueError, "too many values to unpack (expected " + std::to_string(i.arg) + ")");
  }
  for (size_t k = items.size(); k-- > 0;) f.push(items[k]);
}
void on_unpack_ex(Interpreter& in, Frame& f, const Instr& i) {
  size_t before = i.arg & 0xFF, after = i.arg >> 8;
  std::vector<Value*> items = in.unpack(unpackable(in, f.pop()));
  if (items.size() < before + after)
    in.raise(PyExc_ValueError, "not enough values to unpack (expected at least " + std::to_string(before + after) +
                                   ", got " + std::to_string(items.size()) + ")");
  for (size_t k = 0; k < after; ++k) f.push(items[items.size() - 1 - k]);
  f.push(in.list({items.begin() + before, items.end() - after}));
  for (size_t k = before; k-- > 0;) f.push(items[k]);
}
void on_format_value(Interpreter& in, Frame& f, const Instr& i) {
  Value* spec = (i.arg & 4) ? f.pop() : nullptr;
  Value* value = f.pop();
  f.push(in.format(value, i.arg & 3, spec));
}
void on_get_len(Interpreter& in, Frame& f, const Instr&) {
  auto length = in.length_of(f.top());
  if (!length) throw Break{BreakId::opcode, "GET_LEN"};
  f.push(in.integer(*length));
}

}  // namespace stator::capture
