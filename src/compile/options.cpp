#include "compile/options.h"

#include <map>

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

std::string config_json() {
  const Config& now = config();
  auto flag = [](bool value) { return std::string(value ? "true" : "false"); };
  const std::map<std::string, std::string> rows = {
      {"accumulated_recompile_limit", std::to_string(now.accumulated_recompile_limit)},
      {"aten_graphs", flag(now.aten_graphs)},
      {"break_after", std::to_string(now.break_after)},
      {"compiled_autograd", flag(now.compiled_autograd)},
      {"debug_dir", json_text(now.debug_dir)},
      {"disable", flag(now.disable)},
      {"fail_on_recompile_limit_hit", flag(now.fail_on_recompile_limit_hit)},
      {"numpy_exact", flag(now.numpy_exact)},
      {"oracle", flag(now.oracle)},
      {"raise_on_ctx_manager_usage", flag(now.raise_on_ctx_manager_usage)},
      {"recompile_limit", std::to_string(now.recompile_limit)},
      {"suppress_errors", flag(now.suppress_errors)},
  };
  std::string text;
  for (auto& [name, value] : rows) text += (text.empty() ? "{\"" : ", \"") + name + "\": " + value;
  return text + "}";
}

}  // namespace stator
