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

}  // namespace stator::capture
#endif
