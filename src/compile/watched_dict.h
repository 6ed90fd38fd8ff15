#pragma once

#include <Python.h>

#include "capture/pycompat/facts.h"

namespace stator {

/// Owns a dict. `is_unchanged` compares the dict's version tag with the one that `remember` stored.
class WatchedDict {
 public:
  void watch(PyObject* dict) {
    Py_XSETREF(dict_, Py_XNewRef(dict));
    place_ = dict ? stator_dict_tag_place(dict) : nullptr;
    tag_ = 0;
  }
  PyObject* get() const { return dict_; }
  bool is_unchanged() const { return place_ && *place_ == tag_; }
  void remember() { tag_ = place_ ? *place_ : 0; }

 private:
  PyObject* dict_ = nullptr;
  const StatorWord* place_ = nullptr;
  StatorWord tag_ = 0;
};

}  // namespace stator
