#pragma once

#include <string>
#include <vector>

namespace stator::capture {

class Plan;

/// One line per step, then where it ends.
std::vector<std::string> describe(const Plan& plan);

}  // namespace stator::capture
