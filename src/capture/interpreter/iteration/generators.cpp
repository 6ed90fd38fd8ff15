#include "capture/interpreter/iteration/generators.h"

#include "capture/interpreter/protocol/exceptions.h"
#include "capture/interpreter/protocol/special_methods.h"

namespace stator::capture {
using pycompat::Op;

Value* make_generator(Interpreter& in, std::unique_ptr<Frame> frame) {
  auto* generator = in.arena.make<GeneratorValue>();
  generator->frame = std::move(frame);
  in.lifetimes.generators.push_back(generator);
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
  frame->caller = in.frames.current();
  Value* value;
  try {
    value = in.run_frame(*frame);
  } catch (const Raise& raised) {
    running = false;
    finished = true;
    // From CPython 3.12 on the generator's own code does this.
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
  if (Value* inner = delegate(); inner && is_exception(in, exception, PyExc_GeneratorExit)) {
    if (Value* raised = close_inner(in)) exception = raised;
  } else if (inner) {
    auto* generator = dynamic_cast<GeneratorValue*>(inner);
    if (!generator) throw Break{BreakId::generator, "throw into an iterator that is not a generator"};
    try {
      running = true;
      Value* item = generator->raise_inside(in, exception);
      running = false;
      if (item) return item;
      // The inner generator returned: the `yield from` ends with its value.
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

Value* GeneratorValue::close_inner(Interpreter& in) {
  Value* inner = delegate();
  if (!inner) return nullptr;
  auto* generator = dynamic_cast<GeneratorValue*>(inner);
  // An iterator of a class of the program may have a `close` or `throw`.
  if (!generator && inner->kind != Kind::Iterator)
    throw Break{BreakId::generator, "a generator is closed that waits for an iterator of another class"};
  if (!generator) return nullptr;
  try {
    running = true;
    generator->close(in);
    running = false;
  } catch (const Raise& raised) {
    running = false;
    return raised.exception;
  }
  return nullptr;
}

void GeneratorValue::close(Interpreter& in) {
  if (running) in.raise(PyExc_ValueError, "generator already executing");
  if (!started) finished = true;
  if (finished) return;
  Value* raised = close_inner(in);
  auto* exit = make_exception(in, reinterpret_cast<PyTypeObject*>(PyExc_GeneratorExit), {});
  exit->raised = true;
  try {
    frame->thrown = raised ? raised : exit;
    if (resume(in)) in.raise(PyExc_RuntimeError, "generator ignored GeneratorExit");
  } catch (const Raise& raised) {
    if (!is_exception(in, raised.exception, PyExc_GeneratorExit)) throw;
  }
}

/// Whether the handlers that a GeneratorExit at this instruction reaches only raise it again: handlers of other
/// exceptions, and those that the compiler adds to delete a name.
static bool is_handed_on(const Frame& frame, int at, int level = 0) {
  const auto& instrs = frame.code->instrs;
  const pycompat::ExceptionEntry* handler = nullptr;
  for (const pycompat::ExceptionEntry& entry : frame.code->exceptions)
    if (entry.start <= at && at < entry.end) handler = &entry;
  if (!handler) return true;
  constexpr int kDeepest = 16;
  if (level > kDeepest) return false;
  std::vector<PyObject*> loaded;
  for (size_t i = static_cast<size_t>(handler->target); i < instrs.size(); ++i) {
    switch (instrs[i].op) {
      case Op::NOP:
      case Op::PUSH_EXC_INFO:
      case Op::POP_EXCEPT:
      case Op::POP_TOP:
      case Op::COPY:
      case Op::SWAP:
      case Op::LOAD_CONST:
      case Op::STORE_FAST:
      case Op::DELETE_FAST:
      case Op::BUILD_TUPLE:
        continue;
      case Op::CALL_INTRINSIC_1:  // renames StopIteration
      case Op::CLEANUP_THROW:
        return true;
      case Op::LOAD_GLOBAL: {
        PyObject* name = PyTuple_GET_ITEM(frame.code->names, instrs[i].arg);
        PyObject* found = PyDict_GetItemWithError(frame.globals, name);
        loaded.push_back(found ? found : PyDict_GetItemWithError(frame.builtins, name));
        continue;
      }
      case Op::CHECK_EXC_MATCH:
        for (PyObject* cls : loaded)
          if (!cls || !PyExceptionClass_Check(cls) || PyErr_GivenExceptionMatches(PyExc_GeneratorExit, cls))
            return false;
        if (loaded.empty() || instrs[i + 1].op != Op::POP_JUMP_IF_FALSE) return false;
        i = static_cast<size_t>(instrs[i + 1].target) - 1;
        loaded.clear();
        continue;
      case Op::RERAISE:
        return is_handed_on(frame, static_cast<int>(i), level + 1);
      default:
        return false;
    }
  }
  return false;
}

bool GeneratorValue::has_cleanup() const {
  if (!started || finished) return false;
  if (!is_handed_on(*frame, static_cast<int>(frame->pc) - 1)) return true;
  auto* inner = dynamic_cast<GeneratorValue*>(delegate());
  return inner && inner->has_cleanup();
}

void check_unfinished(Interpreter& in) {
  for (GeneratorValue* generator : in.lifetimes.generators)
    if (generator->has_cleanup()) throw Break{BreakId::generator, "a generator is dropped before its cleanup ran"};
}

/// The next item of an instance; null at its end. Breaks if its StopIteration has a value.
static Value* next_of_instance(Interpreter& in, Value* iterator) {
  static PyObject* const name = PyUnicode_InternFromString("__next__");
  static PyObject* const value = PyUnicode_InternFromString("value");
  in.effects.refuse_frozen(iterator);
  try {
    return in.call(type_method(in, iterator, name), {});
  } catch (const Raise& raised) {
    if (!is_exception(in, raised.exception, PyExc_StopIteration)) throw;
    if (!in.is_same(in.get_attr(raised.exception, value), in.none()))
      throw Break{BreakId::generator, "an iterator that ends with a value"};
    return nullptr;
  }
}

Value* send_to(Interpreter& in, Value* iterator, Value* sent) {
  if (auto* generator = dynamic_cast<GeneratorValue*>(iterator)) return generator->send(in, sent);
  if (in.is_same(sent, in.none()))
    return iterator->kind == Kind::Object ? next_of_instance(in, iterator) : in.next(iterator);
  throw Break{BreakId::opcode, "send of a value into an iterator that is not a generator"};
}

Value* result_of(Interpreter& in, Value* iterator) {
  auto* generator = dynamic_cast<GeneratorValue*>(iterator);
  return generator && generator->result ? generator->result : in.none();
}

void finish_send(Interpreter& in, Frame& f, int target) {
  Value* result = result_of(in, f.top());
  // If END_SEND is at the target, the iterator stays below the result; otherwise the result replaces it.
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
