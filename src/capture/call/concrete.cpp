#include "capture/call/concrete.h"

#include "capture/call/concrete_at.h"
#include "capture/pycompat/binary_ops.h"
#include "capture/pycompat/evaluation.h"

namespace stator::capture {
using pycompat::Instr;
using pycompat::Op;

namespace {

// ---- calls

Done call(At& at) {
  PyObject* names = at.instr.arg2 >= 0 ? PyTuple_GET_ITEM(at.code.consts, at.instr.arg2) : nullptr;
  size_t keywords = names ? PyTuple_GET_SIZE(names) : 0, count = static_cast<size_t>(at.instr.arg);
  RefRow<8> held(count + 2);
  for (size_t i = held.size(); i-- > 0;) held[i] = at.pop();
  if (pycompat::kCallableBeforeNull) std::swap(held[0], held[1]);
  // The stack has NULL and the callable, or an unbound method and its self; then the arguments.
  static_assert(sizeof(Ref) == sizeof(PyObject*));
  auto* row = reinterpret_cast<PyObject**>(held.data());
  bool has_self = row[0] != nullptr;
  PyObject* callee = has_self ? row[0] : row[1];
  PyObject** arguments = row + (has_self ? 1 : 2);
  size_t positional = count - keywords + has_self;
  return at.push_or_raise(
      PyObject_Vectorcall(callee, arguments, positional | (has_self ? 0 : PY_VECTORCALL_ARGUMENTS_OFFSET), names));
}

Done call_function_ex(At& at) {
  bool with_keywords = at.instr.arg & 1;
  Ref keywords = with_keywords ? at.pop() : Ref();
  Ref arguments = at.pop();
  Ref callee = at.pop();
  at.pop();
  if (keywords && !PyDict_CheckExact(keywords.get())) {
    Ref dict = Ref::steal(PyDict_New());
    if (!dict || stator_merge_keywords(callee.get(), dict.get(), keywords.get()) < 0) return Done::Raised;
    keywords = std::move(dict);
  }
  if (!PyTuple_CheckExact(arguments.get())) {
    if (!Py_TYPE(arguments.get())->tp_iter && !PySequence_Check(arguments.get())) {
      Ref name = Ref::steal(stator_callable_text(callee.get()));
      if (name)
        PyErr_Format(PyExc_TypeError, "%U argument after * must be an iterable, not %.200s", name.get(),
                     Py_TYPE(arguments.get())->tp_name);
      return Done::Raised;
    }
    arguments = Ref::steal(PySequence_Tuple(arguments.get()));
    if (!arguments) return Done::Raised;
  }
  return at.push_or_raise(PyObject_Call(callee.get(), arguments.get(), keywords.get()));
}

Done make_function(At& at) {
  Ref code = at.pop();
  Ref function = Ref::steal(PyFunction_New(code.get(), stator_frame_globals(at.frame)));
  if (!function) return Done::Raised;
  auto* made = function.as<PyFunctionObject>();
  PyObject** const fields[] = {&made->func_closure, &made->func_annotations, &made->func_kwdefaults,
                               &made->func_defaults};
  int bit = 8;
  for (PyObject** field : fields) {
    if (at.instr.arg & bit) Py_XSETREF(*field, at.pop().release());
    bit >>= 1;
  }
  at.push(std::move(function));
  return Done::Next;
}

// ---- control flow

Done jump_if(At& at, bool wanted) {
  Ref value = at.pop();
  int truth = PyObject_IsTrue(value.get());
  if (truth < 0) return Done::Raised;
  return (truth != 0) == wanted ? Done::Jump : Done::Next;
}
Done pop_jump_if_true(At& at) { return jump_if(at, true); }
Done pop_jump_if_false(At& at) { return jump_if(at, false); }

Done jump_or_pop(At& at, bool wanted) {
  int truth = PyObject_IsTrue(at.top());
  if (truth < 0) return Done::Raised;
  if ((truth != 0) == wanted) return Done::Jump;
  at.pop();
  return Done::Next;
}
Done jump_if_true_or_pop(At& at) { return jump_or_pop(at, true); }
Done jump_if_false_or_pop(At& at) { return jump_or_pop(at, false); }

Done pop_jump_if_none(At& at) { return at.pop().get() == Py_None ? Done::Jump : Done::Next; }
Done pop_jump_if_not_none(At& at) { return at.pop().get() == Py_None ? Done::Next : Done::Jump; }

Done jump(At&) { return Done::Jump; }
Done nothing(At&) { return Done::Next; }

Done get_iter(At& at) {
  Ref iterable = at.pop();
  return at.push_or_raise(PyObject_GetIter(iterable.get()));
}

Done for_iter(At& at) {
  PyObject* iterator = at.top();
  PyObject* item = Py_TYPE(iterator)->tp_iternext(iterator);
  if (item) return at.push_or_raise(item);
  if (PyErr_Occurred()) {
    if (!PyErr_ExceptionMatches(PyExc_StopIteration)) return Done::Raised;
    PyErr_Clear();
  }
  at.pop();
  return Done::Jump;
}

// ---- operators

Done binary_op(At& at) {
  const binaryfunc function = pycompat::binary_function(at.instr.arg);
  if (!function) return Done::Cannot;
  Ref b = at.pop(), a = at.pop();
  return at.push_or_raise(function(a.get(), b.get()));
}
Done binary_subscr(At& at) {
  Ref key = at.pop(), owner = at.pop();
  return at.push_or_raise(PyObject_GetItem(owner.get(), key.get()));
}
Done binary_slice(At& at) {
  Ref stop = at.pop(), start = at.pop(), owner = at.pop();
  Ref slice = Ref::steal(PySlice_New(start.get(), stop.get(), nullptr));
  return slice ? at.push_or_raise(PyObject_GetItem(owner.get(), slice.get())) : Done::Raised;
}
Done store_subscr(At& at) {
  Ref key = at.pop(), owner = at.pop(), value = at.pop();
  return status(PyObject_SetItem(owner.get(), key.get(), value.get()));
}
Done store_slice(At& at) {
  Ref stop = at.pop(), start = at.pop(), owner = at.pop(), value = at.pop();
  Ref slice = Ref::steal(PySlice_New(start.get(), stop.get(), nullptr));
  return slice ? status(PyObject_SetItem(owner.get(), slice.get(), value.get())) : Done::Raised;
}
Done delete_subscr(At& at) {
  Ref key = at.pop(), owner = at.pop();
  return status(PyObject_DelItem(owner.get(), key.get()));
}
Done compare_op(At& at) {
  Ref b = at.pop(), a = at.pop();
  Ref result = Ref::steal(PyObject_RichCompare(a.get(), b.get(), at.instr.arg));
  if (!result || !at.instr.arg2) return at.push_or_raise(result.release());
  int truth = PyObject_IsTrue(result.get());
  return truth < 0 ? Done::Raised : at.push_or_raise(PyBool_FromLong(truth));
}
Done is_op(At& at) {
  Ref b = at.pop(), a = at.pop();
  return at.push_or_raise(PyBool_FromLong((a.get() == b.get()) != (at.instr.arg == 1)));
}
Done contains_op(At& at) {
  Ref container = at.pop(), item = at.pop();
  int found = PySequence_Contains(container.get(), item.get());
  return found < 0 ? Done::Raised : at.push_or_raise(PyBool_FromLong((found != 0) != (at.instr.arg == 1)));
}
template <PyObject* (*kOperation)(PyObject*)>
Done unary(At& at) {
  Ref value = at.pop();
  return at.push_or_raise(kOperation(value.get()));
}
PyObject* invert_truth(PyObject* value) {
  int truth = PyObject_IsTrue(value);
  return truth < 0 ? nullptr : PyBool_FromLong(!truth);
}
PyObject* as_bool(PyObject* value) {
  int truth = PyObject_IsTrue(value);
  return truth < 0 ? nullptr : PyBool_FromLong(truth);
}

constexpr ConcreteRow kRows[] = {
    {Op::NOP, nothing},
    {Op::BINARY_OP, binary_op},
    {Op::BINARY_SUBSCR, binary_subscr},
    {Op::BINARY_SLICE, binary_slice},
    {Op::STORE_SUBSCR, store_subscr},
    {Op::STORE_SLICE, store_slice},
    {Op::DELETE_SUBSCR, delete_subscr},
    {Op::UNARY_POSITIVE, unary<PyNumber_Positive>},
    {Op::UNARY_NEGATIVE, unary<PyNumber_Negative>},
    {Op::UNARY_NOT, unary<invert_truth>},
    {Op::UNARY_INVERT, unary<PyNumber_Invert>},
    {Op::TO_BOOL, unary<as_bool>},
    {Op::COMPARE_OP, compare_op},
    {Op::IS_OP, is_op},
    {Op::CONTAINS_OP, contains_op},
    {Op::CALL, call},
    {Op::CALL_FUNCTION_EX, call_function_ex},
    {Op::MAKE_FUNCTION, make_function},
    {Op::JUMP, jump},
    {Op::POP_JUMP_IF_TRUE, pop_jump_if_true},
    {Op::POP_JUMP_IF_FALSE, pop_jump_if_false},
    {Op::POP_JUMP_IF_NONE, pop_jump_if_none},
    {Op::POP_JUMP_IF_NOT_NONE, pop_jump_if_not_none},
    {Op::JUMP_IF_TRUE_OR_POP, jump_if_true_or_pop},
    {Op::JUMP_IF_FALSE_OR_POP, jump_if_false_or_pop},
    {Op::GET_ITER, get_iter},
    {Op::FOR_ITER, for_iter},
};

struct Table {
  Execute by_op[static_cast<size_t>(Op::kCount)] = {};
  Table() {
    for (auto rows :
         {concrete_basic_rows(), concrete_variable_rows(), concrete_container_rows(), concrete_exception_rows()})
      for (const ConcreteRow& row : rows) by_op[static_cast<size_t>(row.op)] = row.execute;
  }
};

}  // namespace

std::span<const ConcreteRow> concrete_basic_rows() { return kRows; }

Done execute(PyThreadState* tstate, StatorFrame* frame, const pycompat::Code& code, const Instr& instr) {
  static const Table table;
  Execute found = table.by_op[static_cast<size_t>(instr.op)];
  if (!found) return Done::Cannot;
  pycompat::LinkedFrame linked(tstate, frame, instr.unit);
  At at{frame, code, instr};
  return found(at);
}

}  // namespace stator::capture
