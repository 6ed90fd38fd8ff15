#include "capture/values/specialised.h"

#include "capture/pycompat/text.h"
#include "capture/values/varying.h"

namespace stator::capture {

std::string Specialised::source() const {
  if (dim < 0) return tensor;
  return is_stride ? stride_text(tensor, dim) : size_text(tensor, dim);
}

std::string Specialised::text() const {
  std::string text = source() + " is ";
  text += value ? std::to_string(*value) : "a constant";
  text += is_needed ? ": its value is needed" : ": a comparison leaves no other value";
  if (!asked.empty()) text += " for " + asked;
  return line.empty() ? text : text + " at " + line;
}

std::string line_text(const UserLine& line) {
  return line.file ? text_of(line.file.get()) + ":" + std::to_string(line.line) : std::string();
}

}  // namespace stator::capture
