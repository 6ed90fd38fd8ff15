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
};
Rows find_rows(const c10::OperatorName& name);

/// Calls every `register_<family>()` once.
void register_families();

}  // namespace stator::fake
