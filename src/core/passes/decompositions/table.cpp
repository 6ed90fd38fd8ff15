#include "core/passes/decompositions/table.h"

#include <algorithm>
#include <string>
#include <unordered_map>
#include <vector>

#include "core/base/check.h"
#include "core/fake/composite.h"
#include "core/passes/decompose.h"
#include "core/passes/decompositions/topics.h"

namespace stator::passes {
namespace {

using Table = std::unordered_map<std::string, Decomposition>;

Table* make_table() {
  auto* made = new Table;
  for (const auto topic : kTopics)
    for (const DecompositionRow& row : topic()) {
      const bool is_new = made->emplace("aten::" + std::string(row.name), row.decomposition).second;
      STATOR_CHECK(is_new, "two decompositions of ", row.name);
    }
  return made;
}
const Table& kTable = *make_table();

/// A composite operator is made of what its kernel calls.
bool run_composite(const c10::OperatorHandle& op, torch::jit::Stack& stack) {
  fake::call_composite(op, &stack);
  return true;
}
constexpr Decomposition kComposite = run_composite;

}  // namespace

const Decomposition* find_decomposition(const c10::OperatorHandle& op) {
  auto found = kTable.find(c10::toString(op.operator_name()));
  if (found != kTable.end()) return &found->second;
  return op.hasKernelForDispatchKey(c10::DispatchKey::CompositeImplicitAutograd) ? &kComposite : nullptr;
}

std::vector<std::string> decomposition_names() {
  std::vector<std::string> names;
  for (const auto& row : kTable) names.push_back(row.first);
  std::sort(names.begin(), names.end());
  return names;
}

}  // namespace stator::passes
