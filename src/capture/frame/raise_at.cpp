// Exceptions in a frame that is resumed: they reach the program's own handler, or end the frame.
#include "capture/frame/resumption.h"

namespace stator::capture {
namespace {

using pycompat::Code;
using pycompat::ExceptionEntry;
using pycompat::Instr;

/// The innermost handler for what the instruction raises, or null.
const ExceptionEntry* handler_of(const Code& code, const Instr& instr) {
  const ExceptionEntry* handler = nullptr;
  int index = static_cast<int>(&instr - code.instrs.data());
  for (const ExceptionEntry& entry : code.exceptions)
    if (entry.start <= index && index < entry.end) handler = &entry;
  return handler;
}

/// Drops the newest entry of the traceback of the error that is set.
void drop_newest_entry() {
  PyObject *type, *value, *trace;
  PyErr_Fetch(&type, &value, &trace);
  if (trace)
    Py_SETREF(trace, Py_XNewRef(reinterpret_cast<PyObject*>(reinterpret_cast<PyTracebackObject*>(trace)->tb_next)));
  PyErr_Restore(type, value, trace);
}

}  // namespace

void Resumption::raise_at(const Instr& instr, int unit, bool is_again) {
  runs_plain_ = runs_plain_ || compiler_.handlers_run_plain();
  const ExceptionEntry* handler = handler_of(code_, instr);
  if (!handler) {
    PyObject* result = stator_frame_throw(tstate_, frame_, instr.unit);
    if (is_again && !result) drop_newest_entry();
    return end(result);
  }
  PyObject *type, *value, *trace;
  {
    // C code may have set the error by its class alone. Making the instance may run code, which sees this frame.
    pycompat::LinkedFrame linked(tstate_, frame_, instr.unit);
    PyFrameObject* object = is_again ? nullptr : PyEval_GetFrame();
    if (object) PyTraceBack_Here(object);
    PyErr_Fetch(&type, &value, &trace);
    PyErr_NormalizeException(&type, &value, &trace);
  }
  if (trace) PyException_SetTraceback(value, trace);
  Py_XDECREF(type);
  Py_XDECREF(trace);
  Ref exception = Ref::steal(value);
  while (stator_frame_stack_depth(frame_) > handler->depth) Ref::steal(stator_frame_pop(frame_));
  if (handler->lasti) stator_frame_push(frame_, PyLong_FromLong(unit));
  stator_frame_push(frame_, exception.release());
  stator_frame_set_offset(frame_, code_.instrs[handler->target].offset);
}

int Resumption::raised_by(const Instr& instr) const {
  if (instr.op != pycompat::Op::RERAISE || instr.arg == 0) return instr.unit;
  int depth = stator_frame_stack_depth(frame_) - instr.arg - 1;
  return depth < 0 ? instr.unit : static_cast<int>(PyLong_AsLong(stator_frame_stack(frame_, depth)));
}

}  // namespace stator::capture
