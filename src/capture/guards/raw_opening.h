#pragma once

#include <span>
#include <vector>

#include "capture/guards/check.h"
#include "capture/guards/tensor_expectation.h"

/// Calls whose form is known: laying out arguments, with a tuple for *args and a dict for **kwargs, is most of the work
/// for a small function. Where a call gives as many positional arguments and the same names in the same order as one
/// that was recorded, and the function and its defaults are the same, each argument goes to where that one's went.
namespace stator::capture {

/// A slot that the call itself fills. `index`: of the bound arguments or of a raw call's; -1: always `wanted`.
struct RootSlot {
  int32_t slot, index;
  PyObject* wanted;  // null: any object
};

/// Where each parameter of a plain function gets its value in a call that fits its signature.
class RawBinding {
 public:
  enum Origin : int32_t { kDefault = -1, kVarargs = -2, kVarkeywords = -3 };

  RawBinding(const RawCall& call, PyObject* function);
  /// Index into the call's arguments, or an `Origin`, for a bound argument.
  int32_t origin(int32_t bound) const { return origins_[bound]; }
  /// Where *args begins among the arguments.
  int32_t first_vararg() const { return parameters_; }
  bool uses_defaults() const { return uses_defaults_; }
  bool uses_keyword_defaults() const { return uses_keyword_defaults_; }

 private:
  std::vector<int32_t> origins_;
  int32_t parameters_ = 0;
  bool uses_defaults_ = false, uses_keyword_defaults_ = false;
};

/// How a pass begins with a raw call. Owns the names; tensors are compared before anything else is looked at, so that
/// entries for other shapes cost little.
class RawOpening {
 public:
  struct Recorded {
    std::span<const RootSlot> roots;  // of the bound arguments
    std::span<Check> rest;            // what stays a check; those that follow from the form of the call are marked
    std::span<const SlotInfo> info;
    PyObject* const* slots;
  };

  void clear();
  /// Leaves it closed if the tuple or dict that binding makes is needed itself.
  void record(const RawCall& call, const RawBinding& binding, Recorded recorded);
  void add_tensor(int32_t slot, const TensorExpectation& expectation) { tensors_.add(slot, expectation); }

  /// The names of the recorded call: a tuple, or null.
  PyObject* names() const { return names_.get(); }

  /// Fills the slots; false if the form is another, or a tensor is.
  bool begin(const RawCall& call, PyObject** slots) const;

 private:
  bool fits(const RawCall& call) const;
  /// The checks that look at the tuple of *args or the dict of **kwargs in `container`; false if it is needed itself.
  bool unpack(const RawCall& call, const RawBinding& binding, const RootSlot& container, Recorded recorded);

  bool open_ = false;
  size_t positional_ = 0;
  Ref names_;  // tuple or null
  std::vector<RootSlot> roots_;
  TensorRow tensors_;
};

}  // namespace stator::capture
