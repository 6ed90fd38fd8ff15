#include "compile/debug_folder.h"

#include "capture/pycompat/evaluation.h"
#include "capture/pycompat/text.h"
#include "compile/options.h"
#include "compile/reports.h"

namespace stator {
namespace {

Ref& opener() {
  static Ref* made = new Ref;
  return *made;
}

}  // namespace

void set_debug_folder(Ref fresh) { opener() = std::move(fresh); }

DebugFolder::DebugFolder(PyCodeObject* code, const std::string& id, const std::string& reason) {
  if (config().debug_dir.empty() || !opener()) return;
  capture::NoSignals no_signals;
  folder_ =
      Ref::steal(PyObject_CallFunction(opener().get(), "OsOOis", exact_str(config().debug_dir).get(), id.c_str(),
                                       code->co_qualname, code->co_filename, code->co_firstlineno, reason.c_str()));
  if (!folder_) PyErr_WriteUnraisable(opener().get());
  if (folder_.get() == Py_None) folder_ = Ref();
}

void DebugFolder::close() {
  Ref folder = std::move(folder_);
  if (!folder) return;
  capture::NoSignals no_signals;
  static PyObject* const close = PyUnicode_InternFromString("close");
  PyObject *type, *value, *trace;
  PyErr_Fetch(&type, &value, &trace);
  PyErr_NormalizeException(&type, &value, &trace);
  Ref closed = Ref::steal(PyObject_CallMethodOneArg(folder.get(), close, value ? value : Py_None));
  if (!closed) PyErr_WriteUnraisable(folder.get());
  PyErr_Restore(type, value, trace);
}

void DebugFolder::write(PyCodeObject* code, const capture::Entry& entry, const std::string& reason) {
  if (!folder_) return;
  capture::NoSignals no_signals;
  static PyObject* const write = PyUnicode_InternFromString("write");
  Ref record = describe_capture(code, entry, reason);
  Ref written = Ref::steal(PyObject_CallMethodOneArg(folder_.get(), write, record.get()));
  if (!written) PyErr_WriteUnraisable(folder_.get());
}

}  // namespace stator
