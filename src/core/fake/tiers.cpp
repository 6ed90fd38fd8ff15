#include "core/fake/tiers.h"

#include <string>
#include <unordered_map>

#include "core/base/check.h"

namespace stator::fake {

#define STATOR_FAMILY(name) void register_##name();
#include "core/fake/families.def"
#undef STATOR_FAMILY

namespace {

std::unordered_map<std::string, Rows>& tables() {
  static auto* rows = new std::unordered_map<std::string, Rows>();
  return *rows;
}

void add_row(const char* name, Rule Rows::*member, Rule rule) {
  Rule& slot = tables()[name].*member;
  STATOR_CHECK(!slot || slot == rule, "two rules for ", name);
  slot = rule;
}

}  // namespace

void add_rules(c10::ArrayRef<RuleRow> rows) {
  for (const auto& row : rows) add_row(row.name, &Rows::own, row.rule);
}

void add_meta_rules(c10::ArrayRef<RuleRow> rows) {
  for (const auto& row : rows) add_row(row.name, &Rows::meta, row.rule);
}

void add_refused(c10::ArrayRef<RefusedRow> rows) {
  for (const auto& row : rows) tables()[row.name].refused = row.reason;
}

void add_whole(const char* name, const Whole* whole) { tables()[name].whole = whole; }

Rows find_rows(const c10::OperatorName& name) {
  const auto found = tables().find(c10::toString(name));
  return found == tables().end() ? Rows() : found->second;
}

void register_families() {
#define STATOR_FAMILY(name) register_##name();
#include "core/fake/families.def"
#undef STATOR_FAMILY
}

}  // namespace stator::fake
