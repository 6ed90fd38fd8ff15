#pragma once

#include <span>
#include <vector>

#include "capture/guards/check.h"
#include "capture/guards/tensor_expectation.h"

/// Word passes for calls whose arguments are not bound yet. Binding arguments to parameters, with a tuple for *args and
/// a dict for **kwargs, is most of the work of calling a small function. The *shape* of a call is its number of
/// positional arguments and its keyword names in order. If a call has the same shape as a recorded one, and the
/// function and its defaults are the same, each argument goes into the same slot: no binding is needed.
namespace stator::capture {

/// A slot that holds an argument. `index`: into the bound arguments, or into those of a raw call; -1: always `wanted`.
struct RootSlot {
  int32_t slot, index;
  PyObject* wanted;     // null: any object
  bool is_row = false;  // `wanted` belongs to the row only: the guards allow other objects (word_rows.h)
};

/// Where each parameter gets its value from in a call that fits the signature.
class RawBinding {
 public:
  enum Origin : int32_t { kDefault = -1, kVarargs = -2, kVarkeywords = -3 };

  RawBinding(const RawCall& call, PyObject* function);
  /// For a bound argument: its index among the call's arguments, or an `Origin`.
  int32_t origin(int32_t bound) const { return origins_[bound]; }
  /// Index of the first of the call's arguments that goes into *args.
  int32_t first_vararg() const { return parameters_; }
  bool uses_defaults() const { return uses_defaults_; }
  bool uses_keyword_defaults() const { return uses_keyword_defaults_; }

 private:
  std::vector<int32_t> origins_;
  int32_t parameters_ = 0;
  bool uses_defaults_ = false, uses_keyword_defaults_ = false;
};

/// The beginning of a word pass for a raw call: compares the shape of the call, fills the argument slots, and compares
/// the tensors among the arguments, so that entries for other tensor sizes are rejected early.
class RawOpening {
 public:
  struct Recorded {
    std::span<const RootSlot> roots;  // with indices into the bound arguments
    std::span<Check> rest;            // checks without words; `bound_only` is set for those that the shape implies
    std::span<const SlotInfo> info;   // by slot
    PyObject* const* slots;           // the objects that the full pass saw
  };

  void clear();
  /// Does nothing if the *args tuple or the **kwargs dict itself is needed.
  void record(const RawCall& call, const RawBinding& binding, Recorded recorded);
  void add_tensor(int32_t slot, const TensorExpectation& expectation) { tensors_.add(slot, expectation); }

  /// The keyword names of the recorded call: a tuple, or null.
  PyObject* names() const { return names_.get(); }

  /// Fills the argument slots; false if the shape of the call, or a tensor, is another.
  bool begin(const RawCall& call, PyObject** slots) const;

 private:
  bool fits(const RawCall& call) const;
  /// Redirects the loads of items of the *args tuple or **kwargs dict to the call's arguments, and marks the checks of
  /// the container itself; false if the container is needed.
  bool unpack(const RawCall& call, const RawBinding& binding, const RootSlot& container, Recorded recorded);

  bool open_ = false;
  size_t positional_ = 0;
  Ref names_;  // tuple or null
  std::vector<RootSlot> roots_;
  TensorRow tensors_;
};

}  // namespace stator::capture
