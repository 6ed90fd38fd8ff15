#pragma once

#include <unordered_set>
#include <vector>

#include "capture/pycompat/ref.h"
#include "core/base/pointer_map.h"

namespace stator::capture {

/// Marks that users gave to callables before this capture, through torch's functions
/// (`torch._dynamo.disallow_in_graph`) or ours.
class Marks {
 public:
  Marks();

  /// It only calls operators, and may be called on fakes directly.
  bool is_allowed(PyObject* callable) const {
    asked_.insert(callable);
    return contains(allowed_, callable);
  }
  /// It must not be captured: each call is a break.
  bool is_disallowed(PyObject* callable) const;
  /// The callable to capture in its place; null: none.
  Ref substitute_of(PyObject* callable) const;
  /// A callable without mark, substitute or wrapper of torch.compile, which calls need not ask about again.
  bool is_unmarked(PyObject* callable) const { return unmarked_.find(callable) != nullptr; }
  void note_unmarked(PyObject* callable) const { unmarked_.insert(callable, true); }
  /// The callables that the capture asked about.
  const std::unordered_set<const void*>& asked() const { return asked_; }

 private:
  using Sets = std::vector<Ref>;  // sets of addresses; none is empty
  static bool contains(const Sets& sets, PyObject* callable);

  Sets allowed_, disallowed_;
  Ref own_substitutes_, torch_substitutes_;
  mutable std::unordered_set<const void*> asked_;
  mutable PointerMap<bool> unmarked_;
};

}  // namespace stator::capture
