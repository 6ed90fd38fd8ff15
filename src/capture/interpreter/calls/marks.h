#pragma once

#include <vector>

#include "capture/pycompat/ref.h"

namespace stator::capture {

/// What users said of callables before this capture, by torch's names (`torch._dynamo.disallow_in_graph`) or by ours.
class Marks {
 public:
  Marks();

  /// It only calls operators, and may be called on fakes as it is.
  bool is_allowed(PyObject* callable) const { return contains(allowed_, callable); }
  /// It is not to be captured: each call is a break.
  bool is_disallowed(PyObject* callable) const;
  /// What is captured in place of it; null: itself.
  Ref substitute_of(PyObject* callable) const;

 private:
  using Sets = std::vector<Ref>;  // of addresses; none is empty
  static bool contains(const Sets& sets, PyObject* callable);

  Sets allowed_, disallowed_;
  Ref own_substitutes_, torch_substitutes_;
};

}  // namespace stator::capture
