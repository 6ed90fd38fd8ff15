#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "capture/values/source.h"

namespace stator::capture {

/// A list of sources that the user names in a setting: names or regular expressions, separated by commas. `:N` after
/// one restricts it to dimension N. A source has the name that guards show, and torch's: `L['x']` for the argument `x`.
class SourcePatterns {
 public:
  /// Sets a Python error if an entry is not a regular expression; it is left out.
  explicit SourcePatterns(const std::string& list);

  bool empty() const { return rows_.empty(); }
  /// The dimensions of the tensor at the source that the list names, a bit for each; all bits for an int that it names.
  uint64_t dimensions(const Source& source) const;

 private:
  struct Row {
    std::string text;
    Ref match;  // of the compiled expression
    int dim;    // -1: all
  };
  std::vector<Row> rows_;
};

}  // namespace stator::capture
