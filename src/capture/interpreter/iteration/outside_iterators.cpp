// Iterators that the program was given, or that a break left on the stack of its loop.
#include "capture/interpreter/iteration/outside_iterators.h"

#include <algorithm>

namespace stator::capture {

/// What iterators of this kind go over, where that can change; else null.
static PyTypeObject* iterated_class(StatorIterKind kind) {
  switch (kind) {
    case kStatorIterList:
    case kStatorIterListReversed:
      return &PyList_Type;
    case kStatorIterDictKeys:
    case kStatorIterDictValues:
    case kStatorIterDictItems:
      return &PyDict_Type;
    default:
      return nullptr;
  }
}

OutsideIterator* outside_iterator(Interpreter& in, PyObject* object, Source* source) {
  StatorIter iterator = stator_iter(object);
  if (iterator.kind == kStatorIterOther) return nullptr;
  in.guard_type(source, Py_TYPE(object));
  auto* made = in.arena.make<OutsideIterator>(object, iterator.kind);
  auto ask = [&](PyObject* inner, int32_t index) {
    made->asked.push_back(in.wrap(inner, in.sources().child(source, SourceKind::Asked, index, nullptr, inner)));
  };
  if (iterator.kind == kStatorIterEnumerate) {
    ask(iterator.source, 0);
  } else if (iterator.kind == kStatorIterZip && iterator.source) {
    for (int32_t i = 0; i < PyTuple_GET_SIZE(iterator.source); ++i) ask(PyTuple_GET_ITEM(iterator.source, i), i);
  } else if (iterated_class(iterator.kind)) {
    in.sources().child(source, SourceKind::Iterated, 0, nullptr, iterator.source ? iterator.source : Py_None);
  }
  return made;
}

Value* OutsideIterator::next(Interpreter& in) {
  if (in.frozen_values && in.arena.is_among_first(this, *in.frozen_values))
    throw Break{BreakId::mutation, "an iterator that would go on again when a checkpointed part is computed anew"};
  ++in.mutations;
  Value* item = advance(in);
  if (!in.effects.empty() && in.effects.back().kind == EffectKind::Take && in.effects.back().target == this)
    ++in.effects.back().count;
  else
    in.effects.push_back({EffectKind::Take, this, nullptr, nullptr, 1});
  return item;
}

Value* OutsideIterator::advance(Interpreter& in) {
  if (form == kStatorIterEnumerate) return number(in);
  if (form == kStatorIterZip) return row(in);
  if (ended) return nullptr;
  StatorIter now = stator_iter(real.get());
  if (now.source && in.is_changed(now.source))
    throw Break{BreakId::mutation, "a container that changes while it is iterated"};
  PyObject *key = nullptr, *item = nullptr;
  StatorPeek found = stator_iter_peek(real.get(), taken, &key, &item);
  Ref held_key = Ref::steal(key), held_item = Ref::steal(item);
  if (found == kStatorPeekUnknown) throw Break{BreakId::unknown_call, "an iterator from outside"};
  if (found == kStatorPeekEnd) {
    ended = true;
    in.guard(source, FactKind::Exhausted, nullptr, taken);
    return nullptr;
  }
  auto index = static_cast<int32_t>(taken++);
  Source* place = in.sources().child(source, SourceKind::Upcoming, index, nullptr, item);
  place->loaded = true;  // there must be one, whatever it is
  Value* value = in.wrap(item, place);
  if (!key) return value;
  return in.tuple({in.wrap(key, in.sources().child(source, SourceKind::UpcomingKey, index, nullptr, key)), value});
}

/// Of an iterator that the real one asks: the real one takes from it.
static Value* ask(Interpreter& in, Value* asked, Value* (OutsideIterator::*advance)(Interpreter&)) {
  auto* iterator = dynamic_cast<OutsideIterator*>(asked);
  if (!iterator) throw Break{BreakId::unknown_call, "an iterator from outside"};
  return (iterator->*advance)(in);
}

Value* OutsideIterator::number(Interpreter& in) {
  StatorIter now = stator_iter(real.get());
  if (now.index < 0) throw Break{BreakId::unknown_call, "an iterator from outside"};
  Value* item = ask(in, asked[0], &OutsideIterator::advance);
  if (!item) return nullptr;
  Ref count = Ref::steal(PyLong_FromSsize_t(now.index + taken));
  auto index = static_cast<int32_t>(taken++);
  return in.tuple(
      {in.wrap(count.get(), in.sources().child(source, SourceKind::Counter, index, nullptr, count.get())), item});
}

Value* OutsideIterator::row(Interpreter& in) {
  std::vector<Value*> items;
  for (Value* part : asked) {
    Value* item = ask(in, part, &OutsideIterator::advance);
    if (!item && stator_iter(real.get()).count)
      throw Break{BreakId::raises, "the end of a zip whose iterators must end together"};
    if (!item) return nullptr;
    items.push_back(item);
  }
  ++taken;
  return items.empty() ? nullptr : in.tuple(std::move(items));
}

bool Interpreter::is_changed(PyObject* object) const {
  if (globals_written.contains(object) || (PyDict_Check(object) && !classes_written.empty())) return true;
  auto known = by_object_.find(object);
  auto owner = instance_dicts_.find(object);
  const Value* value = known == by_object_.end() ? nullptr : known->second;
  const Value* instance = owner == instance_dicts_.end() ? nullptr : owner->second;
  return std::any_of(effects.begin(), effects.end(), [&](const Effect& effect) {
    return effect.target && (effect.target == value || effect.target == instance);
  });
}

/// Whether no call can bring another object there.
static bool is_fixed(const Source* source) {
  if (source->kind == SourceKind::Pinned) return true;
  return std::any_of(source->facts.begin(), source->facts.end(),
                     [](const Fact& fact) { return fact.kind == FactKind::Identity; });
}

void Interpreter::guard_distinct() {
  struct Seen {
    Source* source;
    PyTypeObject* type;
    bool changed;
  };
  std::unordered_set<const Value*> targets;
  for (const Effect& effect : effects) targets.insert(effect.target);
  std::vector<Seen> seen;
  bool any = false;
  for (auto& [object, value] : by_object_) {
    if (!value->source || value->kind == Kind::Tensor || value->kind == Kind::Constant) continue;
    if (prototypes.owns(value->source)) continue;
    bool changed = targets.contains(value);
    if (auto* iterator = dynamic_cast<OutsideIterator*>(value)) {
      changed = iterator->taken > 0 || iterator->ended;
      for (Source* child : value->source->children)
        if (child->kind == SourceKind::Iterated) seen.push_back({child, iterated_class(iterator->form), false});
    }
    any = any || changed;
    // Subclasses of these go where their base goes.
    PyTypeObject* type = PyDict_Check(object) ? &PyDict_Type : PyList_Check(object) ? &PyList_Type : Py_TYPE(object);
    seen.push_back({value->source, type, changed});
  }
  if (!any) return;
  std::unordered_map<PyTypeObject*, std::vector<Seen>> by_type;
  for (const Seen& one : seen) by_type[one.type].push_back(one);
  for (auto& [type, all] : by_type) {
    // What was iterated before it was changed is the one thing in two places that a capture knows of.
    std::unordered_set<PyObject*> changed;
    for (const Seen& one : all)
      if (one.changed) changed.insert(one.source->object.get());
    auto group = std::make_shared<std::vector<Source*>>();
    bool fixed = true;
    for (bool first : {true, false})
      for (const Seen& one : all) {
        if (one.changed != first || (!first && changed.contains(one.source->object.get()))) continue;
        group->push_back(one.source);
        fixed = fixed && is_fixed(one.source);
      }
    if (changed.empty() || group->size() < 2 || fixed) continue;
    for (Source* source : *group) source->loaded = true;
    Fact fact{FactKind::Distinct, Ref(), Ref(), static_cast<int64_t>(changed.size()), user_line()};
    fact.group = group;
    sources_->add_fact(group->front(), std::move(fact));
  }
}

}  // namespace stator::capture
