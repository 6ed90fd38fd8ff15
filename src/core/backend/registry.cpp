#include "core/backend/registry.h"

#include <algorithm>
#include <deque>
#include <mutex>
#include <sstream>
#include <stdexcept>

#include "core/base/fork_safe.h"

namespace stator::backend {
namespace {

struct Registry {
  ForkSafeMutex& mutex = *new ForkSafeMutex;
  std::deque<Backend> backends;  // pointers to its elements stay valid

  Registry() {
    backends.push_back(
        Backend{"reference", {"eager"}, {}, [](std::shared_ptr<const graph::Graph> graph, const Options&) {
                  return compile_reference(std::move(graph));
                }});
  }
  const Backend* find(std::string_view name) const {
    for (const Backend& backend : backends)
      if (backend.name == name ||
          std::find(backend.aliases.begin(), backend.aliases.end(), name) != backend.aliases.end())
        return &backend;
    return nullptr;
  }
};

// Never destroyed: libraries that registered a backend may outlive static destructors.
Registry& registry = *new Registry;

constexpr const char* kTypeNames[] = {"bool", "int", "float", "str"};

/// The value as the option's type; throws if it has another one.
OptionValue converted(const Backend& backend, const OptionSpec& spec, OptionValue value) {
  if (std::holds_alternative<double>(spec.default_value) && std::holds_alternative<int64_t>(value))
    return static_cast<double>(std::get<int64_t>(value));
  if (value.index() != spec.default_value.index())
    throw std::invalid_argument("option '" + spec.name + "' of backend '" + backend.name + "' is a " +
                                kTypeNames[spec.default_value.index()] + ", not a " + kTypeNames[value.index()]);
  return value;
}

Options completed(const Backend& backend, Options given) {
  Options all;
  for (const OptionSpec& spec : backend.options) {
    auto found = given.find(spec.name);
    all[spec.name] = found == given.end() ? spec.default_value : converted(backend, spec, std::move(found->second));
    if (found != given.end()) given.erase(found);
  }
  if (!given.empty())
    throw std::invalid_argument("backend '" + backend.name + "' has no option '" + given.begin()->first + "'");
  return all;
}

/// Strings are written with their length, so that different option sets have different keys.
std::string key_of(const Backend& backend, const Options& options) {
  std::ostringstream text;
  text << backend.name << std::hexfloat;
  for (const auto& [name, value] : options) {
    text << ';' << name << '=' << value.index() << ':';
    if (const auto* string = std::get_if<std::string>(&value)) {
      text << string->size() << ':' << *string;
    } else {
      std::visit([&](const auto& plain) { text << plain; }, value);
    }
  }
  return text.str();
}

}  // namespace

void register_backend(Backend backend) {
  Registry& all = registry;
  const std::lock_guard lock(all.mutex);
  std::vector<std::string> names = backend.aliases;
  names.push_back(backend.name);
  for (const std::string& name : names) {
    if (name.empty()) throw std::invalid_argument("a backend needs a name");
    if (all.find(name)) throw std::invalid_argument("a backend named '" + name + "' exists already");
  }
  if (!backend.compile) throw std::invalid_argument("backend '" + backend.name + "' has no compile function");
  all.backends.push_back(std::move(backend));
}

const Backend* find_backend(std::string_view name) {
  Registry& all = registry;
  const std::lock_guard lock(all.mutex);
  return all.find(name);
}

std::vector<const Backend*> all_backends() {
  Registry& all = registry;
  const std::lock_guard lock(all.mutex);
  std::vector<const Backend*> result;
  for (const Backend& backend : all.backends) result.push_back(&backend);
  return result;
}

Choice::Choice() : Choice(registry.backends.front(), {}) {}

Choice::Choice(const Backend& backend, Options given)
    : backend_(&backend), options_(completed(backend, std::move(given))), cache_key_(key_of(backend, options_)) {}

std::unique_ptr<Executable> Choice::compile(std::shared_ptr<const graph::Graph> graph) const {
  return backend_->compile(std::move(graph), options_);
}

}  // namespace stator::backend
