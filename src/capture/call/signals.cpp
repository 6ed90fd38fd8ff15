#include "capture/call/signals.h"

#include <csignal>
#include <vector>

#include "capture/pycompat/ref.h"

namespace stator::capture {
namespace {

/// The code objects of the signal handlers that are written in Python.
std::vector<PyObject*> handler_codes() {
  std::vector<PyObject*> codes;
  Ref module = Ref::steal(PyImport_ImportModule("_signal"));
  Ref ask = module ? Ref::steal(PyObject_GetAttrString(module.get(), "getsignal")) : Ref();
  for (int number = 1; ask && number < NSIG; ++number) {
    Ref index = Ref::steal(PyLong_FromLong(number));
    Ref handler = Ref::steal(PyObject_CallOneArg(ask.get(), index.get()));
    PyObject* function =
        handler && PyMethod_Check(handler.get()) ? PyMethod_GET_FUNCTION(handler.get()) : handler.get();
    if (function && PyFunction_Check(function)) codes.push_back(PyFunction_GET_CODE(function));
  }
  PyErr_Clear();
  return codes;
}

bool passes_through(PyObject* trace, const std::vector<PyObject*>& codes) {
  for (auto* entry = reinterpret_cast<PyTracebackObject*>(trace); entry; entry = entry->tb_next) {
    Ref code = Ref::steal(reinterpret_cast<PyObject*>(PyFrame_GetCode(entry->tb_frame)));
    for (PyObject* known : codes)
      if (known == code.get()) return true;
  }
  return false;
}

}  // namespace

bool is_raised_by_signal() {
  if (PyErr_ExceptionMatches(PyExc_KeyboardInterrupt)) return true;
  PyObject *type, *value, *trace;
  PyErr_Fetch(&type, &value, &trace);
  bool answer = trace && PyTraceBack_Check(trace) && passes_through(trace, handler_codes());
  PyErr_Restore(type, value, trace);
  return answer;
}

}  // namespace stator::capture
