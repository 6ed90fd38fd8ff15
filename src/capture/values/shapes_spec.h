#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <unordered_map>
#include <unordered_set>

#include "capture/values/source.h"

namespace stator::capture {

/// Which sizes and ints of the arguments the user stated to vary, by `compile(shapes_spec=...)`. All others are
/// constants. What the spec states of them is known to a Python object (python/stator/shapes_spec.py).
class ShapesSpec {
 public:
  /// `spec`: that object. Null with a Python error set.
  static std::shared_ptr<const ShapesSpec> of(PyObject* spec, PyObject* code);

  PyObject* object() const { return object_.get(); }
  /// Whether it describes the arguments of this code.
  bool is_for(PyObject* code) const { return code == code_.get(); }
  /// Whether it describes the tensor at the source.
  bool has_tensor(const Source& source) const;
  /// The dimensions that vary, a bit for each, of the tensor at the source, which has `dims` dimensions.
  uint64_t dimensions(const Source& source, int64_t dims) const;
  /// Whether the int at the source varies.
  bool has_varying_int(const Source& source) const;
  /// Whether it states the value of the int at the source.
  bool has_constant_int(const Source& source) const;

 private:
  struct Tensor {
    int64_t dims;
    uint64_t varying;
  };

  Ref object_, code_;
  std::unordered_map<std::string, Tensor> tensors_;  // by `Source::describe`, like the ints
  std::unordered_set<std::string> ints_, constants_;
};

}  // namespace stator::capture
