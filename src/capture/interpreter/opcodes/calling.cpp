#include "capture/interpreter/opcodes/calling.h"

#include "capture/interpreter/iteration/generators.h"
#include "capture/interpreter/iteration/iterators.h"
#include "capture/interpreter/opcodes/operands.h"
#include "capture/interpreter/protocol/exceptions.h"
#include "capture/interpreter/protocol/iteration.h"
#include "capture/interpreter/protocol/mappings.h"
#include "capture/pycompat/evaluation.h"
#include "capture/pycompat/text.h"

namespace stator::capture {

using pycompat::Instr;

void on_call(Interpreter& in, Frame& f, const Instr& i) {
  CallArgs args;
  PyObject* names = i.arg2 >= 0 ? PyTuple_GET_ITEM(f.code->consts, i.arg2) : nullptr;
  const size_t keywords = names ? PyTuple_GET_SIZE(names) : 0, count = static_cast<size_t>(i.arg);
  // The stack: a method and its self, or NULL and the callee; then the arguments, those by keyword last.
  const size_t first = f.stack.size() - count;
  args.keywords.reserve(keywords);
  for (size_t k = 0; k < keywords; ++k)
    args.keywords.emplace_back(Ref::borrow(PyTuple_GET_ITEM(names, k)), f.top(keywords - k));
  // Room for the self of a bound method as well.
  args.positional.reserve(count - keywords + 2);
  const bool is_method = !is_null(f.stack[first - 2]);
  if (is_method) args.positional.push_back(f.read(f.stack[first - 1]));
  for (size_t k = first; k < first + count - keywords; ++k) args.positional.push_back(f.read(f.stack[k]));
  Value* callee = f.read(f.stack[is_method ? first - 2 : first - 1]);
  f.stack.resize(first - 2);
  f.push(in.call(callee, std::move(args), {.continuation = Continuation::Push}));
}
/// `f(*value)` of a value that cannot be iterated. The message names the function.
[[noreturn]] static void raise_not_spread(Interpreter& in, Value* callee, Value* spread) {
  auto* function = as<FunctionValue>(callee);
  PyObject* object = function                         ? function->function.get()
                     : callee->kind == Kind::Constant ? in.constant_of(callee)
                                                      : nullptr;
  Ref name = object ? Ref::steal(stator_callable_text(object)) : Ref();
  PyErr_Clear();
  if (!name) throw Break{BreakId::raises, "* of what cannot be iterated"};
  in.raise(PyExc_TypeError,
           exact_text_of(name.get()) + " argument after * must be an iterable, not " + in.type_of(spread)->tp_name);
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
  Value* spread = f.pop();
  if (!is_iterable(in, spread)) raise_not_spread(in, f.top(), spread);
  args.positional = unpack_hinted(in, spread);
  Value* callee = f.pop();
  f.pop();  // NULL
  f.push(in.call(callee, std::move(args), {.continuation = Continuation::Push}));
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

}  // namespace stator::capture
