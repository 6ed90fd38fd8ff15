#include "core/passes/functionalization/twins.h"

#include <algorithm>
#include <mutex>
#include <string>
#include <string_view>
#include <unordered_map>

#include "core/base/fork_safe.h"

namespace stator::passes {
namespace {

/// Twins whose names do not follow from that of the writing operator.
constexpr std::pair<std::string_view, std::string_view> kNamed[] = {
#define STATOR_TWIN(writes, pure) {"aten::" writes, "aten::" pure},
#include "core/passes/functionalization/twins.def"
#undef STATOR_TWIN
};

bool is_written(const c10::Argument& argument) {
  return argument.alias_info() != nullptr && argument.alias_info()->isWrite();
}

bool same_declaration(const c10::Argument& a, const c10::Argument& b) {
  return a.name() == b.name() && *a.type() == *b.type();
}

std::vector<size_t> written_arguments(const c10::FunctionSchema& schema) {
  std::vector<size_t> found;
  for (size_t i = 0; i < schema.arguments().size(); ++i)
    if (is_written(schema.arguments()[i])) found.push_back(i);
  return found;
}

/// The twin `op` if it takes the arguments at `taken` and returns, first, the operator's new results, and then the
/// new contents of the written arguments.
std::optional<Twin> match(const c10::FunctionSchema& schema, const std::vector<size_t>& taken,
                          const c10::OperatorHandle& op) {
  const auto& other = op.schema();
  if (other.is_mutable() || other.arguments().size() != taken.size()) return std::nullopt;
  for (size_t i = 0; i < taken.size(); ++i)
    if (!same_declaration(schema.arguments()[taken[i]], other.arguments()[i])) return std::nullopt;
  Twin twin{op, taken, {}, {}};
  for (const auto& made : schema.returns())
    if (made.alias_info() == nullptr) twin.fresh.push_back(twin.fresh.size());
  for (size_t i : written_arguments(schema)) {
    const size_t place = twin.fresh.size() + twin.written.size();
    if (place >= other.returns().size() || *other.returns()[place].type() != *schema.arguments()[i].type())
      return std::nullopt;
    twin.written.push_back(place);
  }
  return other.returns().size() == twin.fresh.size() + twin.written.size() ? std::optional(twin) : std::nullopt;
}

std::vector<size_t> all_arguments(const c10::FunctionSchema& schema) {
  std::vector<size_t> all(schema.arguments().size());
  for (size_t i = 0; i < all.size(); ++i) all[i] = i;
  return all;
}

std::optional<Twin> search(const c10::OperatorHandle& op) {
  const auto& schema = op.schema();
  if (!schema.is_mutable()) return std::nullopt;
  const std::string& name = op.operator_name().name;
  const std::string& overload = op.operator_name().overload_name;
  const auto find = [](const std::string& other, const std::string& of) {
    return c10::Dispatcher::singleton().findSchema({other, of});
  };
  const std::string full = overload.empty() ? name : name + "." + overload;
  for (const auto& [writing, named] : kNamed) {
    if (writing != full) continue;
    const size_t dot = named.find('.');
    const auto other = find(std::string(named.substr(0, dot)),
                            dot == std::string_view::npos ? "" : std::string(named.substr(dot + 1)));
    if (other) return match(schema, all_arguments(schema), *other);
  }
  const std::string pure = name.ends_with("_") ? name.substr(0, name.size() - 1) : std::string();
  for (const std::string& other_name : {pure, name + "_functional"})
    if (const auto other = find(other_name, overload))
      if (auto twin = match(schema, all_arguments(schema), *other)) return twin;
  std::vector<size_t> inputs;  // an `out` overload: what is not written
  for (size_t i = 0; i < schema.arguments().size(); ++i)
    if (!is_written(schema.arguments()[i])) inputs.push_back(i);
  for (const auto& candidate : c10::Dispatcher::singleton().getAllOpNames()) {
    if (candidate.name != name && candidate.name != pure) continue;
    if (const auto other = find(candidate.name, candidate.overload_name))
      if (auto twin = match(schema, candidate.name == pure ? all_arguments(schema) : inputs, *other)) return twin;
  }
  return std::nullopt;
}

auto& twins_lock = *new ForkSafeMutex;
auto& known_twins = *new std::unordered_map<c10::OperatorName, std::optional<Twin>>;  // under the lock

}  // namespace

const Twin* find_twin(const c10::OperatorHandle& op) {
  const std::lock_guard lock(twins_lock);
  auto found = known_twins.find(op.operator_name());
  if (found == known_twins.end()) found = known_twins.emplace(op.operator_name(), search(op)).first;
  return found->second ? &*found->second : nullptr;
}

}  // namespace stator::passes
