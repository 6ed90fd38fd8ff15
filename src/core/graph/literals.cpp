#include "core/graph/literals.h"

#include <c10/core/Layout.h>
#include <c10/core/MemoryFormat.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>

namespace stator::graph {
namespace {

struct EnumRow {
  std::string_view type;
  std::string_view name;
  int64_t value;
};

constexpr std::array kEnums = {
    EnumRow{"MemoryFormat", "contiguous_format", static_cast<int64_t>(c10::MemoryFormat::Contiguous)},
    EnumRow{"MemoryFormat", "preserve_format", static_cast<int64_t>(c10::MemoryFormat::Preserve)},
    EnumRow{"MemoryFormat", "channels_last", static_cast<int64_t>(c10::MemoryFormat::ChannelsLast)},
    EnumRow{"MemoryFormat", "channels_last_3d", static_cast<int64_t>(c10::MemoryFormat::ChannelsLast3d)},
    EnumRow{"Layout", "strided", static_cast<int64_t>(c10::Layout::Strided)},
    EnumRow{"Layout", "sparse_coo", static_cast<int64_t>(c10::Layout::Sparse)},
    EnumRow{"Layout", "sparse_csr", static_cast<int64_t>(c10::Layout::SparseCsr)},
    EnumRow{"Layout", "sparse_csc", static_cast<int64_t>(c10::Layout::SparseCsc)},
    EnumRow{"Layout", "sparse_bsr", static_cast<int64_t>(c10::Layout::SparseBsr)},
    EnumRow{"Layout", "sparse_bsc", static_cast<int64_t>(c10::Layout::SparseBsc)},
    EnumRow{"Layout", "_mkldnn", static_cast<int64_t>(c10::Layout::Mkldnn)},
    EnumRow{"Layout", "jagged", static_cast<int64_t>(c10::Layout::Jagged)},
};

}  // namespace

std::string float_text(double value) {
  if (std::isnan(value)) return "nan";
  if (std::isinf(value)) return value < 0 ? "-inf" : "inf";
  char buffer[40];
  auto end = std::to_chars(buffer, buffer + sizeof buffer, value).ptr;
  std::string text(buffer, end);
  if (text.find_first_of(".e") == std::string::npos) text += ".0";
  return text;
}

std::string quote_text(std::string_view text) {
  std::string out = "\"";
  for (char ch : text) {
    if (ch == '"' || ch == '\\') {
      out += '\\';
      out += ch;
    } else if (ch == '\n') {
      out += "\\n";
    } else {
      out += ch;
    }
  }
  return out += '"';
}

bool is_identifier(std::string_view text) {
  auto is_letter = [](char ch) { return ch == '_' || (ch >= 'a' && ch <= 'z') || (ch >= 'A' && ch <= 'Z'); };
  if (text.empty() || !is_letter(text[0])) return false;
  return std::all_of(text.begin(), text.end(), [&](char ch) { return is_letter(ch) || (ch >= '0' && ch <= '9'); });
}

std::string dtype_name(c10::ScalarType dtype) { return std::string(c10::getDtypeNames(dtype).first); }

std::optional<c10::ScalarType> find_dtype(std::string_view name) {
  const auto& known = c10::getStringToDtypeMap();
  auto found = known.find(std::string(name));
  return found == known.end() ? std::nullopt : std::optional(found->second);
}

std::optional<std::string> enum_name(std::string_view type, int64_t value) {
  if (type == "ScalarType") {
    auto dtype = static_cast<c10::ScalarType>(value);
    if (value < 0 || value >= static_cast<int64_t>(c10::ScalarType::Undefined)) return std::nullopt;
    auto name = dtype_name(dtype);
    return find_dtype(name) == dtype ? std::optional(name) : std::nullopt;
  }
  for (const auto& row : kEnums) {
    if (row.type == type && row.value == value) return std::string(row.name);
  }
  return std::nullopt;
}

std::optional<int64_t> enum_value(std::string_view type, std::string_view name) {
  if (type == "ScalarType") {
    auto dtype = find_dtype(name);
    return dtype ? std::optional(static_cast<int64_t>(*dtype)) : std::nullopt;
  }
  for (const auto& row : kEnums) {
    if (row.type == type && row.name == name) return row.value;
  }
  return std::nullopt;
}

}  // namespace stator::graph
