#pragma once

#include <ATen/core/Tensor.h>
#include <ATen/core/ivalue.h>
#include <ATen/core/jit_type.h>

#include <string>
#include <vector>

#include "core/graph/graph.h"
#include "core/graph/scanner.h"

namespace stator::graph {

const c10::Type& without_optional(const c10::Type& type);
/// The element type of a list type, null for others.
c10::TypePtr list_element(const c10::Type& type);

/// Parses constants and descriptions of tensors, which do not depend on the graph.
class LiteralParser {
 public:
  /// Both must outlive the parser.
  LiteralParser(std::string_view text, const std::vector<at::Tensor>& tensors) : in_(text), tensors_(tensors) {}

 protected:
  /// Parses a constant for an argument of this type. The schema's `real_type()` tells an int from a dtype, layout or
  /// memory format, which are written by name.
  c10::IValue constant(const c10::Type& type, const c10::Type& real_type);
  /// Parses the rest of `dtype[sizes]{strides} flags`; the dtype has been read. For a constant, `number` is set if the
  /// flag `number` is there. For a value, `number` is null, and the flag `grad` may be there.
  TensorMeta meta(c10::ScalarType dtype, bool* number);
  c10::ScalarType dtype_named(const std::string& name);
  c10::ScalarType dtype();
  c10::Device device(const std::string& text);

  Scanner in_;

 private:
  c10::IValue scalar(const std::string& type_name = {});
  double floating(const std::string& text);
  c10::IValue constant_list(const c10::Type& type);
  c10::IValue device_literal();
  std::vector<Dim> dims(const char* open, const char* close);
  c10::IValue tensor();
  c10::IValue wrapped_number();
  at::Tensor make_tensor(const TensorMeta& meta, const std::vector<c10::IValue>& elements, bool number);

  const std::vector<at::Tensor>& tensors_;
  shapes::EnvPtr symbols_;  // of the sizes; made for the first one that is not a plain number
};

}  // namespace stator::graph
