#include "core/graph/aliasing.h"

#include <algorithm>
#include <string_view>

namespace stator::graph {

bool draws_random(const Node& node) {
  if (node.op.hasTag(at::Tag::nondeterministic_seeded)) return true;
  return std::any_of(node.args.begin(), node.args.end(), [](const Argument& argument) {
    if (argument.kind != Argument::Kind::Graph) return false;
    const auto& nodes = argument.graph()->nodes;
    return std::any_of(nodes.begin(), nodes.end(), draws_random);
  });
}

bool changes_metadata(const Node& node) {
  const std::string_view name = node.op.operator_name().name;
  return node.op.hasTag(at::Tag::inplace_view) || name.starts_with("aten::set_") || name.starts_with("aten::resize");
}

const void* memory_of(const at::Tensor& tensor) {
  return tensor.defined() && tensor.has_storage() ? tensor.storage().unsafeGetStorageImpl() : nullptr;
}

const void* Aliasing::memory_of(ValueId value) const { return graph::memory_of(graph_.values.at(value).fake); }

const std::vector<uint32_t>& Aliasing::inputs_sharing(ValueId value) const {
  if (!has_inputs_) {
    has_inputs_ = true;
    for (uint32_t i = 0; i < graph_.inputs.size(); ++i)
      if (const void* memory = memory_of(graph_.inputs[i])) inputs_[memory].push_back(i);
  }
  const void* memory = memory_of(value);
  auto found = memory != nullptr ? inputs_.find(memory) : inputs_.end();
  return found != inputs_.end() ? found->second : none_;
}

bool Aliasing::is_written(const at::Tensor& tensor) const {
  const void* memory = graph::memory_of(tensor);
  if (!written_) {
    written_.emplace();
    for (const Node& node : graph_.nodes) for_each_written(node, [&](ValueId id) { written_->insert(memory_of(id)); });
  }
  return memory != nullptr && written_->contains(memory);
}

std::vector<Aliasing::Alias> Aliasing::aliases_of(const Node& node) const {
  std::vector<Alias> found;
  const auto& schema = node.op.schema();
  auto schema_says = [&](size_t result, size_t argument) {
    const auto* made = schema.returns()[result].alias_info();
    const auto* given = schema.arguments()[argument].alias_info();
    if (made == nullptr || given == nullptr) return false;
    const auto &left = made->beforeSets(), &right = given->beforeSets();
    return std::any_of(left.begin(), left.end(), [&](const auto& set) { return right.contains(set); });
  };
  for (size_t r = 0; r < node.results.size(); ++r)
    for (ValueId result : node.results[r].values) {
      if (result == kNoValue) continue;
      for (size_t a = 0; a < node.args.size(); ++a)
        for_each_value(node.args[a], [&](ValueId argument) {
          const void *made = memory_of(result), *given = memory_of(argument);
          const bool known = made != nullptr && given != nullptr;
          const bool shared = result == argument || (known ? made == given : schema_says(r, a));
          if (shared && std::find(found.begin(), found.end(), Alias{result, argument}) == found.end())
            found.push_back({result, argument});
        });
    }
  return found;
}

}  // namespace stator::graph
