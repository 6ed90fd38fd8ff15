#include "core/passes/functionalization/functionalizer.h"

#include <algorithm>

namespace stator::passes {

using graph::ValueId;

/// Writes the new contents of inputs to the inputs; what is made of them afterwards lies in their memory again.
void Functionalizer::write_back() {
  const auto copy_in_place = operator_named("aten::copy_");
  for (Region& region : regions_.all()) {
    if (region.writer == nullptr) continue;
    if (region.input && write_back_ == WriteBack::AtEnd) {
      builder_.enter(*region.writer);
      builder_.call(copy_in_place, {region.at_start, region.root->current, false});
      regions_.replace_root(region, region.at_start);
    } else {
      regions_.replace_root(region, region.root->current);
    }
  }
}

void Functionalizer::note_outputs() {
  using Kind = Functionalized::OutputFact::Kind;
  for (uint32_t i = 0; i < from_.outputs.size(); ++i) {
    const ValueId id = from_.outputs[i];
    Functionalized::OutputFact fact;
    const auto input = std::find(from_.inputs.begin(), from_.inputs.end(), id);
    if (input != from_.inputs.end()) {
      fact = {Kind::Input, static_cast<uint32_t>(input - from_.inputs.begin())};
    } else if (views_[id] != nullptr && views_[id]->region->input) {
      fact = {Kind::ViewOfInput, *views_[id]->region->input};
    } else {
      for (uint32_t k = 0; k < i && fact.kind == Kind::Own; ++k) {
        const ValueId other = from_.outputs[k];
        if (other == id)
          fact = {Kind::SameAsOutput, k};
        else if (views_[id] != nullptr && views_[other] != nullptr && views_[id]->region == views_[other]->region)
          fact = {Kind::SharesWithOutput, k};
      }
    }
    result_.outputs.push_back(fact);
  }
}

std::vector<ValueId> Functionalizer::outputs() {
  note_outputs();
  std::vector<ValueId> made;
  for (uint32_t i = 0; i < from_.inputs.size(); ++i) {
    const ValueId id = from_.inputs[i];
    if (views_[id] == nullptr) continue;
    const bool metadata = std::any_of(metadata_changes_.begin(), metadata_changes_.end(),
                                      [&](const auto& change) { return change.second == id; });
    const bool data = views_[id]->region->writer != nullptr;
    if (!data && !metadata) continue;
    const ValueId updated = builder_.operand(tensor(id)).value;
    result_.mutations.push_back({i, updated, data, metadata});
    if (write_back_ == WriteBack::AsOutputs) made.push_back(updated);
  }
  write_back();
  for (ValueId id : from_.outputs) {
    const bool is_input = input_fakes_.contains(id) && write_back_ == WriteBack::AtEnd;
    if (!now_.at(id).isTensor())
      made.push_back(builder_.number_value(now_[id]));
    else
      made.push_back(builder_.operand(is_input ? input_fakes_.at(id) : tensor(id)).value);
  }
  if (write_back_ == WriteBack::AtEnd) change_inputs_metadata();
  return made;
}

}  // namespace stator::passes
