#pragma once

#include <optional>

namespace stator::fake {

/// RAII: `aten::equal` on fakes, which composite programs ask to check values, has this answer. Otherwise it is
/// refused.
class AssumedAnswer {
 public:
  explicit AssumedAnswer(bool answer);
  ~AssumedAnswer();
  AssumedAnswer(const AssumedAnswer&) = delete;

 private:
  std::optional<bool> previous_;
};

}  // namespace stator::fake
