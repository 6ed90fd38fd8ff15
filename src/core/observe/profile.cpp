#include "core/observe/profile.h"

#include <ATen/record_function.h>

namespace stator::observe {

struct ProfiledRange::Range {
  std::string name;  // outlives the record, which only refers to it
  at::RecordFunction record{at::RecordScope::USER_SCOPE};
};

// What every operator asks, too: a look at the thread's own list.
bool ProfiledRange::is_recorded() { return at::getStepCallbacksUnlessEmpty(at::RecordScope::USER_SCOPE).has_value(); }

void ProfiledRange::open(std::string name) {
  range_ = new Range{std::move(name)};
  if (range_->record.isActive()) range_->record.before(range_->name.c_str());
}

void ProfiledRange::close() { delete range_; }

}  // namespace stator::observe
