#include "core/observe/profile.h"

#include <ATen/record_function.h>

#include "core/observe/recording.h"

namespace stator::observe {

struct ProfiledRange::Range {
  std::string name;  // declared first: the record keeps a pointer to it
  at::RecordFunction record{at::RecordScope::USER_SCOPE};
};

// As cheap as the check that every operator call makes: reads a list of the thread.
bool ProfiledRange::is_recorded() {
  return kIsRecording && at::getStepCallbacksUnlessEmpty(at::RecordScope::USER_SCOPE).has_value();
}

void ProfiledRange::open(std::string name) {
  range_ = new Range{std::move(name)};
  if (range_->record.isActive()) range_->record.before(range_->name.c_str());
}

void ProfiledRange::close() { delete range_; }

}  // namespace stator::observe
