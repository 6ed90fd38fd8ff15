#pragma once

#include <memory>
#include <optional>
#include <string>

#include "capture/pycompat/ref.h"

namespace stator::capture {

/// What a captured graph assumes of one input tensor: class, dispatch keys, dtype, device, sizes, strides,
/// requires_grad. Metadata only, since `p.data = ...` and `module.double()` keep the TensorImpl.
class TensorExpectation {
 public:
  virtual ~TensorExpectation() = default;
  /// No user code runs; any object may be given.
  virtual bool matches(PyObject* object) const = 0;
  /// What differs, e.g. `dtype: expected float32, saw float64`.
  virtual std::string mismatch(PyObject* object) const = 0;
  virtual std::string describe() const = 0;

  static std::shared_ptr<const TensorExpectation> of(PyObject* tensor);
};

/// Whether the tensor is a leaf of autograd's graph.
bool is_leaf_tensor(PyObject* tensor);
/// Whether autograd knows it as a view of another tensor.
bool is_view_tensor(PyObject* tensor);
/// The one element of a tensor of integers or truths in the CPU's memory; empty for any other.
std::optional<int64_t> whole_item(PyObject* tensor);
/// Where it begins in its storage, in elements.
int64_t storage_offset_of(PyObject* tensor);
/// The tensor's gradient, borrowed from it; null if it has none.
PyObject* gradient_of(PyObject* tensor);

/// Expectations of many tensors side by side in memory: what a fast pass compares. Holds copies, no references.
class TensorRow {
 public:
  TensorRow();
  ~TensorRow();
  void clear();
  void add(int32_t slot, const TensorExpectation& expectation);
  /// Whether the objects in those slots (any objects) are as expected.
  bool matches(PyObject* const* slots) const;

 private:
  struct Packed;
  std::unique_ptr<Packed> packed_;
};

}  // namespace stator::capture
