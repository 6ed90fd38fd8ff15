#include "compile/torch_compiler.h"

#include "capture/pycompat/evaluation.h"
#include "capture/pycompat/text.h"
#include "compile/options.h"
#include "compile/reports.h"

namespace stator {
using namespace capture;

namespace {

/// Stator's Python module for this; null if torch.compile is not imported.
PyObject* torch_side() {
  static PyObject* const torch_module = PyUnicode_InternFromString("torch._dynamo.config");
  static PyObject* side = nullptr;
  if (!PyDict_GetItemWithError(PyImport_GetModuleDict(), torch_module)) return nullptr;
  if (!side) side = PyImport_ImportModule("stator.torch_compiler");
  PyErr_Clear();
  return side;
}

int64_t limit(int64_t own, int64_t usual, int64_t of_torch) { return own == usual && of_torch >= 0 ? of_torch : own; }

}  // namespace

int64_t torch_setting(const char* name, int64_t otherwise) {
  NoSignals no_signals;
  LaterError kept;  // a Python error may be set
  kept.take();
  PyObject* side = torch_side();
  Ref value = side ? Ref::steal(PyObject_CallMethod(side, "setting", "s", name)) : Ref();
  int64_t number = value && PyLong_Check(value.get()) ? PyLong_AsLongLong(value.get()) : otherwise;
  PyErr_Clear();
  return number;
}

std::string torch_text(const char* module, const char* name) {
  NoSignals no_signals;
  LaterError kept;
  kept.take();
  PyObject* found = PyDict_GetItemString(PyImport_GetModuleDict(), module);
  const Ref value = found ? Ref::steal(PyObject_GetAttrString(found, name)) : Ref();
  PyErr_Clear();
  return text_of(value.get(), "");
}

TorchLimits torch_limits() {
  return {torch_setting("recompile_limit", -1), torch_setting("accumulated_recompile_limit", -1),
          torch_setting("fail_on_recompile_limit_hit", 0) != 0};
}

Limits::Limits(const CompileRequest& request, const TorchLimits& torch) {
  const Config &own = config(), usual;
  recompile = request.recompile_limit > 0 ? request.recompile_limit
                                          : limit(own.recompile_limit, usual.recompile_limit, torch.recompile);
  accumulated = limit(own.accumulated_recompile_limit, usual.accumulated_recompile_limit, torch.accumulated);
  is_error = request.fullgraph || own.fail_on_recompile_limit_hit || torch.is_error;
}

bool suppresses_errors() { return config().suppress_errors || torch_setting("suppress_errors", 0) != 0; }

CompileNotice::CompileNotice(const std::string& compile_id) {
  PyObject* side = torch_side();
  if (!side) return;
  block_ = Ref::steal(PyObject_CallMethod(side, "started", "s", compile_id.c_str()));
  ok_ = static_cast<bool>(block_);
}

bool CompileNotice::end(const Entry* entry) {
  if (!block_) return true;
  PyObject *type, *value, *trace;
  PyErr_Fetch(&type, &value, &trace);
  std::string broke = entry && entry->broke ? break_title(entry->broke->id) : "";
  Ref told = Ref::steal(PyObject_CallMethod(torch_side(), "ended", "OOns", block_.get(), entry ? Py_True : Py_False,
                                            static_cast<Py_ssize_t>(entry ? entry->ops : 0), broke.c_str()));
  if (type) {  // the capture's own error comes first
    PyErr_Clear();
    PyErr_Restore(type, value, trace);
    return true;
  }
  return static_cast<bool>(told);
}

}  // namespace stator
