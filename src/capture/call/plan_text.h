#pragma once

#include <string>
#include <vector>

namespace stator::capture {

class Plan;

/// One line for the graph, one per step, then what is returned or which frames are resumed.
std::vector<std::string> describe(const Plan& plan);

}  // namespace stator::capture
