#include "capture/guards/describe.h"

#include "capture/guards/check.h"

namespace stator::capture {

std::string describe_fact(const Source& source, const Fact& fact) {
  // What is in an instance's __dict__ are its attributes.
  bool attribute = fact.kind == FactKind::Absent && source.kind == SourceKind::InstanceDict;
  return source.describe() + " " + fact_row(attribute ? FactKind::NoAttribute : fact.kind).describe(fact);
}

}  // namespace stator::capture
