#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "capture/values/source.h"

namespace stator::capture {

/// What asked a question about symbolic sizes and ints.
struct Question {
  UserLine line;
  std::string asked;  // an operator, or a parameter of a torch function; empty: the program itself
};

/// A symbolic size or int that turned out to be one value in a capture.
struct Specialised {
  std::string tensor;  // its source; that of the int
  int32_t dim = -1;    // -1: an int
  bool is_stride = false;
  std::optional<int64_t> value;  // none if the capture was made again with the constant
  bool is_needed = true;         // the value itself was needed; else a comparison left no other value
  std::string asked;             // as in Question
  std::string line;              // "file:line"; empty if it is not known

  /// "x.size(0)", or the source of the int.
  std::string source() const;
  /// One line for the user: what is specialised on, for what, and where.
  std::string text() const;
};

/// A size that the user marked as dynamic.
struct MarkedSize {
  std::string tensor;
  int32_t dim = 0;
  bool is_strict = true;  // by `mark_dynamic`; else by `maybe_mark_dynamic`
  int64_t size = 0;       // at capture
  int64_t low = INT64_MIN, high = INT64_MAX;

  bool is_in_range() const { return low <= size && size <= high; }
};

/// "file:line"; empty if there is no line.
std::string line_text(const UserLine& line);

}  // namespace stator::capture
