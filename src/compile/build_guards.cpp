#include "compile/build_guards.h"

#include <algorithm>

#include "capture/guards/tensor_expectation.h"
#include "capture/interpreter/torch/input_sizes.h"
#include "compile/graph_facts.h"

namespace stator {
using namespace capture;

bool build_guards(const CaptureContext& context, Exploration& explored, Entry& entry, Ref& exported) {
  Interpreter& in = *explored.result.interpreter;
  // A write that autograd follows has another effect on a view than on other tensors: guard which of them the input is.
  if (explored.result.graph)
    for (const FollowedWrite& write : followed_writes(*explored.result.graph)) {
      TensorValue* input =
          in.torch.inputs[explored.result.kept_inputs[write.input - explored.result.size_inputs.size()]];
      in.guards.add_at_end(input->source, FactKind::View, is_view_tensor(input->real.get()));
    }
  if (Interpreter* met = explored.met_break.get()) {
    entry.guards_break = std::none_of(context.known_breaks.begin(), context.known_breaks.end(),
                                      [&](const BreakReason& known) { return known.is_same_place(*explored.broke); });
    if (entry.guards_break) {
      in.start.note_looked_at(met->start);
      // The size guards of the attempt that met the break; not needed if the plan's attempt has the same ones.
      const ShapeGuards *own = in.torch.size_guards.get(), *other = met->torch.size_guards.get();
      if (other && explored.break_step == UINT64_MAX && (!own || describe(*own) != describe(*other))) guard_sizes(*met);
      in.guards.add_break(met->guards, explored.break_step);
    }
  }
  entry.bound = in.start.bound_places();
  entry.stored = in.start.stored_slots();
  std::unique_ptr<SourceTree> sources = in.guards.take_sources();
  if (const GuardCallbacks* callbacks = context.request.guards.get()) {
    if (!callbacks->apply_filter(*sources)) return false;
    if (callbacks->exported && !(exported = GuardCallbacks::rows_of(*sources))) return false;
  }
  entry.guards = std::make_unique<CheckArray>(std::move(sources), context.state.before());
  return true;
}

}  // namespace stator
