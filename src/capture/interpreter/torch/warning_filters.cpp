#include "capture/interpreter/torch/warning_filters.h"

#include <algorithm>

#include "capture/interpreter/protocol/names.h"
#include "capture/interpreter/state/known_types.h"
#include "capture/interpreter/state/warning_rule.h"
#include "capture/pycompat/facts.h"

namespace stator::capture {

bool has_changed_filters(Interpreter& in) {
  PyObject* at_start = stator_dict_get_str(warnings_globals(), filters_name());
  auto written = written_global(in, warnings_globals(), filters_name());
  Value* before = at_start && in.objects.contains(at_start) ? in.wrap(at_start, nullptr) : nullptr;
  if (written && *written != before) return true;
  return before && std::any_of(in.effects.begin(), in.effects.end(),
                               [&](const Effect& effect) { return effect.target == before; });
}

bool has_warned(Interpreter& in) {
  static PyObject* const give = known_object("stator.warned.give");
  return std::any_of(in.effects.begin(), in.effects.end(), [](const Effect& effect) {
    auto* target = effect.target ? as<ConstantValue>(effect.target) : nullptr;
    return effect.kind == EffectKind::CallMethod && target && target->object.get() == give;
  });
}

}  // namespace stator::capture
