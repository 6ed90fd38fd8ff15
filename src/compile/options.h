#pragma once

#include <cstdint>
#include <span>
#include <string>

namespace stator {

/// Process-wide settings, read under the GIL. Names and meaning are those of `stator.config`.
struct Config {
  int64_t recompile_limit = 8;
  int64_t accumulated_recompile_limit = 256;
  bool fail_on_recompile_limit_hit = false;
  bool suppress_errors = false;
  bool aten_graphs = false;
  bool count_instructions = false;
  bool numpy_exact = false;
  bool raise_on_ctx_manager_usage = true;
  // Which sizes and ints are symbols: see shape_settings.h.
  bool assume_static_by_default = true;
  bool automatic_dynamic_shapes = true;
  bool specialize_int = false;
  bool force_parameter_static_shapes = true;
  bool capture_scalar_outputs = true;  // for Python backends, as the next
  bool capture_dynamic_output_shape_ops = true;
  std::string dynamic_sources, unbacked_sources;
  int64_t break_after = 0;  // instructions after which every capture breaks; 0: never; -1: before the first, so that
                            // each instruction is executed concretely
  // Looked at in each call, together.
  bool disable = false;
  bool compiled_autograd = false;
  bool oracle = false;
  bool has_unusual_calls() const { return disable || compiled_autograd || oracle; }
  std::string debug_dir;  // empty: off
};
Config& config();

/// A setting: its name, and the member that holds it.
struct Setting {
  const char* name;
  bool Config::*flag = nullptr;
  int64_t Config::*number = nullptr;
  std::string Config::*text = nullptr;
};
/// All settings, by name.
std::span<const Setting> settings();
/// The settings as a JSON object with sorted keys.
std::string config_json();

}  // namespace stator
