#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "capture/pycompat/code.h"
#include "capture/values/varying.h"

namespace stator::capture {

/// The sizes of tensors, and the numbers, among the arguments of one call, by source (`Source::describe`). Refers to no
/// object of the program. GIL held.
class SeenArguments {
 public:
  /// `slots`: the bound arguments. Looks into lists, tuples and dicts, and runs no code of the program.
  SeenArguments(const pycompat::Code& code, PyObject* const* slots);

  /// Adds what differs in a later call: to `sources`, and as text ("n: 3, now 4") to `texts`.
  void add_changes(const SeenArguments& later, Varying& sources, std::vector<std::string>& texts) const;

 private:
  void look_at(const std::string& source, PyObject* object, int level);

  std::map<std::string, std::vector<int64_t>> sizes_;
  std::map<std::string, int64_t> ints_;
  std::map<std::string, double> floats_;
};

}  // namespace stator::capture
