#include "capture/interpreter/opcodes/control.h"

#include "capture/interpreter/iteration/generators.h"
#include "capture/interpreter/protocol/exceptions.h"
#include "capture/interpreter/torch/assumptions.h"

namespace stator::capture {

using pycompat::Instr;

void on_jump(Interpreter&, Frame& f, const Instr& i) { f.pc = i.target; }
/// Whether a conditional jump is taken.
static bool jumps(Interpreter& in, Frame& f, const Instr& i, bool on) {
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
    generator->temporary = f.pc >= 2 && f.code->instrs[f.pc - 2].op == pycompat::Op::CALL && generator->fresh();
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
// The call that makes a generator does not execute this instruction; when the generator starts, it pushes the value
// that the next instruction pops.
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
/// After an exception was thrown into a `yield from`: a StopIteration of the inner iterator ends it.
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

}  // namespace stator::capture
