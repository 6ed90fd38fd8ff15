// Changes of external objects that a plan makes when it ends.
#include <algorithm>

#include "capture/guards/literals.h"
#include "capture/interpreter/assembly/assembler.h"
#include "capture/pycompat/text.h"

namespace stator::capture {

bool Assembler::emit_changes(DictValue* dict, int32_t target) {
  PyObject* before = dict->external.get();
  if (!before || !PyDict_CheckExact(before)) return false;
  // Attributes that were written before the dict became their holder have effects of their own.
  for (const Effect& effect : in_.effects) {
    auto* owner = as<ObjectValue>(effect.target);
    if (owner && owner->own == dict) return false;
  }
  std::vector<PyObject*> keys;
  Py_ssize_t position = 0;
  PyObject *key, *value;
  while (PyDict_Next(before, &position, &key, &value)) keys.push_back(key);
  bool is_fixed = keys.size() <= dict->entries.size() && std::all_of(keys.begin(), keys.end(), is_literal);
  for (auto& entry : dict->entries) {
    auto* name = as<ConstantValue>(entry.key);
    is_fixed = is_fixed && (!entry.key || (name && name->literal));
  }
  if (!is_fixed) return false;
  for (size_t i = 0; i < keys.size(); ++i)
    if (!dict->entries[i].key) add({StepKind::SetItem, target, -1, Ref::borrow(keys[i])});
  for (size_t i = 0; i < dict->entries.size(); ++i) {
    DictValue::Entry& entry = dict->entries[i];
    if (!entry.key) continue;
    const Ref& name = static_cast<ConstantValue*>(entry.key)->object;
    const Source* from = entry.value->source;
    bool is_there = i < keys.size() && from && from->kind == SourceKind::DictItem && from->parent == dict->source &&
                    literal_equal(from->key.get(), name.get());
    if (is_there) continue;
    int32_t stored = emit(entry.value);
    add({StepKind::SetItem, target, stored, name});
  }
  return true;
}

void Assembler::emit_effect(const Effect& effect) {
  int32_t target = emit(effect.target);
  auto name = [&] { return static_cast<ConstantValue*>(effect.key)->object; };
  switch (effect.kind) {
    case EffectKind::Make:
      return;
    case EffectKind::Take:
      add({StepKind::Take, target, effect.count});
      return;
    case EffectKind::SetAttr: {
      int32_t value = emit(effect.value);
      add({StepKind::SetAttribute, target, value, name()});
      return;
    }
    case EffectKind::DelAttr:
      add({StepKind::SetAttribute, target, -1, name()});
      return;
    case EffectKind::SetGlobal: {
      int32_t value = emit(effect.value);
      add({StepKind::SetItem, target, value, name()});
      return;
    }
    case EffectKind::SetCell: {
      int32_t value = emit(effect.value);
      add({StepKind::SetCell, target, value});
      return;
    }
    case EffectKind::ListReplace: {
      auto* list = as_sequence(effect.target);
      Step step{StepKind::FillList, target};
      for (size_t i = 0; i < list->items.size(); ++i) step.items.push_back(emit(in_.item(list, i)));
      add(std::move(step));
      return;
    }
    case EffectKind::DictReplace: {
      auto* dict = as<DictValue>(effect.target);
      if (emit_changes(dict, target)) return;
      Step step{StepKind::FillDict, target};
      step.items = dict_items(dict);
      add(std::move(step));
      return;
    }
    case EffectKind::CallMethod: {
      std::vector<int32_t> arguments;
      for (Value* argument : as_sequence(effect.value)->items) arguments.push_back(emit(argument));
      Step step{StepKind::CallMethod, target, -1, name()};
      if (effect.target->kind == Kind::Set)
        step = call_on_set(target, text_of(name().get()).c_str(), std::move(arguments));
      else
        step.items = std::move(arguments);
      add(std::move(step));
      return;
    }
    case EffectKind::DelGlobal:
      add({StepKind::SetItem, target, -1, name()});
      return;
  }
}

}  // namespace stator::capture
