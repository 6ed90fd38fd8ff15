#pragma once

#include <initializer_list>
#include <string>
#include <string_view>

namespace stator {

/// Joins the parts, with one allocation.
inline std::string concat(std::initializer_list<std::string_view> parts) {
  size_t size = 0;
  for (auto part : parts) size += part.size();
  std::string text;
  text.reserve(size);
  for (auto part : parts) text.append(part);
  return text;
}

}  // namespace stator
