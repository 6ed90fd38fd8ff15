#include "capture/interpreter/generators.h"

#include "capture/interpreter/exceptions.h"
#include "capture/interpreter/handlers.h"
#include "capture/interpreter/model.h"

namespace stator::capture {
using pycompat::Op;

Value* make_generator(Interpreter& in, std::unique_ptr<Frame> frame) {
  auto* generator = in.arena.make<GeneratorValue>();
  generator->frame = std::move(frame);
  in.generators.push_back(generator);
  return generator;
}

Value* GeneratorValue::next(Interpreter& in) { return send(in, in.none()); }

Value* GeneratorValue::send(Interpreter& in, Value* value) {
  if (running) in.raise(PyExc_ValueError, "generator already executing");
  if (finished) return nullptr;
  if (!started && !in.is_same(value, in.none()))
    in.raise(PyExc_TypeError, "can't send non-None value to a just-started generator");
  if (started) frame->push(value);
  return resume(in);
}

Value* GeneratorValue::resume(Interpreter& in) {
  started = running = true;
  frame->yielded = false;
  frame->caller = in.frame;
  Value* value;
  try {
    value = in.run_frame(*frame);
  } catch (const Raise& raised) {
    running = false;
    finished = true;
    // Newer versions do this in the generator's own code.
    if (!is_exception(in, raised.exception, PyExc_StopIteration)) throw;
    raise_from_stop(in, raised.exception);
  }
  running = false;
  if (!frame->returned) return value;
  finished = true;
  result = value;
  return nullptr;
}

Value* GeneratorValue::delegate() const {
  const auto& instrs = frame->code->instrs;
  bool waits = started && !finished && frame->pc >= 2 && instrs[frame->pc - 1].op == Op::YIELD_VALUE &&
               instrs[frame->pc - 2].op == Op::SEND;
  return waits ? frame->stack.back() : nullptr;
}

Value* GeneratorValue::raise_inside(Interpreter& in, Value* exception) {
  if (running) in.raise(PyExc_ValueError, "generator already executing");
  if (finished || !started) {
    finished = true;
    throw Raise{exception};
  }
  if (Value* inner = delegate()) {
    auto* generator = dynamic_cast<GeneratorValue*>(inner);
    if (!generator) throw Break{BreakId::generator, "throw into an iterator that is no generator"};
    try {
      running = true;
      Value* item = generator->raise_inside(in, exception);
      running = false;
      if (item) return item;
      // It returned: the `yield from` ends with its value.
      const auto& send = frame->code->instrs[frame->pc - 2];
      finish_send(in, *frame, send.target);
      frame->pc = send.target;
      return resume(in);
    } catch (const Raise& raised) {
      running = false;
      frame->thrown = raised.exception;
      return resume(in);
    }
  }
  frame->thrown = exception;
  return resume(in);
}

void GeneratorValue::close(Interpreter& in) {
  if (running) in.raise(PyExc_ValueError, "generator already executing");
  if (!started) finished = true;
  if (finished) return;
  if (auto* inner = dynamic_cast<GeneratorValue*>(delegate())) inner->close(in);
  auto* exit = make_exception(in, reinterpret_cast<PyTypeObject*>(PyExc_GeneratorExit), {});
  exit->raised = true;
  try {
    frame->thrown = exit;
    if (resume(in)) in.raise(PyExc_RuntimeError, "generator ignored GeneratorExit");
  } catch (const Raise& raised) {
    if (!is_exception(in, raised.exception, PyExc_GeneratorExit)) throw;
  }
}

bool GeneratorValue::has_cleanup() const {
  if (!started || finished) return false;
  int at = static_cast<int>(frame->pc) - 1;
  for (const pycompat::ExceptionEntry& entry : frame->code->exceptions) {
    if (at < entry.start || at >= entry.end) continue;
    // Generators of newer versions have a handler around all of them that only renames StopIteration.
    Op first = frame->code->instrs[entry.target].op;
    if (first != Op::CALL_INTRINSIC_1 && first != Op::CLEANUP_THROW) return true;
  }
  auto* inner = dynamic_cast<GeneratorValue*>(delegate());
  return inner && inner->has_cleanup();
}

void check_unfinished(Interpreter& in) {
  for (GeneratorValue* generator : in.generators)
    if (generator->has_cleanup()) throw Break{BreakId::generator, "a generator is dropped before its cleanup ran"};
}

Value* send_to(Interpreter& in, Value* iterator, Value* sent) {
  if (auto* generator = dynamic_cast<GeneratorValue*>(iterator)) return generator->send(in, sent);
  if (in.is_same(sent, in.none())) return in.next(iterator);
  throw Break{BreakId::opcode, "send of a value into an iterator that is no generator"};
}

Value* result_of(Interpreter& in, Value* iterator) {
  auto* generator = dynamic_cast<GeneratorValue*>(iterator);
  return generator && generator->result ? generator->result : in.none();
}

void finish_send(Interpreter& in, Frame& f, int target) {
  Value* result = result_of(in, f.top());
  // With END_SEND at the target the receiver stays below the result; without, the result takes its place.
  if (f.code->instrs[target].op == Op::END_SEND)
    f.push(result);
  else
    f.top() = result;
}

void raise_from_stop(Interpreter& in, Value* stop) {
  auto* error = make_exception(in, reinterpret_cast<PyTypeObject*>(PyExc_RuntimeError),
                               {in.constant(Ref::steal(PyUnicode_FromString("generator raised StopIteration")))});
  error->context = stop;
  raise_exception(in, error, stop);
}

}  // namespace stator::capture
