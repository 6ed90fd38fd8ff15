#include "capture/values/varying.h"

#include <algorithm>
#include <charconv>
#include <string_view>

namespace stator::capture {
namespace {

constexpr std::string_view kComma = ", ";

/// Whether a text that is separated by commas names the source.
bool names(std::string_view text, std::string_view source) {
  for (size_t at = text.find(source); at != std::string_view::npos; at = text.find(source, at + 1)) {
    const std::string_view before = text.substr(0, at), after = text.substr(at + source.size());
    if ((before.empty() || before.ends_with(kComma)) && (after.empty() || after.starts_with(kComma))) return true;
  }
  return false;
}

/// Whether the source is an argument, an item of containers that is reached from one, or a number of such an object.
bool is_of_argument(const Source& source) {
  const Source* at = &source;
  if (at->kind == SourceKind::StorageOffset || at->kind == SourceKind::Length) at = at->parent;
  while (at->kind == SourceKind::Item || at->kind == SourceKind::DictItem || at->kind == SourceKind::DictValue)
    at = at->parent;
  return at->kind == SourceKind::Argument;
}

}  // namespace

bool Varying::asks_for(int64_t number) const {
  return std::find(asked_values.begin(), asked_values.end(), number) != asked_values.end();
}

bool Varying::contains(const Source& source) const {
  if (values.empty() && floats.empty() && ints.empty() && !all_ints && !dynamic && !spec && asked_values.empty())
    return false;
  PyObject* object = source.object.get();
  const bool is_int = object && PyLong_CheckExact(object);
  int overflow = 0;
  const bool is_asked =
      is_int && ((all_ints && is_of_argument(source)) || (dynamic && dynamic->dimensions(source) != 0) ||
                 (spec && spec->has_varying_int(source)) ||
                 (!asked_values.empty() && asks_for(PyLong_AsLongLongAndOverflow(object, &overflow)) && overflow == 0));
  if (values.empty() && floats.empty() && ints.empty() && !is_asked) return false;
  const std::string text = source.describe();
  if (values.contains(text)) return true;
  if (is_int) return (is_asked || ints.contains(text)) && !fixed_ints.contains(text);
  return object && PyFloat_CheckExact(object) && floats.contains(text);
}

bool Varying::is_input(const Source& source) const {
  const auto& fixed = PyLong_CheckExact(source.object.get()) ? fixed_ints : fixed_floats;
  return fixed.empty() || !fixed.contains(source.describe());
}

Varying Varying::named_in(const std::string& text) const {
  Varying named;
  for (const std::string& source : floats)
    if (names(text, source)) named.floats.insert(source);
  for (const std::string& source : ints)
    if (names(text, source)) named.ints.insert(source);
  named.sizes = sizes_in(text);
  named.strides = strides_in(text);
  // Ints that vary because the user asked for it are listed nowhere.
  for (size_t first = 0; (all_ints || dynamic || spec || !asked_values.empty()) && first < text.size();) {
    const size_t end = std::min(text.find(kComma, first), text.size());
    const std::string source = text.substr(first, end - first);
    const bool is_other = floats.contains(source) || values.contains(source) || mortal.contains(source);
    if (sizes_in(source).empty() && strides_in(source).empty() && !is_other) named.ints.insert(source);
    first = end + kComma.size();
  }
  return named;
}

/// The dimensions in a text whose parts read `tensor`, `opening`, the dimension and `)`.
static Dimensions dimensions_in(const std::string& text, std::string_view opening) {
  Dimensions named;
  for (size_t first = 0; first < text.size();) {
    const size_t end = std::min(text.find("), ", first), text.size() - 1);
    const size_t open = text.rfind(opening, end);
    int dim = -1;
    if (text[end] == ')' && open != std::string::npos && open >= first)
      std::from_chars(text.data() + open + opening.size(), text.data() + end, dim);
    if (dim >= 0 && dim < 64) named.add(text.substr(first, open - first), uint64_t{1} << dim);
    first = end + 3;
  }
  return named;
}

Dimensions sizes_in(const std::string& text) { return dimensions_in(text, ".size("); }
Dimensions strides_in(const std::string& text) { return dimensions_in(text, ".stride("); }

}  // namespace stator::capture
