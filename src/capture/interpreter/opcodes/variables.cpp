#include "capture/interpreter/opcodes/variables.h"

#include "capture/interpreter/iteration/generators.h"
#include "capture/interpreter/protocol/names.h"
#include "capture/pycompat/text.h"

namespace stator::capture {

using pycompat::Instr;

// ---- stack

void on_nop(Interpreter&, Frame&, const Instr&) {}
void on_pop_top(Interpreter& in, Frame& f, const Instr&) {
  Value* dropped = f.pop();
  // A temporary generator has no other holder: dropping it ends it.
  if (auto* generator = dropped->kind == Kind::Iterator ? dynamic_cast<GeneratorValue*>(dropped) : nullptr;
      generator && generator->temporary)
    generator->close(in);
  in.lifetimes.drop(dropped);
}
void on_push_null(Interpreter& in, Frame& f, const Instr&) { f.push(in.arena.null()); }
void on_copy(Interpreter&, Frame& f, const Instr& i) { f.push(f.top(i.arg)); }
void on_swap(Interpreter&, Frame& f, const Instr& i) { std::swap(f.top(), f.top(i.arg)); }
void on_load_const(Interpreter& in, Frame& f, const Instr& i) {
  f.push(in.constant(PyTuple_GET_ITEM(f.code->consts, i.arg)));
}

// ---- locals and cells

static std::string slot_name(Frame& f, int slot) {
  return exact_text_of(PyTuple_GET_ITEM(f.code->localsplus_names, slot));
}

[[noreturn]] static void raise_unbound(Interpreter& in, Frame& f, int slot) {
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
  // The caller of an inlined frame still holds its arguments.
  if (!f.caller) {
    in.lifetimes.drop_slot(f, i.arg);
    in.start.note_stored(i.arg);
  }
  Value* value = f.pop();
  f.store(i.arg, is_null(value) ? nullptr : value);
}
void on_delete_fast(Interpreter& in, Frame& f, const Instr& i) {
  if (!in.local(f, i.arg)) raise_unbound(in, f, i.arg);
  if (!f.caller) in.lifetimes.drop_slot(f, i.arg);
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

static CellValue* cell_at(Frame& f, int slot) {
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
  if (cell->external) throw Break{BreakId::mutation, "del of an outer variable"};
  in.effects.refuse_frozen(cell);
  cell->contents = nullptr;
}

}  // namespace stator::capture
