#include "capture/interpreter/state/effect_log.h"

#include <algorithm>

#include "capture/call/break.h"
#include "capture/pycompat/facts.h"

namespace stator::capture {

void EffectLog::add_take(Value* iterator) {
  if (!effects_.empty() && effects_.back().kind == EffectKind::Take && effects_.back().target == iterator)
    ++effects_.back().count;
  else
    add({EffectKind::Take, iterator, nullptr, nullptr, 1});
}

bool EffectLog::has(EffectKind kind, const Value* target) const {
  return std::any_of(effects_.begin(), effects_.end(),
                     [&](const Effect& effect) { return effect.kind == kind && effect.target == target; });
}

bool EffectLog::is_changed(PyObject* object, const ObjectMap& objects) const {
  if (globals_written.contains(object) || (PyDict_Check(object) && !classes_written.empty())) return true;
  const Value* value = objects.find(object);
  const Value* owner = objects.owner_of_dict(object);
  return std::any_of(effects_.begin(), effects_.end(), [&](const Effect& effect) {
    return effect.target && (effect.target == value || effect.target == owner);
  });
}

EffectLog::ReplayablePart::ReplayablePart(EffectLog& log)
    : log_(log),
      outer_effects_(std::exchange(log.effects_, {})),
      outer_frozen_(std::exchange(log.frozen_, log.arena_.count())) {}

EffectLog::ReplayablePart::~ReplayablePart() {
  log_.effects_ = std::move(outer_effects_);
  log_.frozen_ = outer_frozen_;
}

/// Whether it is a dict that is its own `__dict__`: then items are attributes.
static bool is_own_dict(PyObject* object) {
  PyObject* own = nullptr;
  return object && !PyDict_CheckExact(object) && stator_instance_dict(object, &own) == kStatorDictObject &&
         own == object;
}

void EffectLog::refuse_frozen(const Value* value) const {
  const auto* object = value->kind == Kind::Object ? static_cast<const ObjectValue*>(value) : nullptr;
  const auto* dict = value->kind == Kind::Dict ? static_cast<const DictValue*>(value) : nullptr;
  if (PyObject* external = object ? object->object.get() : dict ? dict->external.get() : nullptr; is_own_dict(external))
    throw Break{BreakId::mutation, "a dict that is its own __dict__"};
  if (is_frozen(value)) throw Break{BreakId::mutation, "a change in a part that may run any number of times"};
}

}  // namespace stator::capture
