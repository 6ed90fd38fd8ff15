#pragma once

/// Parts of CPython's evaluator that have no public function, or one whose home differs between versions. C linkage,
/// GIL held; errors and messages are CPython's.

#define PY_SSIZE_T_CLEAN
#include <Python.h>

#ifdef __cplusplus
extern "C" {
#endif

/// Adds what `**more` gives to the keywords of a call of `callable`; a name that is there twice is an error.
int stator_merge_keywords(PyObject* callable, PyObject* keywords, PyObject* more);
/// A callable as messages about its arguments name it. New reference.
PyObject* stator_callable_text(PyObject* callable);
/// Whether the garbage collector counts as running, in which case it does not start; returns what it was.
int stator_set_collecting(int collecting);
/// While the main thread does not count as such, handlers of signals wait, also in Python code that it runs. True if
/// this is the main thread, which then must be given its place back.
int stator_hide_main_thread(void);
void stator_show_main_thread(void);

#ifdef __cplusplus
}

namespace stator::capture {

/// Keeps the collector, and with it finalizers, from running; unlike `gc.disable` the program cannot see it.
class NoCollection {
 public:
  NoCollection() : before_(stator_set_collecting(1)) {}
  ~NoCollection() { stator_set_collecting(before_); }
  NoCollection(const NoCollection&) = delete;

 private:
  int before_;
};

/// Keeps the handlers of signals waiting, since whoever calls Python code for itself would lose what they raise.
class NoSignals {
 public:
  NoSignals() : hidden_(stator_hide_main_thread()) {}
  ~NoSignals() { show(); }
  NoSignals(const NoSignals&) = delete;
  /// Lets them run now: as PyErr_CheckSignals.
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
