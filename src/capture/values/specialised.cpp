#include "capture/values/specialised.h"

#include "capture/values/varying.h"

namespace stator::capture {

std::string Specialised::source() const { return dim < 0 ? tensor : size_text(tensor, dim); }

std::string Specialised::text() const {
  std::string text = source() + " is ";
  text += value ? std::to_string(*value) : "a constant";
  text += is_needed ? ": its value is needed" : ": a comparison leaves no other value";
  if (!asked.empty()) text += " for " + asked;
  return line.empty() ? text : text + " at " + line;
}

std::string line_text(const UserLine& line) {
  const char* file = line.file ? PyUnicode_AsUTF8(line.file.get()) : nullptr;
  if (!file) PyErr_Clear();
  return file ? std::string(file) + ":" + std::to_string(line.line) : std::string();
}

}  // namespace stator::capture
