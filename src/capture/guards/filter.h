#pragma once

#include <functional>
#include <utility>
#include <vector>

#include "capture/values/source.h"

/// Facts that a user vouches for instead of having them guarded.
namespace stator::capture {

/// All facts of a tree, parents before what is read from them.
std::vector<std::pair<Source*, Fact*>> facts_of(const SourceTree& tree);

/// Takes facts out of the tree before a check array is made of it. What reading a value relies on stays in any case:
/// the class of what is read, and who it is where something is read from it.
void drop_facts(const SourceTree& tree, const std::function<bool(const Fact*)>& is_unwanted);

/// Whether the path begins at a global variable or a module's.
bool is_global(const Source& source);

}  // namespace stator::capture
