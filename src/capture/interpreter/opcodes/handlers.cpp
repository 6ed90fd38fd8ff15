// One handler per opcode; the table at the end has a row for each.
#include "capture/interpreter/opcodes/handlers.h"

#include "capture/interpreter/classes/class_bodies.h"
#include "capture/interpreter/containers/keys.h"
#include "capture/interpreter/exceptions.h"
#include "capture/interpreter/interpreter.h"
#include "capture/interpreter/iteration/generators.h"
#include "capture/interpreter/models/model.h"
#include "capture/interpreter/opcodes/assumptions.h"
#include "capture/interpreter/opcodes/match.h"
#include "capture/interpreter/operators/varying_numbers.h"
#include "capture/interpreter/torch/numbers.h"

namespace stator::capture {
using pycompat::Instr;
using pycompat::Op;

namespace {

PyObject* name_at(Frame& f, int index) { return PyTuple_GET_ITEM(f.code->names, index); }

std::string slot_name(Frame& f, int slot) {
  const char* text = PyUnicode_AsUTF8(PyTuple_GET_ITEM(f.code->localsplus_names, slot));
  return text ? text : "?";
}

// ---- stack

void on_nop(Interpreter&, Frame&, const Instr&) {}
void on_pop_top(Interpreter& in, Frame& f, const Instr&) {
  Value* dropped = f.pop();
  // Nobody else has a generator that was iterated right where it was made.
  if (auto* generator = dropped->kind == Kind::Iterator ? dynamic_cast<GeneratorValue*>(dropped) : nullptr;
      generator && generator->temporary)
    generator->close(in);
  in.let_go(dropped);
}
void on_push_null(Interpreter& in, Frame& f, const Instr&) { f.push(in.arena.null()); }
void on_copy(Interpreter&, Frame& f, const Instr& i) { f.push(f.top(i.arg)); }
void on_swap(Interpreter&, Frame& f, const Instr& i) { std::swap(f.top(), f.top(i.arg)); }
void on_load_const(Interpreter& in, Frame& f, const Instr& i) {
  f.push(in.constant(PyTuple_GET_ITEM(f.code->consts, i.arg)));
}

// ---- locals and cells

[[noreturn]] void raise_unbound(Interpreter& in, Frame& f, int slot) {
  if (f.code->slot_kinds[slot] & pycompat::kSlotFree)
    in.raise(PyExc_NameError, "cannot access free variable '" + slot_name(f, slot) +
                                  "' where it is not associated with a value in enclosing scope");
  in.raise(PyExc_UnboundLocalError,
           "cannot access local variable '" + slot_name(f, slot) + "' where it is not associated with a value");
}

void on_load_fast(Interpreter& in, Frame& f, const Instr& i) {
  Value* value = in.local(f, i.arg);
  if (!value) raise_unbound(in, f, i.arg);
  f.push(value);
}
void on_load_fast_and_clear(Interpreter& in, Frame& f, const Instr& i) {
  Value* value = in.local(f, i.arg);
  f.push(value ? value : in.arena.null());
  f.store(i.arg, nullptr);
}
void on_store_fast(Interpreter& in, Frame& f, const Instr& i) {
  // What an inlined frame drops, its caller still has.
  if (!f.caller) in.let_go(f, i.arg);
  Value* value = f.pop();
  f.store(i.arg, is_null(value) ? nullptr : value);
}
void on_delete_fast(Interpreter& in, Frame& f, const Instr& i) {
  if (!in.local(f, i.arg)) raise_unbound(in, f, i.arg);
  if (!f.caller) in.let_go(f, i.arg);
  f.store(i.arg, nullptr);
}
void on_make_cell(Interpreter& in, Frame& f, const Instr& i) {
  auto* cell = in.arena.make<CellValue>();
  cell->contents = in.local(f, i.arg);
  f.store(i.arg, cell);
}
void on_copy_free_vars(Interpreter&, Frame& f, const Instr& i) {
  size_t first = f.locals.size() - i.arg;
  for (int k = 0; k < i.arg; ++k) f.store(static_cast<int>(first) + k, f.function->closure[k]);
}
void on_load_closure(Interpreter&, Frame& f, const Instr& i) { f.push(f.locals[i.arg]); }

CellValue* cell_at(Frame& f, int slot) {
  auto* cell = as<CellValue>(f.locals[slot]);
  if (!cell) throw Break{BreakId::internal, "no cell where one is expected"};
  return cell;
}
void on_load_deref(Interpreter& in, Frame& f, const Instr& i) {
  Value* value = load_cell(in, cell_at(f, i.arg));
  if (!value) raise_unbound(in, f, i.arg);
  f.push(value);
}
void on_store_deref(Interpreter& in, Frame& f, const Instr& i) { store_cell(in, cell_at(f, i.arg), f.pop()); }
void on_delete_deref(Interpreter& in, Frame& f, const Instr& i) {
  CellValue* cell = cell_at(f, i.arg);
  if (!load_cell(in, cell)) raise_unbound(in, f, i.arg);
  if (cell->outside) throw Break{BreakId::mutation, "del of an outer variable"};
  in.refuse_frozen(cell);
  cell->contents = nullptr;
}

// ---- names and attributes

void on_load_global(Interpreter& in, Frame& f, const Instr& i) {
  if (i.arg2) f.push(in.arena.null());
  f.push(in.load_global(f, name_at(f, i.arg)));
}
void on_store_global(Interpreter& in, Frame& f, const Instr& i) {
  store_global(in, f.globals, name_at(f, i.arg), f.pop());
}
void on_delete_global(Interpreter& in, Frame& f, const Instr& i) {
  PyObject* name = name_at(f, i.arg);
  auto written = written_global(in, f.globals, name);
  if (written ? !*written : !PyDict_GetItemWithError(f.globals, name))
    in.raise(PyExc_NameError, std::string("name '") + PyUnicode_AsUTF8(name) + "' is not defined");
  if (!written) in.load_global(f, name);
  store_global(in, f.globals, name, nullptr);
}
void on_load_attr(Interpreter& in, Frame& f, const Instr& i) {
  Value* owner = f.pop();
  f.push(in.get_attr(owner, name_at(f, i.arg)));
}
void on_load_method(Interpreter& in, Frame& f, const Instr& i) {
  Value* owner = f.pop();
  Value* found = in.get_attr(owner, name_at(f, i.arg));
  f.push(in.arena.null());
  f.push(found);
}
void on_load_super_attr(Interpreter& in, Frame& f, const Instr& i) {
  Value* self = f.pop();
  Value* type = f.pop();
  Value* callee = f.pop();
  CallArgs args;
  args.positional = {type, self};
  Value* super = in.call(callee, std::move(args));
  Value* found = in.get_attr(super, name_at(f, i.arg));
  if (i.arg2 & 1) f.push(in.arena.null());
  f.push(found);
}
void on_store_attr(Interpreter& in, Frame& f, const Instr& i) {
  Value* owner = f.pop();
  Value* value = f.pop();
  in.set_attr(owner, name_at(f, i.arg), value);
}
void on_delete_attr(Interpreter& in, Frame& f, const Instr& i) { in.del_attr(f.pop(), name_at(f, i.arg)); }

void on_import_name(Interpreter& in, Frame& f, const Instr& i) {
  Value* from_list = f.pop();
  Value* level = f.pop();
  f.push(import_name(in, f, name_at(f, i.arg), from_list, level));
}
void on_import_from(Interpreter& in, Frame& f, const Instr& i) {
  Value* found = in.find_attr(f.top(), name_at(f, i.arg));
  // It may be a module that is being imported; else CPython knows what to say.
  if (!found) throw Break{BreakId::raises, "import of a name that is not there"};
  f.push(found);
}

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

// ---- containers and strings

std::vector<Value*> pop_many(Frame& f, int count) {
  std::vector<Value*> items(f.stack.end() - count, f.stack.end());
  f.stack.resize(f.stack.size() - count);
  for (Value*& item : items) item = f.read(item);
  return items;
}
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
    if (!piece || !PyUnicode_Check(piece)) throw Break{BreakId::internal, "a string part that is no constant"};
    text = Ref::steal(PyUnicode_Concat(text.get(), piece));
  }
  f.push(in.constant(std::move(text)));
}
// The container may be an outside one where the frame is captured from its middle.
void on_list_append(Interpreter& in, Frame& f, const Instr& i) {
  Value* item = f.pop();
  Value* list = f.top(i.arg);
  if (append_unseen(in, list, item)) return;
  in.mutated(list);
  as_sequence(list)->items.push_back(item);
}
/// What is unpacked; each instruction has words of its own about something that cannot be, which Python says.
Value* unpackable(Interpreter& in, Value* value) {
  PyTypeObject* type = in.type_of(value);
  if (!type->tp_iter && !(type->tp_as_sequence && type->tp_as_sequence->sq_item))
    throw Break{BreakId::raises, std::string("a ") + type->tp_name + " is unpacked"};
  return value;
}
void on_list_extend(Interpreter& in, Frame& f, const Instr& i) {
  Value* more = unpackable(in, f.pop());
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
void merge_into(Interpreter& in, DictValue* to, Value* from, bool refuse_doubles) {
  if (from->kind != Kind::Dict && (from->kind != Kind::Object || !has_keys(in, from)))
    throw Break{BreakId::raises, "** of what is no mapping"};
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
/// As many items as are wanted and one more, which is an error.
std::vector<Value*> take_items(Interpreter& in, Value* iterable, size_t wanted) {
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

// ---- calls

void on_call(Interpreter& in, Frame& f, const Instr& i) {
  CallArgs args;
  PyObject* names = i.arg2 >= 0 ? PyTuple_GET_ITEM(f.code->consts, i.arg2) : nullptr;
  size_t keywords = names ? PyTuple_GET_SIZE(names) : 0;
  std::vector<Value*> items = pop_many(f, i.arg);
  Value* self_or_callee = f.pop();
  Value* null_or_method = f.pop();
  Value* callee = self_or_callee;
  if (!is_null(null_or_method)) {
    callee = null_or_method;
    args.positional.push_back(self_or_callee);
  }
  args.positional.insert(args.positional.end(), items.begin(), items.end() - keywords);
  for (size_t k = 0; k < keywords; ++k)
    args.keywords.emplace_back(Ref::borrow(PyTuple_GET_ITEM(names, k)), items[items.size() - keywords + k]);
  in.continuation = Continuation::Push;
  f.push(in.call(callee, std::move(args)));
}
void on_call_function_ex(Interpreter& in, Frame& f, const Instr& i) {
  CallArgs args;
  args.is_spread = i.arg & 1;
  if (args.is_spread)
    for (auto& [key, value] : mapping_items(in, f.pop())) {
      PyObject* name = in.constant_of(key);
      if (!name || !PyUnicode_Check(name)) in.raise(PyExc_TypeError, "keywords must be strings");
      args.keywords.emplace_back(Ref::borrow(name), value);
    }
  args.positional = unpack_hinted(in, unpackable(in, f.pop()));
  Value* callee = f.pop();
  f.pop();  // NULL
  in.continuation = Continuation::Push;
  f.push(in.call(callee, std::move(args)));
}
void on_make_function(Interpreter& in, Frame& f, const Instr& i) {
  auto* function = in.arena.make<FunctionValue>();
  function->code = reinterpret_cast<PyCodeObject*>(in.constant_of(f.pop()));
  function->globals = f.globals;
  function->globals_source = f.globals_source;
  if (i.arg & 8)
    for (Value* cell : in.unpack(f.pop())) function->closure.push_back(as<CellValue>(cell));
  if (i.arg & 4) function->annotations = f.pop();
  if (i.arg & 2) function->kwdefaults = f.pop();
  if (i.arg & 1) function->defaults = f.pop();
  f.push(function);
}
void on_load_assertion_error(Interpreter& in, Frame& f, const Instr&) { f.push(in.constant(PyExc_AssertionError)); }
void on_call_intrinsic_1(Interpreter& in, Frame& f, const Instr& i) {
  constexpr int kStopIterationError = 3;
  if (i.arg != kStopIterationError) throw Break{BreakId::opcode, "CALL_INTRINSIC_1 " + std::to_string(i.arg)};
  if (is_exception(in, f.top(), PyExc_StopIteration)) raise_from_stop(in, f.pop());
}

// ---- control flow

void on_jump(Interpreter&, Frame& f, const Instr& i) { f.pc = i.target; }
/// Whether a jump is taken, by the truth of what it looks at.
bool jumps(Interpreter& in, Frame& f, const Instr& i, bool on) {
  Value* value = f.pop();
  if (std::optional<bool> assumed = assumed_truth(in, f, value, i, on)) return *assumed == on;
  return in.truth(value) == on;
}
void on_pop_jump_if_true(Interpreter& in, Frame& f, const Instr& i) {
  if (jumps(in, f, i, true)) f.pc = i.target;
}
void on_pop_jump_if_false(Interpreter& in, Frame& f, const Instr& i) {
  if (jumps(in, f, i, false)) f.pc = i.target;
}
void on_pop_jump_if_none(Interpreter& in, Frame& f, const Instr& i) {
  if (in.is_same(f.pop(), in.none())) f.pc = i.target;
}
void on_pop_jump_if_not_none(Interpreter& in, Frame& f, const Instr& i) {
  if (!in.is_same(f.pop(), in.none())) f.pc = i.target;
}
void on_jump_if_true_or_pop(Interpreter& in, Frame& f, const Instr& i) {
  if (in.truth(f.top()))
    f.pc = i.target;
  else
    f.pop();
}
void on_jump_if_false_or_pop(Interpreter& in, Frame& f, const Instr& i) {
  if (!in.truth(f.top()))
    f.pc = i.target;
  else
    f.pop();
}
void on_get_iter(Interpreter& in, Frame& f, const Instr&) {
  Value* iterable = f.pop();
  if (auto* generator = iterable->kind == Kind::Iterator ? dynamic_cast<GeneratorValue*>(iterable) : nullptr)
    generator->temporary = f.pc >= 2 && f.code->instrs[f.pc - 2].op == Op::CALL && generator->fresh();
  f.push(in.iterate(iterable));
}
void on_for_iter(Interpreter& in, Frame& f, const Instr& i) {
  Value* item = in.next(f.top());
  if (item) {
    f.push(item);
  } else {
    f.pop();
    f.pc = i.target;
  }
}
void on_return_value(Interpreter&, Frame& f, const Instr&) {
  f.result = f.pop();
  f.returned = true;
}
void on_return_const(Interpreter& in, Frame& f, const Instr& i) {
  f.result = in.constant(PyTuple_GET_ITEM(f.code->consts, i.arg));
  f.returned = true;
}
void on_yield_value(Interpreter&, Frame& f, const Instr&) {
  f.result = f.pop();
  f.yielded = true;
}
// The call that makes a generator never runs its first instruction, so here it only stands for the popped self.
void on_return_generator(Interpreter& in, Frame& f, const Instr&) { f.push(in.none()); }
void on_get_yield_from_iter(Interpreter& in, Frame& f, const Instr& i) { on_get_iter(in, f, i); }
void on_send(Interpreter& in, Frame& f, const Instr& i) {
  Value* sent = f.pop();
  if (Value* item = send_to(in, f.top(), sent)) {
    f.push(item);
    return;
  }
  finish_send(in, f, i.target);
  f.pc = i.target;
}
/// An exception thrown into a `yield from`: the end of the inner iterator is no error.
void on_cleanup_throw(Interpreter& in, Frame& f, const Instr&) {
  Value* exception = f.top();
  if (!is_exception(in, exception, PyExc_StopIteration)) throw Raise{exception};
  static PyObject* const value = PyUnicode_InternFromString("value");
  Value* result = in.get_attr(exception, value);
  f.stack.resize(f.stack.size() - 3);
  f.push(in.none());
  f.push(result);
}
void on_end_send(Interpreter&, Frame& f, const Instr&) {
  Value* result = f.pop();
  f.top() = result;
}

// ---- exceptions and with

void on_before_with(Interpreter& in, Frame& f, const Instr&) {
  static PyObject* enter = PyUnicode_InternFromString("__enter__");
  static PyObject* exit = PyUnicode_InternFromString("__exit__");
  Value* manager = f.pop();
  Value* on_enter = type_method(in, manager, enter);
  Value* on_exit = type_method(in, manager, exit);
  f.push(on_exit);
  in.continuation = Continuation::Push;
  f.push(in.call(on_enter, {}));
}
void on_with_except_start(Interpreter& in, Frame& f, const Instr&) {
  Value* exception = f.top();
  Value* on_exit = f.top(4);
  CallArgs args;
  args.positional = {in.constant(reinterpret_cast<PyObject*>(in.type_of(exception))), exception, unseen_traceback(in)};
  in.continuation = Continuation::Push;
  f.push(in.call(on_exit, std::move(args)));
}
void on_push_exc_info(Interpreter& in, Frame& f, const Instr&) {
  Value* exception = f.pop();
  f.push(f.handled ? f.handled : in.none());
  f.push(exception);
  f.handled = exception;
}
void on_pop_except(Interpreter& in, Frame& f, const Instr&) {
  Value* previous = f.pop();
  f.handled = in.is_same(previous, in.none()) ? nullptr : previous;
}
void on_check_exc_match(Interpreter& in, Frame& f, const Instr&) {
  Value* classes = f.pop();
  f.push(in.boolean(exception_matches(in, f.top(), classes)));
}
/// An exception that is there already, once more. One from outside gets entries in its traceback on the way.
[[noreturn]] void raise_again(Value* exception) {
  auto* object = as<ObjectValue>(exception);
  if (!object || object->object) throw Break{BreakId::raises, "an exception from outside is raised again"};
  throw Raise{exception};
}
void on_reraise(Interpreter&, Frame& f, const Instr&) { raise_again(f.pop()); }
void on_raise_varargs(Interpreter& in, Frame& f, const Instr& i) {
  if (i.arg == 0) {
    Value* handled = handled_exception(f);
    if (!handled) throw Break{BreakId::raises, "raise without an exception"};
    raise_again(handled);
  }
  Value* cause = i.arg == 2 ? f.pop() : nullptr;
  Value* exception = f.pop();
  raise_exception(in, exception, cause);
}

void on_unsupported(Interpreter&, Frame&, const Instr& i) { throw Break{BreakId::opcode, pycompat::op_name(i.op)}; }

struct HandlerRow {
  Op op;
  Handler handler;
};
constexpr HandlerRow kHandlers[] = {
    {Op::NOP, on_nop},
    {Op::POP_TOP, on_pop_top},
    {Op::PUSH_NULL, on_push_null},
    {Op::COPY, on_copy},
    {Op::SWAP, on_swap},
    {Op::LOAD_CONST, on_load_const},
    {Op::LOAD_FAST, on_load_fast},
    {Op::LOAD_FAST_AND_CLEAR, on_load_fast_and_clear},
    {Op::STORE_FAST, on_store_fast},
    {Op::DELETE_FAST, on_delete_fast},
    {Op::MAKE_CELL, on_make_cell},
    {Op::COPY_FREE_VARS, on_copy_free_vars},
    {Op::LOAD_CLOSURE, on_load_closure},
    {Op::LOAD_DEREF, on_load_deref},
    {Op::STORE_DEREF, on_store_deref},
    {Op::DELETE_DEREF, on_delete_deref},
    {Op::LOAD_CLASSDEREF, on_load_class_deref},
    {Op::LOAD_GLOBAL, on_load_global},
    {Op::STORE_GLOBAL, on_store_global},
    {Op::DELETE_GLOBAL, on_delete_global},
    {Op::LOAD_NAME, on_load_name},
    {Op::STORE_NAME, on_store_name},
    {Op::DELETE_NAME, on_delete_name},
    {Op::LOAD_LOCALS, on_load_locals},
    {Op::LOAD_FROM_DICT_OR_GLOBALS, on_load_from_dict_or_globals},
    {Op::LOAD_ATTR, on_load_attr},
    {Op::LOAD_METHOD, on_load_method},
    {Op::LOAD_SUPER_ATTR, on_load_super_attr},
    {Op::STORE_ATTR, on_store_attr},
    {Op::DELETE_ATTR, on_delete_attr},
    {Op::IMPORT_NAME, on_import_name},
    {Op::IMPORT_FROM, on_import_from},
    {Op::IMPORT_STAR, on_unsupported},
    {Op::BINARY_OP, on_binary_op},
    {Op::BINARY_SUBSCR, on_binary_subscr},
    {Op::BINARY_SLICE, on_binary_slice},
    {Op::STORE_SUBSCR, on_store_subscr},
    {Op::STORE_SLICE, on_store_slice},
    {Op::DELETE_SUBSCR, on_delete_subscr},
    {Op::UNARY_POSITIVE, on_unary},
    {Op::UNARY_NEGATIVE, on_unary},
    {Op::UNARY_NOT, on_unary},
    {Op::UNARY_INVERT, on_unary},
    {Op::TO_BOOL, on_to_bool},
    {Op::COMPARE_OP, on_compare},
    {Op::IS_OP, on_is},
    {Op::CONTAINS_OP, on_contains},
    {Op::BUILD_TUPLE, on_build_tuple},
    {Op::BUILD_LIST, on_build_list},
    {Op::BUILD_SET, on_build_set},
    {Op::BUILD_MAP, on_build_map},
    {Op::BUILD_CONST_KEY_MAP, on_build_const_key_map},
    {Op::BUILD_SLICE, on_build_slice},
    {Op::BUILD_STRING, on_build_string},
    {Op::LIST_APPEND, on_list_append},
    {Op::LIST_EXTEND, on_list_extend},
    {Op::LIST_TO_TUPLE, on_list_to_tuple},
    {Op::SET_ADD, on_set_add},
    {Op::SET_UPDATE, on_set_update},
    {Op::MAP_ADD, on_map_add},
    {Op::DICT_UPDATE, on_dict_update},
    {Op::DICT_MERGE, on_dict_merge},
    {Op::UNPACK_SEQUENCE, on_unpack_sequence},
    {Op::UNPACK_EX, on_unpack_ex},
    {Op::FORMAT_VALUE, on_format_value},
    {Op::CONVERT_VALUE, on_unsupported},
    {Op::GET_LEN, on_get_len},
    {Op::MATCH_CLASS, on_match_class},
    {Op::MATCH_KEYS, on_match_keys},
    {Op::MATCH_MAPPING, on_match_mapping},
    {Op::MATCH_SEQUENCE, on_match_sequence},
    {Op::CALL, on_call},
    {Op::CALL_KW, on_unsupported},
    {Op::CALL_FUNCTION_EX, on_call_function_ex},
    {Op::CALL_INTRINSIC_1, on_call_intrinsic_1},
    {Op::CALL_INTRINSIC_2, on_unsupported},
    {Op::MAKE_FUNCTION, on_make_function},
    {Op::SET_FUNCTION_ATTRIBUTE, on_unsupported},
    {Op::LOAD_BUILD_CLASS, on_load_build_class},
    {Op::LOAD_ASSERTION_ERROR, on_load_assertion_error},
    {Op::JUMP, on_jump},
    {Op::POP_JUMP_IF_TRUE, on_pop_jump_if_true},
    {Op::POP_JUMP_IF_FALSE, on_pop_jump_if_false},
    {Op::POP_JUMP_IF_NONE, on_pop_jump_if_none},
    {Op::POP_JUMP_IF_NOT_NONE, on_pop_jump_if_not_none},
    {Op::JUMP_IF_TRUE_OR_POP, on_jump_if_true_or_pop},
    {Op::JUMP_IF_FALSE_OR_POP, on_jump_if_false_or_pop},
    {Op::GET_ITER, on_get_iter},
    {Op::FOR_ITER, on_for_iter},
    {Op::END_FOR, on_unsupported},
    {Op::RETURN_VALUE, on_return_value},
    {Op::RETURN_CONST, on_return_const},
    {Op::RETURN_GENERATOR, on_return_generator},
    {Op::YIELD_VALUE, on_yield_value},
    {Op::GET_YIELD_FROM_ITER, on_get_yield_from_iter},
    {Op::SEND, on_send},
    {Op::END_SEND, on_end_send},
    {Op::CLEANUP_THROW, on_cleanup_throw},
    {Op::GET_AWAITABLE, on_unsupported},
    {Op::GET_AITER, on_unsupported},
    {Op::GET_ANEXT, on_unsupported},
    {Op::END_ASYNC_FOR, on_unsupported},
    {Op::ASYNC_GEN_WRAP, on_unsupported},
    {Op::BEFORE_ASYNC_WITH, on_unsupported},
    {Op::BEFORE_WITH, on_before_with},
    {Op::WITH_EXCEPT_START, on_with_except_start},
    {Op::PUSH_EXC_INFO, on_push_exc_info},
    {Op::POP_EXCEPT, on_pop_except},
    {Op::CHECK_EXC_MATCH, on_check_exc_match},
    {Op::CHECK_EG_MATCH, on_unsupported},
    {Op::PREP_RERAISE_STAR, on_unsupported},
    {Op::RERAISE, on_reraise},
    {Op::RAISE_VARARGS, on_raise_varargs},
    {Op::SETUP_ANNOTATIONS, on_setup_annotations},
    {Op::PRINT_EXPR, on_unsupported},
    {Op::INTERPRETER_EXIT, on_unsupported},
    {Op::EXIT_INIT_CHECK, on_unsupported},
    {Op::UNKNOWN, on_unsupported},
};

constexpr size_t kOps = static_cast<size_t>(Op::kCount);
struct Table {
  Handler by_op[kOps] = {};
  constexpr Table() {
    for (const HandlerRow& row : kHandlers) by_op[static_cast<size_t>(row.op)] = row.handler;
  }
  constexpr bool is_complete() const {
    for (Handler handler : by_op)
      if (!handler) return false;
    return true;
  }
};
constexpr Table kTable;
static_assert(std::size(kHandlers) == kOps, "an opcode has no row, or two");
static_assert(kTable.is_complete(), "an opcode has no row");

}  // namespace

Handler handler_of(Op op) { return kTable.by_op[static_cast<size_t>(op)]; }

}  // namespace stator::capture
