#include "capture/interpreter/opcodes/handling.h"

#include "capture/interpreter/protocol/arguments.h"
#include "capture/interpreter/protocol/exceptions.h"
#include "capture/interpreter/protocol/special_methods.h"

namespace stator::capture {

using pycompat::Instr;

void on_before_with(Interpreter& in, Frame& f, const Instr&) {
  static PyObject* enter = PyUnicode_InternFromString("__enter__");
  static PyObject* exit = PyUnicode_InternFromString("__exit__");
  Value* manager = f.pop();
  Value* on_enter = type_method(in, manager, enter);
  Value* on_exit = type_method(in, manager, exit);
  f.push(on_exit);
  f.push(in.call(on_enter, {}, {.continuation = Continuation::Push}));
}
void on_with_except_start(Interpreter& in, Frame& f, const Instr&) {
  Value* exception = f.top();
  Value* on_exit = f.top(4);
  Value* type = in.constant(reinterpret_cast<PyObject*>(in.type_of(exception)));
  CallArgs args = arguments({type, exception, unseen_traceback(in)});
  f.push(in.call(on_exit, std::move(args), {.continuation = Continuation::Push}));
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
/// Raises an exception again. An external one would get entries in its traceback, so it is a break.
[[noreturn]] static void raise_again(Value* exception) {
  auto* object = as<ObjectValue>(exception);
  if (!object || object->object) throw Break{BreakId::raises, "an exception from outside is raised again"};
  throw Raise{exception};
}
void on_reraise(Interpreter&, Frame& f, const Instr&) { raise_again(f.pop()); }
void on_raise_varargs(Interpreter& in, Frame& f, const Instr& i) {
  if (i.arg == 0) {
    Value* handled = handled_exception(f);
    if (!handled && !visible_exception(in)) in.raise(PyExc_RuntimeError, "No active exception to reraise");
    raise_again(handled);
  }
  Value* cause = i.arg == 2 ? f.pop() : nullptr;
  Value* exception = f.pop();
  raise_exception(in, exception, cause);
}

}  // namespace stator::capture
