// Models of `warnings`: its Python code is interpreted like any other.
#include "capture/interpreter/protocol/models.h"
#include "capture/interpreter/state/known_types.h"
#include "capture/interpreter/torch/warning_filters.h"

namespace stator::capture {
namespace {

/// warnings._filters_mutated, called after the filters were changed: the filters must be read again.
Value* rules_changed(Interpreter& in, CallArgs&) {
  in.replay_method(in.constant(known_object("_warnings._filters_mutated")), "__call__", {});
  in.torch.tracer.refuses_warnings = has_changed_filters(in);
  return in.none();
}

constexpr ModelRow kRows[] = {
    {"_warnings._filters_mutated", rules_changed, 0, 0},
};

}  // namespace

std::span<const ModelRow> warning_models() { return kRows; }

}  // namespace stator::capture
