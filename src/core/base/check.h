#pragma once

#include <sstream>
#include <stdexcept>
#include <string>

#include "core/base/export.h"

namespace stator {

/// An invariant of Stator itself does not hold. Never a user's mistake.
class STATOR_API InternalError : public std::logic_error {
 public:
  using std::logic_error::logic_error;
};

namespace detail {
template <class... Parts>
[[noreturn]] void fail(const char* file, int line, const Parts&... parts) {
  std::ostringstream text;
  text << file << ':' << line << ": ";
  (text << ... << parts);
  throw InternalError(text.str());
}
}  // namespace detail

}  // namespace stator

/// Checked in release builds too. The message is built only on failure.
#define STATOR_CHECK(condition, ...)                                                              \
  do {                                                                                            \
    if (!(condition)) [[unlikely]]                                                                \
      ::stator::detail::fail(__FILE__, __LINE__, "check failed: " #condition " ", ##__VA_ARGS__); \
  } while (0)
