#pragma once

#include "core/fake/rule.h"

/// The tables behind the fallback; filled once by the families, read-only afterwards.
namespace stator::fake {

void count_tier(Tier tier);

/// What the tables say about an operator by name. Pointers live for ever; null where there is no row.
struct Rows {
  Rule own = nullptr;
  Rule meta = nullptr;
  const char* refused = nullptr;
  const struct Whole* whole = nullptr;
};
Rows find_rows(const c10::OperatorName& name);

/// Rows of whole.h, which outlive the process; null where there is none.
struct Whole;
void add_whole(const char* name, const Whole* whole);
const Whole* whole_row(const c10::OperatorHandle& op);

/// Calls every `register_<family>()` once.
void register_families();

}  // namespace stator::fake
