// Iterators that existed before the capture.
#include "capture/interpreter/iteration/external_iterators.h"

#include <algorithm>

namespace stator::capture {

PyTypeObject* iterated_class(StatorIterKind kind) {
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

ExternalIterator* external_iterator(Interpreter& in, PyObject* object, Source* source) {
  StatorIter iterator = stator_iter(object);
  if (iterator.kind == kStatorIterOther) return nullptr;
  in.guards.add_type(source, Py_TYPE(object));
  auto* made = in.arena.make<ExternalIterator>(object, iterator.kind);
  auto ask = [&](PyObject* inner, int32_t index) {
    made->asked.push_back(
        in.wrap(inner, in.guards.sources().child(source, SourceKind::InnerIterator, index, nullptr, inner)));
  };
  if (iterator.kind == kStatorIterEnumerate) {
    ask(iterator.source, 0);
  } else if (iterator.kind == kStatorIterZip && iterator.source) {
    for (int32_t i = 0; i < PyTuple_GET_SIZE(iterator.source); ++i) ask(PyTuple_GET_ITEM(iterator.source, i), i);
  } else if (iterated_class(iterator.kind)) {
    in.guards.sources().child(source, SourceKind::Iterated, 0, nullptr, iterator.source ? iterator.source : Py_None);
  }
  return made;
}

Value* ExternalIterator::next(Interpreter& in) {
  if (in.effects.is_frozen(this))
    throw Break{BreakId::mutation, "an iterator that a recomputed checkpoint would advance again"};
  in.effects.note_change();
  Value* item = advance(in);
  in.effects.add_take(this);
  return item;
}

/// Breaks because the program changed the container of the iterator. That the iterator has this container is guarded.
[[noreturn]] static void refuse_changed(Interpreter& in, const ExternalIterator* iterator, PyObject* container) {
  const Value* changed = in.objects.find(container);
  if (changed && changed->source && iterated_class(iterator->form))
    in.guards.add_same(in.guards.sources().child(iterator->source, SourceKind::Iterated, 0, nullptr, container),
                       changed->source, true);
  throw Break{BreakId::mutation, "a container that changes while it is iterated"};
}

Value* ExternalIterator::advance(Interpreter& in) {
  if (form == kStatorIterEnumerate) return number(in);
  if (form == kStatorIterZip) return row(in);
  if (ended) return nullptr;
  StatorIter now = stator_iter(real.get());
  if (now.source && in.effects.is_changed(now.source, in.objects)) refuse_changed(in, this, now.source);
  PyObject *key = nullptr, *item = nullptr;
  StatorPeek found = stator_iter_peek(real.get(), taken, &key, &item);
  Ref held_key = Ref::steal(key), held_item = Ref::steal(item);
  if (found == kStatorPeekUnknown) {
    in.guards.add(source, FactKind::UnknownItem, nullptr, taken);
    throw Break{BreakId::unknown_call, "an iterator from outside"};
  }
  if (found == kStatorPeekEnd) {
    ended = true;
    in.guards.add(source, FactKind::Exhausted, nullptr, taken);
    return nullptr;
  }
  auto index = static_cast<int32_t>(taken++);
  Source* place = in.guards.sources().child(source, SourceKind::Upcoming, index, nullptr, item);
  place->loaded = true;  // guards that there is an item
  Value* value = in.wrap(item, place);
  if (!key) return value;
  return in.tuple(
      {in.wrap(key, in.guards.sources().child(source, SourceKind::UpcomingKey, index, nullptr, key)), value});
}

/// The next item of an inner iterator of an enumerate or zip. No effect is logged: the outer one takes the item.
static Value* ask(Interpreter& in, Value* asked, Value* (ExternalIterator::*advance)(Interpreter&)) {
  auto* iterator = dynamic_cast<ExternalIterator*>(asked);
  if (!iterator) throw Break{BreakId::unknown_call, "an iterator from outside"};
  return (iterator->*advance)(in);
}

Value* ExternalIterator::number(Interpreter& in) {
  StatorIter now = stator_iter(real.get());
  if (now.index < 0) throw Break{BreakId::unknown_call, "an iterator from outside"};
  Value* item = ask(in, asked[0], &ExternalIterator::advance);
  if (!item) return nullptr;
  Ref count = Ref::steal(PyLong_FromSsize_t(now.index + taken));
  auto index = static_cast<int32_t>(taken++);
  return in.tuple(
      {in.wrap(count.get(), in.guards.sources().child(source, SourceKind::Counter, index, nullptr, count.get())),
       item});
}

Value* ExternalIterator::row(Interpreter& in) {
  std::vector<Value*> items;
  for (Value* part : asked) {
    Value* item = ask(in, part, &ExternalIterator::advance);
    if (!item && stator_iter(real.get()).count)
      throw Break{BreakId::raises, "the end of a zip whose iterators must end together"};
    if (!item) return nullptr;
    items.push_back(item);
  }
  ++taken;
  return items.empty() ? nullptr : in.tuple(std::move(items));
}

}  // namespace stator::capture
