#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "core/base/export.h"
#include "core/shapes/expr.h"

namespace stator::graph {

/// What a value is when a graph runs. Numbers come and go as tensors without dimensions at the border of a graph.
enum class ValueType : uint8_t { Tensor, Integer, Float, Truth, List, Object };
/// As the text form writes it: `tensor`, `int`, `float`, `bool`, `list`, `object`.
STATOR_API const char* type_name(ValueType type);
std::optional<ValueType> find_type(std::string_view name);
inline bool holds_number(ValueType type) {
  return type == ValueType::Integer || type == ValueType::Float || type == ValueType::Truth;
}

/// A size or a stride: a plain integer, or an expression over symbols, which keeps its environment alive.
struct STATOR_API Dim {
  int64_t number = 0;
  shapes::Expr symbol;  // null: `number` is it

  static Dim of(const c10::SymInt& size);
  std::string text() const;
  bool operator==(const Dim& other) const;
};

/// What is known of a tensor besides its data.
struct STATOR_API TensorMeta {
  c10::ScalarType dtype = c10::ScalarType::Float;
  c10::Device device = c10::kCPU;
  std::vector<Dim> sizes;
  std::vector<Dim> strides;  // empty for other layouts than strided ones
  bool requires_grad = false;

  static TensorMeta of(const at::Tensor& tensor);
  bool has_symbols() const;
  bool operator==(const TensorMeta&) const = default;
};

/// The strides of a tensor without gaps, the last dimension first. `sizes` has no symbols.
STATOR_API std::vector<Dim> row_major(const std::vector<Dim>& sizes);

/// The point at which a value gets its contents: as an input, as the result of a node, or by a node that writes to it.
using DefinitionId = uint32_t;
inline constexpr DefinitionId kNoDefinition = UINT32_MAX;

/// The metadata of all definitions of a graph, packed: capturing an operator must not allocate for it.
class STATOR_API Definitions {
 public:
  DefinitionId add(uint32_t value, const at::Tensor& tensor);
  DefinitionId add(uint32_t value, const TensorMeta& meta);
  size_t size() const { return rows_.size(); }
  uint32_t value_of(DefinitionId definition) const { return rows_.at(definition).value; }
  TensorMeta meta(DefinitionId definition) const;
  bool has_symbols(DefinitionId definition) const;
  /// Calls `visit(expression)` for each symbolic size and stride of all definitions.
  template <class Visit>
  void for_each_symbolic(const Visit& visit) const {
    for (const auto& [place, expr] : symbols_) visit(expr);
  }
  /// Whether two definitions have equal metadata.
  bool same(DefinitionId a, DefinitionId b) const { return meta(a) == meta(b); }

 private:
  struct Row {
    uint32_t value;
    uint32_t first_dim;  // into dims_: sizes, then strides
    uint16_t num_sizes;
    uint16_t num_strides;
    c10::ScalarType dtype;
    c10::Device device;
    bool requires_grad;
  };
  void add_dim(const Dim& dim);

  std::vector<Row> rows_;
  std::vector<int64_t> dims_;
  std::vector<std::pair<uint32_t, shapes::Expr>> symbols_;  // by place in dims_, in order
};

}  // namespace stator::graph
