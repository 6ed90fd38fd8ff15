#include "capture/values/varying.h"

#include <charconv>
#include <string_view>

namespace stator::capture {

Dimensions sizes_in(const std::string& text) {
  constexpr std::string_view kOpen = ".size(";
  Dimensions named;
  for (size_t first = 0; first < text.size();) {
    const size_t end = std::min(text.find("), ", first), text.size() - 1);
    const size_t open = text.rfind(kOpen, end);
    int dim = -1;
    if (text[end] == ')' && open != std::string::npos && open >= first)
      std::from_chars(text.data() + open + kOpen.size(), text.data() + end, dim);
    if (dim >= 0 && dim < 64) named.add(text.substr(first, open - first), uint64_t{1} << dim);
    first = end + 3;
  }
  return named;
}

}  // namespace stator::capture
