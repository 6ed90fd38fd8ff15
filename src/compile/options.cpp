#include "compile/options.h"

namespace stator {

Config& config() {
  static Config settings;
  return settings;
}

}  // namespace stator
