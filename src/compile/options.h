#pragma once

#include <cstdint>
#include <string>

namespace stator {

/// Process-wide settings, read under the GIL. Names and meaning are those of `stator.config`.
struct Config {
  int64_t recompile_limit = 8;
  int64_t accumulated_recompile_limit = 256;
  bool fail_on_recompile_limit_hit = false;
  bool suppress_errors = false;
  bool disable = false;
  bool aten_graphs = false;
  bool numpy_exact = false;
  bool raise_on_ctx_manager_usage = true;
  int64_t break_after = 0;  // instructions after which every capture breaks; 0: never; -1: nothing is captured, and
                            // instructions are done for real, one by one
  bool compiled_autograd = false;
  std::string debug_dir;  // empty: off
};
Config& config();

}  // namespace stator
