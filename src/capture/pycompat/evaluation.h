#pragma once

/// Parts of CPython's evaluator that have no public API, or whose declaration differs between versions. C linkage, GIL
/// held; errors and messages are CPython's.

#define PY_SSIZE_T_CLEAN
#include <Python.h>

#ifdef __cplusplus
extern "C" {
#endif

/// Adds the items of `**more` to the keywords of a call of `callable`. A repeated name is an error.
int stator_merge_keywords(PyObject* callable, PyObject* keywords, PyObject* more);
/// The name of a callable as CPython writes it in messages about arguments. New reference.
PyObject* stator_callable_text(PyObject* callable);
/// Keeps the garbage collector from starting, until stator_allow_collection was called as often. Several threads may do
/// so at once. In the child of a fork only the calls of its own thread count.
void stator_forbid_collection(void);
void stator_allow_collection(void);
/// Makes CPython not recognise the main thread, so that signal handlers are deferred, also in Python code that the
/// thread runs. True if the calling thread is the main thread; it must then call stator_show_main_thread.
int stator_hide_main_thread(void);
void stator_show_main_thread(void);

#ifdef __cplusplus
}

namespace stator::capture {

/// Keeps the garbage collector, and so finalizers, from running. The program cannot observe this, unlike `gc.disable`.
class NoCollection {
 public:
  NoCollection() { stator_forbid_collection(); }
  ~NoCollection() { stator_allow_collection(); }
  NoCollection(const NoCollection&) = delete;
  NoCollection& operator=(const NoCollection&) = delete;
};

/// Defers signal handlers: C++ code that calls Python code internally would lose the exceptions that they raise.
class NoSignals {
 public:
  NoSignals() : hidden_(stator_hide_main_thread()) {}
  ~NoSignals() { show(); }
  NoSignals(const NoSignals&) = delete;
  /// Runs pending handlers now; returns what PyErr_CheckSignals does.
  int check() {
    show();
    int answer = PyErr_CheckSignals();
    hidden_ = stator_hide_main_thread();
    return answer;
  }

 private:
  void show() {
    if (hidden_) stator_show_main_thread();
  }
  int hidden_;
};

}  // namespace stator::capture
#endif
