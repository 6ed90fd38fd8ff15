#pragma once

#include <functional>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "core/backend/backend.h"
#include "core/base/export.h"

/// The native backends by name. A C++ library adds one by `register_backend` when it is loaded; `stator.compile` then
/// accepts its name.
namespace stator::backend {

using OptionValue = std::variant<bool, int64_t, double, std::string>;
using Options = std::map<std::string, OptionValue, std::less<>>;

/// One option that a backend accepts. The default also tells the type; an int is accepted for a float.
struct OptionSpec {
  std::string name;
  OptionValue default_value;
  std::string help;
};

struct Backend {
  std::string name;
  std::vector<std::string> aliases;
  std::vector<OptionSpec> options;
  /// Makes the graph runnable. `options` has a value for each option of the backend. Throws if it cannot: the frame
  /// then runs as plain Python, or the error is raised to the user.
  std::function<std::unique_ptr<Executable>(std::shared_ptr<const graph::Graph> graph, const Options& options)> compile;
};

/// Throws std::invalid_argument if the name or an alias is empty or taken. Thread-safe. The backend stays for the life
/// of the process.
STATOR_API void register_backend(Backend backend);

/// Null if no backend has this name or alias.
STATOR_API const Backend* find_backend(std::string_view name);

/// In the order of registration; the first is the default, "reference".
STATOR_API std::vector<const Backend*> all_backends();

/// A backend with the options of one `compile` call.
class STATOR_API Choice {
 public:
  /// The default backend.
  Choice();
  /// Fills in defaults. Throws std::invalid_argument for an unknown option or a value of another type.
  Choice(const Backend& backend, Options given);

  const Backend& backend() const { return *backend_; }
  const Options& options() const { return options_; }
  /// Equal for two choices exactly if their executables are interchangeable: the same backend, equal options.
  const std::string& cache_key() const { return cache_key_; }
  std::unique_ptr<Executable> compile(std::shared_ptr<const graph::Graph> graph) const;

 private:
  const Backend* backend_;
  Options options_;
  std::string cache_key_;
};

}  // namespace stator::backend
