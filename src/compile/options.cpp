#include "compile/options.h"

namespace stator {

Config& config() {
  static Config settings;
  return settings;
}

static std::string json_text(const std::string& text) {
  std::string made = "\"";
  for (const char c : text) {
    if (c == '"' || c == '\\') made += '\\';
    made += static_cast<unsigned char>(c) < ' ' ? ' ' : c;
  }
  return made + "\"";
}

static constexpr Setting kSettings[] = {
    {"accumulated_recompile_limit", nullptr, &Config::accumulated_recompile_limit},
    {"assume_static_by_default", &Config::assume_static_by_default, nullptr},
    {"aten_graphs", &Config::aten_graphs, nullptr},
    {"automatic_dynamic_shapes", &Config::automatic_dynamic_shapes, nullptr},
    {"break_after", nullptr, &Config::break_after},
    {"capture_dynamic_output_shape_ops", &Config::capture_dynamic_output_shape_ops, nullptr},
    {"capture_scalar_outputs", &Config::capture_scalar_outputs, nullptr},
    {"compiled_autograd", &Config::compiled_autograd, nullptr},
    {"count_instructions", &Config::count_instructions, nullptr},
    {"debug_dir", nullptr, nullptr, &Config::debug_dir},
    {"disable", &Config::disable, nullptr},
    {"dynamic_sources", nullptr, nullptr, &Config::dynamic_sources},
    {"fail_on_recompile_limit_hit", &Config::fail_on_recompile_limit_hit, nullptr},
    {"force_parameter_static_shapes", &Config::force_parameter_static_shapes, nullptr},
    {"numpy_exact", &Config::numpy_exact, nullptr},
    {"oracle", &Config::oracle, nullptr},
    {"raise_on_ctx_manager_usage", &Config::raise_on_ctx_manager_usage, nullptr},
    {"recompile_limit", nullptr, &Config::recompile_limit},
    {"specialize_int", &Config::specialize_int, nullptr},
    {"suppress_errors", &Config::suppress_errors, nullptr},
    {"unbacked_sources", nullptr, nullptr, &Config::unbacked_sources},
};

std::span<const Setting> settings() { return kSettings; }

std::string config_json() {
  const Config& now = config();
  std::string text;
  for (const Setting& row : kSettings) {
    text += (text.empty() ? "{\"" : ", \"") + std::string(row.name) + "\": ";
    if (row.flag) text += now.*row.flag ? "true" : "false";
    if (row.number) text += std::to_string(now.*row.number);
    if (row.text) text += json_text(now.*row.text);
  }
  return text + "}";
}

}  // namespace stator
