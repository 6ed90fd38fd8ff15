#include "core/fake/shape_table.h"

#include <string>
#include <unordered_map>

#include "core/base/check.h"
#include "core/ops/operator_table.h"

namespace stator::fake {

#define STATOR_FAMILY(name) void register_##name();
#include "core/fake/families.def"
#undef STATOR_FAMILY

namespace {

std::unordered_map<std::string_view, const Shape*>& table = *new std::unordered_map<std::string_view, const Shape*>;

const Shape* find_row(std::string_view name) {
  const auto found = table.find(name);
  return found == table.end() ? nullptr : found->second;
}

bool is_elementwise(const Shape& shape) { return shape.in_place != nullptr; }

}  // namespace

void add_shapes(c10::ArrayRef<ShapeRow> rows) {
  for (const ShapeRow& row : rows) {
    const bool is_new = table.emplace(row.name, &row.shape).second;
    STATOR_CHECK(is_new, "two families have a row for ", row.name);
  }
}

void register_families() {
  table.reserve(ops::rows().size());
#define STATOR_FAMILY(name) register_##name();
#include "core/fake/families.def"
#undef STATOR_FAMILY
}

Shape find_shape(const c10::OperatorName& name) {
  const Shape* exact = find_row(ops::row_name(name));
  if (exact != nullptr && !is_elementwise(*exact)) return *exact;
  const Shape* row = find_row(ops::base_name(name));
  if (row == nullptr || !is_elementwise(*row)) return by_torch;
  switch (ops::elementwise_form(name)) {
    case ops::ElementwiseForm::Functional:
      return row->rule;
    case ops::ElementwiseForm::InPlace:
      return row->in_place;
    case ops::ElementwiseForm::Out:
      return row->out;
    case ops::ElementwiseForm::Other:
      break;
  }
  return by_torch;
}

std::vector<std::string_view> shape_names() {
  std::vector<std::string_view> names;
  for (const auto& [name, shape] : table) names.push_back(name);
  return names;
}

}  // namespace stator::fake
