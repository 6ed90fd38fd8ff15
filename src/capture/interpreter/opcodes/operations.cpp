#include "capture/interpreter/opcodes/operations.h"

#include "capture/interpreter/opcodes/match.h"

namespace stator::capture {

using pycompat::Instr;

// ---- operators

void on_binary_op(Interpreter& in, Frame& f, const Instr& i) {
  Value* b = f.pop();
  Value* a = f.pop();
  f.push(in.binary(i.arg, a, b));
}
void on_binary_subscr(Interpreter& in, Frame& f, const Instr&) {
  Value* key = f.pop();
  Value* owner = f.pop();
  f.push(in.get_item(owner, key));
}
void on_binary_slice(Interpreter& in, Frame& f, const Instr&) {
  Value* stop = f.pop();
  Value* start = f.pop();
  Value* owner = f.pop();
  f.push(in.get_item(owner, in.arena.make<SliceValue>(start, stop, in.none())));
}
void on_store_subscr(Interpreter& in, Frame& f, const Instr&) {
  Value* key = f.pop();
  Value* owner = f.pop();
  Value* value = f.pop();
  in.set_item(owner, key, value);
}
void on_store_slice(Interpreter& in, Frame& f, const Instr&) {
  Value* stop = f.pop();
  Value* start = f.pop();
  Value* owner = f.pop();
  Value* value = f.pop();
  in.set_item(owner, in.arena.make<SliceValue>(start, stop, in.none()), value);
}
void on_delete_subscr(Interpreter& in, Frame& f, const Instr&) {
  Value* key = f.pop();
  Value* owner = f.pop();
  in.del_item(owner, key);
}
void on_unary(Interpreter& in, Frame& f, const Instr& i) {
  Value* value = f.pop();
  f.push(in.unary(i.op, value));
}
void on_to_bool(Interpreter& in, Frame& f, const Instr&) {
  Value* value = f.pop();
  f.push(in.boolean(in.truth(value)));
}
void on_compare(Interpreter& in, Frame& f, const Instr& i) {
  Value* b = f.pop();
  Value* a = f.pop();
  Value* result = in.compare(i.arg, a, b);
  f.push(i.arg2 ? in.boolean(in.truth(result)) : result);
}
void on_is(Interpreter& in, Frame& f, const Instr& i) {
  Value* b = f.pop();
  Value* a = f.pop();
  f.push(in.boolean(in.is_same(a, b) != (i.arg == 1)));
}
void on_contains(Interpreter& in, Frame& f, const Instr& i) {
  Value* container = f.pop();
  Value* item = f.pop();
  f.push(in.boolean(in.contains(container, item) != (i.arg == 1)));
}

// ---- match

void on_match_sequence(Interpreter& in, Frame& f, const Instr&) { f.push(in.boolean(matches_sequence(in, f.top()))); }
void on_match_mapping(Interpreter& in, Frame& f, const Instr&) { f.push(in.boolean(matches_mapping(in, f.top()))); }
void on_match_keys(Interpreter& in, Frame& f, const Instr&) { f.push(match_keys(in, f.top(2), f.top())); }
void on_match_class(Interpreter& in, Frame& f, const Instr& i) {
  Value* names = f.pop();
  Value* cls = f.pop();
  Value* subject = f.pop();
  f.push(match_class(in, subject, cls, i.arg, names));
}

}  // namespace stator::capture
