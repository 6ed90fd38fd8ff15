#include "core/ops/operator_table.h"

#include <gtest/gtest.h>
#include <torch/library.h>
#include <torch/version.h>

#include <algorithm>
#include <map>
#include <set>

#include "core/fake/fake_tensor.h"
#include "core/fake/shape_table.h"

namespace stator::ops {
namespace {

using fake::Tier;

std::vector<c10::OperatorHandle> aten_operators() {
  std::vector<c10::OperatorHandle> found;
  auto& dispatcher = c10::Dispatcher::singleton();
  for (const c10::OperatorName& name : dispatcher.getAllOpNames()) {
    const auto op = name.name.starts_with("aten::") ? dispatcher.findSchema(name) : std::nullopt;
    if (op) found.push_back(*op);
  }
  return found;
}

c10::OperatorHandle op(const std::string& row, const std::string& space = "aten::") {
  const size_t dot = row.find('.');
  return c10::Dispatcher::singleton().findSchemaOrThrow((space + row.substr(0, dot)).c_str(),
                                                        dot == std::string::npos ? "" : row.substr(dot + 1).c_str());
}

bool is_prefix(const Row& row) { return row.name.ends_with('*'); }

using OperatorsByRow = std::map<std::string_view, std::vector<c10::OperatorHandle>>;

/// The operators of the installed torch that each row is about.
OperatorsByRow find_operators() {
  OperatorsByRow found;
  std::map<std::string_view, const Row*> by_name;
  for (const Row& row : rows()) {
    found[row.name];
    by_name[row.name] = &row;
  }
  for (const auto& op : aten_operators()) {
    const c10::OperatorName& name = op.operator_name();
    const auto exact = by_name.find(row_name(name)), base = by_name.find(base_name(name));
    if (exact != by_name.end() && !exact->second->is_elementwise) found[exact->first].push_back(op);
    if (base != by_name.end() && base->second->is_elementwise && elementwise_form(name) != ElementwiseForm::Other)
      found[base->first].push_back(op);
    for (auto& [row, operators] : found) {
      if (row.ends_with('*') && base_name(name).starts_with(row.substr(0, row.size() - 1))) operators.push_back(op);
    }
  }
  return found;
}

const OperatorsByRow& operators_by_row() {
  static const OperatorsByRow found = find_operators();
  return found;
}

class OperatorTable : public ::testing::Test {
 protected:
  static void SetUpTestSuite() { ASSERT_EQ(fake::install(), ""); }
};

TEST_F(OperatorTable, NamesOperatorsOfTheInstalledTorch) {
  // The table is written for this release. In others, rows without an operator are ignored.
  if (TORCH_VERSION_MAJOR != 2 || TORCH_VERSION_MINOR != 13) GTEST_SKIP() << "torch " TORCH_VERSION;
  for (const auto& [row, operators] : operators_by_row()) EXPECT_FALSE(operators.empty()) << row;
}

TEST_F(OperatorTable, HasTheRowsOfAllFamilies) {
  const auto registered = fake::shape_names();
  const std::set<std::string_view> shapes(registered.begin(), registered.end());
  for (const Row& row : rows()) EXPECT_TRUE(shapes.contains(row.name)) << row.name << " is in no family of core/fake";
  EXPECT_EQ(shapes.size(), rows().size());
}

TEST_F(OperatorTable, UsesEveryRule) {
  for (const auto& [row, operators] : operators_by_row()) {
    const bool has_rule = std::any_of(operators.begin(), operators.end(), [](const auto& op) {
      return fake::find_shape(op.operator_name()).rule != nullptr;
    });
    const bool is_used = std::any_of(operators.begin(), operators.end(),
                                     [](const auto& op) { return fake::tier_of(op).tier == Tier::Own; });
    EXPECT_TRUE(!has_rule || is_used || row.ends_with('*')) << row;
  }
}

TEST_F(OperatorTable, ShapeFunctionsTakeSymbolicSizesUnlessNamed) {
  for (const auto& name : c10::Dispatcher::singleton().getAllOpNames()) {
    const auto op = c10::Dispatcher::singleton().findSchema(name);
    if (!op || !name.name.starts_with("aten::") || fake::tier_of(*op).tier == Tier::Refused) continue;
    EXPECT_NE(fake::takes_symbolic_sizes(*op), has_trait(*op, PlainSizes)) << name;
  }
}

TEST_F(OperatorTable, PrefixesGiveSharedTraitsOnly) {
  for (const Row& row : rows()) {
    if (!is_prefix(row)) continue;
    EXPECT_FALSE(row.is_elementwise) << row.name;
    EXPECT_EQ(row.traits & ~kSharedTraits, 0) << row.name;
    EXPECT_NE(row.traits, None) << row.name;
  }
}

TEST_F(OperatorTable, RowsOfOneOperatorAgreeOnSharedTraits) {
  for (const auto& [name, operators] : operators_by_row()) {
    const auto* row = std::find_if(rows().begin(), rows().end(), [&](const Row& r) { return r.name == name; });
    if (is_prefix(*row)) continue;
    for (const auto& op : operators) EXPECT_EQ(traits_of(op) & kSharedTraits, row->traits & kSharedTraits) << name;
  }
}

TEST_F(OperatorTable, TraitsDoNotContradictEachOther) {
  for (const Row& row : rows()) EXPECT_FALSE((row.traits & Fallible) && (row.traits & FallibleOnIntegers)) << row.name;
}

TEST_F(OperatorTable, SharesTraitsBetweenOverloads) {
  for (const char* name : {"gather", "gather.out", "index_add", "index_add_", "linalg_inv.out", "nll_loss2d"})
    EXPECT_TRUE(has_trait(op(name), Fallible)) << name;
  for (const char* name : {"div.Tensor", "div_.Tensor_mode", "divide.Scalar", "pow.Scalar_out", "remainder_.Tensor"})
    EXPECT_TRUE(has_trait(op(name), FallibleOnIntegers)) << name;
  for (const char* name : {"add.Scalar", "add_.Tensor", "_foreach_add_.Scalar", "clamp.Tensor_out"})
    EXPECT_TRUE(has_trait(op(name), TakesFittingNumbers)) << name;
  for (const char* name :
       {"add.Tensor", "sub_.Tensor", "div.Tensor_mode", "floor_divide.Scalar", "true_divide_.Tensor"})
    EXPECT_TRUE(has_trait(op(name), TakesNumbers)) << name;
  for (const char* name : {"addmm", "relu", "embedding_dense_backward", "_linalg_det", "gru.input"})
    EXPECT_EQ(traits_of(op(name)) & kSharedTraits, None) << name;
}

TEST_F(OperatorTable, KeepsOtherTraitsToTheOverload) {
  EXPECT_TRUE(has_trait(op("detach_"), ChangesAutograd));
  EXPECT_FALSE(has_trait(op("detach"), ChangesAutograd));
}

TEST_F(OperatorTable, KnowsTheFormsOfElementwiseOperators) {
  EXPECT_EQ(elementwise_form({"aten::__and__", "Tensor"}), ElementwiseForm::Functional);
  EXPECT_EQ(elementwise_form({"aten::add_", "Tensor"}), ElementwiseForm::InPlace);
}

TEST_F(OperatorTable, SaysNothingOfOtherNamespaces) {
  torch::Library library(torch::Library::DEF, "stator_table_test", std::nullopt, __FILE__, __LINE__);
  library.def("gather(Tensor self) -> Tensor");
  EXPECT_EQ(traits_of(op("gather", "stator_table_test::")), None);
}

TEST_F(OperatorTable, ForgetsDeregisteredOperators) {
  const auto tier_of_new = [](bool composite) {
    torch::Library library(torch::Library::DEF, "stator_cache_test", std::nullopt, __FILE__, __LINE__);
    library.def("same(Tensor self) -> Tensor");
    if (composite) library.impl("same", torch::CppFunction([](const at::Tensor& self) { return self; }));
    return fake::tier_of(op("same", "stator_cache_test::")).tier;
  };
  // A schema may be freed and the next one allocated at its address.
  for (int i = 0; i < 50; ++i) {
    EXPECT_EQ(tier_of_new(true), Tier::Composite);
    EXPECT_EQ(tier_of_new(false), Tier::Python);
  }
}

}  // namespace
}  // namespace stator::ops
