#pragma once

#include <string>

namespace stator::capture {

struct Source;
struct Fact;

/// One line on a fact.
std::string describe_fact(const Source& source, const Fact& fact);

}  // namespace stator::capture
