#include "compile/shape_settings.h"

#include <algorithm>
#include <charconv>
#include <string_view>
#include <utility>

#include "compile/options.h"
#include "compile/torch_compiler.h"

namespace stator {
using namespace capture;

namespace {

/// Our setting, unless it has its usual value and torch's is known.
bool flag(bool Config::*own, const char* name) {
  const Config usual;
  if (config().*own != usual.*own) return config().*own;
  return torch_setting(name, usual.*own ? 1 : 0) != 0;
}

/// A list of sources, by our setting or torch's. The last one of each kind is kept. Null if it is empty.
std::shared_ptr<const SourcePatterns> patterns(const std::string& own, const char* name,
                                               std::pair<std::string, std::shared_ptr<const SourcePatterns>>& last) {
  const std::string list = own.empty() ? torch_text("torch.compiler.config", name) : own;
  if (list.empty()) return nullptr;
  if (last.first != list || !last.second) {
    auto made = std::make_shared<const SourcePatterns>(list);
    if (PyErr_Occurred()) return nullptr;
    last = {list, std::move(made)};
  }
  return last.second;
}

/// The ints of a list that is separated by commas. Others are left out.
std::vector<int64_t> ints_in(std::string_view list) {
  std::vector<int64_t> ints;
  while (!list.empty()) {
    const size_t end = std::min(list.find(','), list.size()), first = std::min(list.find_first_not_of(' '), end);
    int64_t number = 0;
    if (std::from_chars(list.data() + first, list.data() + end, number).ec == std::errc()) ints.push_back(number);
    list.remove_prefix(std::min(end + 1, list.size()));
  }
  return ints;
}

}  // namespace

std::optional<ShapeSettings> shape_settings(std::optional<bool> dynamic) {
  static auto& last_dynamic = *new std::pair<std::string, std::shared_ptr<const SourcePatterns>>;
  static auto& last_unbacked = *new std::pair<std::string, std::shared_ptr<const SourcePatterns>>;
  ShapeSettings made;
  made.all_sizes = dynamic.value_or(!flag(&Config::assume_static_by_default, "assume_static_by_default"));
  made.changed_sizes = dynamic.value_or(flag(&Config::automatic_dynamic_shapes, "automatic_dynamic_shapes"));
  const bool has_ints = !flag(&Config::specialize_int, "specialize_int");
  made.all_ints = made.all_sizes && has_ints;
  made.changed_ints = made.changed_sizes && has_ints;
  made.changed_floats = torch_setting("specialize_float", 0) == 0;
  made.changed_are_unbacked = torch_text("torch._dynamo.config", "automatic_dynamic_shapes_mark_as") == "unbacked";
  made.values = ints_in(torch_text("torch.compiler.config", "dynamic_values"));
  made.parameters = !flag(&Config::force_parameter_static_shapes, "force_parameter_static_shapes");
  made.dynamic = patterns(config().dynamic_sources, "dynamic_sources", last_dynamic);
  if (!PyErr_Occurred()) made.unbacked = patterns(config().unbacked_sources, "unbacked_sources", last_unbacked);
  return PyErr_Occurred() ? std::nullopt : std::optional(std::move(made));
}

}  // namespace stator
