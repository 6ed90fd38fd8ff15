#pragma once

#include <string>
#include <string_view>
#include <unordered_map>

namespace stator::graph {

/// Numbers the symbols of a text in the order in which they occur, so that equal graphs have equal texts: symbols are
/// counted per thread, over all captures.
class SymbolNames {
 public:
  /// The text of an expression, with `u7` or `e3` exchanged for `u0`, `u1`, ...
  std::string renamed(std::string_view expression);

 private:
  std::unordered_map<std::string, std::string> names_;
};

}  // namespace stator::graph
