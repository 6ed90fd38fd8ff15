#include "core/graph/definition.h"

#include <algorithm>

#include "core/shapes/sym_node.h"

namespace stator::graph {

namespace {

/// By ValueType.
constexpr const char* kTypes[] = {"tensor", "int", "float", "bool", "list", "object"};

}  // namespace

const char* type_name(ValueType type) { return kTypes[static_cast<size_t>(type)]; }

std::optional<ValueType> find_type(std::string_view name) {
  const auto* found = std::find(std::begin(kTypes), std::end(kTypes), name);
  if (found == std::end(kTypes)) return std::nullopt;
  return static_cast<ValueType>(found - std::begin(kTypes));
}

Dim Dim::of(const c10::SymInt& size) {
  if (auto number = size.maybe_as_int()) return {*number, nullptr};
  return {0, shapes::expression_of(size)};
}

std::string Dim::text() const { return symbol ? shapes::to_python(symbol) : std::to_string(number); }

bool Dim::operator==(const Dim& other) const {
  if (!symbol || !other.symbol) return !symbol && !other.symbol && number == other.number;
  return shapes::same_structure(symbol, other.symbol);
}

TensorMeta TensorMeta::of(const at::Tensor& tensor) {
  TensorMeta meta;
  meta.dtype = tensor.scalar_type();
  meta.device = tensor.device();
  meta.requires_grad = tensor.requires_grad();
  for (const c10::SymInt& size : tensor.sym_sizes()) meta.sizes.push_back(Dim::of(size));
  if (tensor.layout() != at::kStrided) return meta;
  for (const c10::SymInt& stride : tensor.sym_strides()) meta.strides.push_back(Dim::of(stride));
  return meta;
}

bool TensorMeta::has_symbols() const {
  auto is_symbol = [](const Dim& dim) { return static_cast<bool>(dim.symbol); };
  return std::any_of(sizes.begin(), sizes.end(), is_symbol) || std::any_of(strides.begin(), strides.end(), is_symbol);
}

std::vector<Dim> row_major(const std::vector<Dim>& sizes) {
  std::vector<Dim> strides(sizes.size(), Dim{1, nullptr});
  for (size_t i = sizes.size(); i-- > 1;)
    strides[i - 1].number = strides[i].number * std::max<int64_t>(sizes[i].number, 1);
  return strides;
}

DefinitionId Definitions::add(uint32_t value, const at::Tensor& tensor) {
  if (tensor.unsafeGetTensorImpl()->has_symbolic_sizes_strides()) return add(value, TensorMeta::of(tensor));
  const auto sizes = tensor.sizes();
  const bool is_strided = tensor.layout() == at::kStrided;
  const auto strides = is_strided ? tensor.strides() : c10::IntArrayRef();
  rows_.push_back({value, static_cast<uint32_t>(dims_.size()), static_cast<uint16_t>(sizes.size()),
                   static_cast<uint16_t>(strides.size()), tensor.scalar_type(), tensor.device(),
                   tensor.requires_grad()});
  dims_.insert(dims_.end(), sizes.begin(), sizes.end());
  dims_.insert(dims_.end(), strides.begin(), strides.end());
  return static_cast<DefinitionId>(rows_.size() - 1);
}

DefinitionId Definitions::add(uint32_t value, const TensorMeta& meta) {
  rows_.push_back({value, static_cast<uint32_t>(dims_.size()), static_cast<uint16_t>(meta.sizes.size()),
                   static_cast<uint16_t>(meta.strides.size()), meta.dtype, meta.device, meta.requires_grad});
  for (const Dim& size : meta.sizes) add_dim(size);
  for (const Dim& stride : meta.strides) add_dim(stride);
  return static_cast<DefinitionId>(rows_.size() - 1);
}

void Definitions::add_dim(const Dim& dim) {
  if (dim.symbol) symbols_.emplace_back(static_cast<uint32_t>(dims_.size()), dim.symbol);
  dims_.push_back(dim.number);
}

bool Definitions::has_symbols(DefinitionId definition) const {
  return !symbols_.empty() && meta(definition).has_symbols();
}

TensorMeta Definitions::meta(DefinitionId definition) const {
  const Row& row = rows_.at(definition);
  TensorMeta meta{row.dtype, row.device, {}, {}, row.requires_grad};
  const uint32_t end = row.first_dim + row.num_sizes + row.num_strides;
  auto symbol = std::lower_bound(symbols_.begin(), symbols_.end(), row.first_dim,
                                 [](const auto& entry, uint32_t place) { return entry.first < place; });
  for (uint32_t i = row.first_dim; i < end; ++i) {
    Dim dim{dims_[i], nullptr};
    if (symbol != symbols_.end() && symbol->first == i) dim.symbol = (symbol++)->second;
    (i < row.first_dim + row.num_sizes ? meta.sizes : meta.strides).push_back(std::move(dim));
  }
  return meta;
}

}  // namespace stator::graph
