#pragma once

#include <span>
#include <vector>

#include "capture/call/concrete.h"
#include "capture/pycompat/ref.h"

/// Shared by the files with concrete handlers: a frame at an instruction, and the tables of handlers.
namespace stator::capture {

struct At {
  StatorFrame* frame;
  const pycompat::Code& code;
  const pycompat::Instr& instr;

  Ref pop() { return Ref::steal(stator_frame_pop(frame)); }
  void push(Ref value) { stator_frame_push(frame, value.release()); }
  /// Stack value, 1 being the top. Borrowed.
  PyObject* top(int depth = 1) const { return stator_frame_stack(frame, stator_frame_stack_depth(frame) - depth); }
  PyObject* name() const { return PyTuple_GET_ITEM(code.names, instr.arg); }
  /// Pops `count` values; the deepest comes first.
  std::vector<Ref> pop_all(size_t count) {
    std::vector<Ref> held(count);
    for (size_t i = count; i-- > 0;) held[i] = pop();
    return held;
  }
  Done push_or_raise(PyObject* result) {
    if (!result) return Done::Raised;
    stator_frame_push(frame, result);
    return Done::Next;
  }
};

using Execute = Done (*)(At&);
struct ConcreteRow {
  pycompat::Op op;
  Execute execute;
};

inline Done status(int failed) { return failed < 0 ? Done::Raised : Done::Next; }

/// Calls, control flow, operators; the stack, variables and attributes; containers, strings and patterns; classes,
/// exceptions and `with`.
std::span<const ConcreteRow> concrete_basic_rows();
std::span<const ConcreteRow> concrete_variable_rows();
std::span<const ConcreteRow> concrete_container_rows();
std::span<const ConcreteRow> concrete_exception_rows();

}  // namespace stator::capture
