#pragma once

#include <functional>
#include <utility>
#include <vector>

#include "capture/values/source.h"

/// Guards that the user rejects with `guard_filter_fn`, and so vouches for.
namespace stator::capture {

/// All facts of a tree, parents before what is read from them.
std::vector<std::pair<Source*, Fact*>> facts_of(const SourceTree& tree);

/// Removes facts from the tree before a check array is built from it. Facts that reading relies on stay all the same:
/// the class of an object that is read, and the identity of an object from which other sources are read.
void drop_facts(const SourceTree& tree, const std::function<bool(const Fact*)>& is_unwanted);

/// Whether reading the object at a source, or what is reached from it, relies on facts of this kind.
bool is_relied_on(FactKind kind);

/// Whether the path begins at a global variable of a module.
bool is_global(const Source& source);
/// Whether the path begins at an argument of the call.
bool is_from_argument(const Source& source);

}  // namespace stator::capture
