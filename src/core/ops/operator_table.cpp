#include "core/ops/operator_table.h"

#include <algorithm>
#include <array>
#include <string>

#include "core/ops/operator_cache.h"

namespace stator::ops {
namespace {

constexpr Row kUnsorted[] = {
#define STATOR_OPERATOR(name, traits, ...) {name, traits, false},
#define STATOR_ELEMENTWISE(name, traits, ...) {name, traits, true},
#include "core/ops/operators.def"
#undef STATOR_OPERATOR
#undef STATOR_ELEMENTWISE
};

constexpr auto kRows = [] {
  std::array<Row, std::size(kUnsorted)> sorted{};
  std::copy(std::begin(kUnsorted), std::end(kUnsorted), sorted.begin());
  std::sort(sorted.begin(), sorted.end(), [](const Row& a, const Row& b) { return a.name < b.name; });
  return sorted;
}();

constexpr bool has_duplicates() {
  return std::adjacent_find(kRows.begin(), kRows.end(), [](const Row& a, const Row& b) { return a.name == b.name; }) !=
         kRows.end();
}
static_assert(!has_duplicates(), "two rows of the operator table have one name");

constexpr std::string_view kNamespace = "aten::";

bool is_prefix_row(const Row& row) { return row.name.ends_with('*'); }

/// `__and__` is not an in-place form.
std::string_view without_underscore(std::string_view name) {
  if (name.ends_with('_') && !name.ends_with("__")) name.remove_suffix(1);
  return name;
}

std::string_view base_of_row(const Row& row) { return without_underscore(row.name.substr(0, row.name.find('.'))); }

const Row* first_row_from(std::string_view name) {
  return std::lower_bound(kRows.begin(), kRows.end(), name, [](const Row& row, auto from) { return row.name < from; });
}

const Row* find_row(std::string_view name) {
  const Row* found = first_row_from(name);
  return found != kRows.end() && found->name == name ? found : nullptr;
}

/// The shared traits that rows of an operator give to all its overloads.
uint16_t shared_traits(std::string_view base) {
  uint16_t traits = None;
  for (const Row* row = first_row_from(base); row != kRows.end() && row->name.starts_with(base); ++row) {
    if (!is_prefix_row(*row) && base_of_row(*row) == base) traits |= row->traits & kSharedTraits;
  }
  return traits;
}

Traits compute_traits(const c10::OperatorName& name) {
  const std::string_view base = base_name(name);
  if (base.empty()) return None;
  uint16_t traits = None;
  if (const Row* row = find_row(row_name(name)); row != nullptr && !row->is_elementwise) traits |= row->traits;
  const ElementwiseForm form = elementwise_form(name);
  if (form == ElementwiseForm::Functional || form == ElementwiseForm::InPlace) {
    if (const Row* row = find_row(base); row != nullptr && row->is_elementwise) traits |= row->traits;
  }
  traits |= shared_traits(base);
  for (const Row& row : kRows) {
    if (is_prefix_row(row) && base.starts_with(row.name.substr(0, row.name.size() - 1))) traits |= row.traits;
  }
  return Traits(traits);
}

struct CachedTraits {
  const c10::FunctionSchema* schema = nullptr;
  Traits traits = None;
};

auto& cache = *new OperatorCache<CachedTraits>;

}  // namespace

c10::ArrayRef<Row> rows() { return kRows; }

std::string_view base_name(const c10::OperatorName& name) {
  std::string_view base = name.name;
  if (!base.starts_with(kNamespace)) return {};
  base.remove_prefix(kNamespace.size());
  return without_underscore(base);
}

std::string row_name(const c10::OperatorName& name) {
  return name.name.starts_with(kNamespace) ? c10::toString(name).substr(kNamespace.size()) : std::string();
}

ElementwiseForm elementwise_form(const c10::OperatorName& name) {
  const auto is_one_of = [&](std::initializer_list<std::string_view> overloads) {
    return std::find(overloads.begin(), overloads.end(), name.overload_name) != overloads.end();
  };
  if (without_underscore(name.name).size() < name.name.size())
    return is_one_of({"", "Tensor", "Scalar", "decimals"}) ? ElementwiseForm::InPlace : ElementwiseForm::Other;
  if (is_one_of({"", "Tensor", "decimals"})) return ElementwiseForm::Functional;
  if (is_one_of({"out", "Tensor_out", "decimals_out", "grad_input"})) return ElementwiseForm::Out;
  return ElementwiseForm::Other;
}

Traits traits_of(const c10::OperatorHandle& op) {
  const CachedTraits* found = cache.find(op);
  if (found == nullptr) found = cache.insert({&op.schema(), compute_traits(op.operator_name())});
  return found->traits;
}

}  // namespace stator::ops
