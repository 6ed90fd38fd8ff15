#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include "capture/pycompat/ref.h"
#include "core/shapes/input_layout.h"

namespace stator::capture {

/// What a captured graph assumes about one input tensor: class, dispatch keys, dtype, device, sizes, strides,
/// requires_grad. All of it is compared in each call, since `p.data = ...` and `module.double()` change it in place.
class TensorExpectation {
 public:
  virtual ~TensorExpectation() = default;
  /// Takes any object. Runs no code of the program.
  virtual bool matches(PyObject* object) const = 0;
  /// What differs, e.g. `dtype: expected float32, saw float64`.
  virtual std::string mismatch(PyObject* object) const = 0;
  virtual std::string describe() const = 0;
  /// If the object matches but for sizes and strides: the dimensions whose size differs, a bit for each. 0 otherwise.
  virtual uint64_t other_sizes(PyObject* object) const = 0;
  /// The same for strides that are not 0, 1 or products of sizes and strides. `symbolic`: the sizes that are symbols.
  virtual uint64_t other_strides(PyObject* object, uint64_t symbolic) const = 0;

  /// Whether nothing else than sizes and strides may differ.
  virtual bool differs_in_layout_only(PyObject* object) const = 0;

  /// The size of a dimension, unless it is symbolic.
  virtual int64_t size(int64_t dim) const = 0;
  /// The stride of a dimension; -1 if it is symbolic.
  virtual int64_t stride(int64_t dim) const = 0;
  /// Whether a torch.nn.Parameter is expected.
  virtual bool is_parameter() const = 0;

  /// `layout`: the sizes and strides that are symbols, which this check does not compare. Empty vectors: all are
  /// compared.
  static std::shared_ptr<const TensorExpectation> of(PyObject* tensor, const shapes::InputLayout& layout = {});
};

/// See shapes::layout_of. Without symbolic dimensions and open strides its vectors are empty.
shapes::InputLayout layout_of(PyObject* tensor, uint64_t symbolic, uint64_t open = 0);
int64_t size_of(PyObject* tensor, int64_t dim);
int64_t stride_of(PyObject* tensor, int64_t dim);
int64_t dim_of(PyObject* tensor);

/// Whether the tensor is a leaf of autograd's graph.
bool is_leaf_tensor(PyObject* tensor);
/// Whether autograd tracks it as a view of another tensor.
bool is_view_tensor(PyObject* tensor);
/// The only element of an int64, int32 or bool tensor in CPU memory; empty for any other tensor.
std::optional<int64_t> int_item(PyObject* tensor);
/// The elements of a one-dimensional int64 or int32 tensor in CPU memory, as a tuple of ints; null for any other tensor
/// and for more than 64 elements.
Ref int_items(PyObject* tensor);
/// Its storage offset in elements; -1 for an object that is not a tensor.
int64_t storage_offset_of(PyObject* tensor);
/// Where a tensor, or a NumPy array, keeps its data: the bytes of its storage, and the address of its first element.
/// `owner` is what it shares that memory by: the storage, or the array itself. Zeros where there is no memory.
struct MemoryRange {
  uintptr_t begin = 0, end = 0, data = 0;
  const void* owner = nullptr;
};
MemoryRange memory_of(PyObject* object);
/// The tensor's .grad, borrowed; null if it is None.
PyObject* gradient_of(PyObject* tensor);

/// Expectations of several slots, packed in contiguous memory for the word pass. Copies: owns no Python object.
class TensorRow {
 public:
  TensorRow();
  ~TensorRow();
  void clear();
  void add(int32_t slot, const TensorExpectation& expectation);
  /// Whether the objects in those slots match. Any objects may be given.
  bool matches(PyObject* const* slots) const;

 private:
  struct Packed;
  std::unique_ptr<Packed> packed_;
};

}  // namespace stator::capture
