#include "capture/interpreter/state/lifetimes.h"

#include <algorithm>
#include <unordered_set>

#include "capture/interpreter/state/guard_recorder.h"
#include "capture/interpreter/state/reach.h"

namespace stator::capture {

bool Lifetimes::finalization_is_observable(PyObject* object) const {
  // The capture itself holds one more reference to each part that was examined.
  std::unordered_set<PyObject*> asked;
  return capture::finalization_is_observable(
      object, [&](PyObject* part) { return objects_.contains(part) && asked.insert(part).second; });
}

static std::string class_name(PyObject* object) { return object ? Py_TYPE(object)->tp_name : ""; }

void Lifetimes::drop(PyObject* object) const {
  if (drop_is_observable(object)) throw Break{BreakId::lifetime, class_name(object)};
}

/// A later call may drop another object in its place: what was found is guarded. Breaks if it is observable.
void Lifetimes::guard_drop(bool is_observable, Source* source, Dropped what, PyObject* name,
                           const std::string& text) const {
  const FactKind kind = is_observable ? FactKind::ObservableDrop : FactKind::UnobservableDrop;
  if (source) guards_.add(source, kind, name, static_cast<int64_t>(what));
  if (is_observable) throw Break{BreakId::lifetime, text};
}

void Lifetimes::drop_attribute(PyObject* owner, Source* source, PyObject* name) const {
  Ref held = attribute_held_by(owner, name);
  guard_drop(drop_is_observable(held.get()), source, Dropped::Attribute, name, class_name(held.get()));
}

void Lifetimes::drop_item(Source* dict, PyObject* name) const {
  PyObject* held = PyDict_GetItemWithError(dict->object.get(), name);
  guard_drop(drop_is_observable(held), dict, Dropped::Item, name, class_name(held));
}

void Lifetimes::drop_contents(const CellValue* cell) const {
  PyObject* held = PyCell_GET(cell->external.get());
  guard_drop(drop_is_observable(held), cell->source, Dropped::Parts, nullptr, class_name(held));
}

bool Lifetimes::is_held_by_slot(const Source* source) const {
  return start_.is_resumed() && source && source->kind == SourceKind::Argument && source->object;
}

void Lifetimes::drop(Source* source) const {
  if (!is_held_by_slot(source)) return;
  PyObject* held = source->object.get();
  guard_drop(drop_is_observable(held), source, Dropped::Object, nullptr, class_name(held));
}

void Lifetimes::drop_slot(const Frame& frame, int slot) const {
  if (!frame.locals[slot] && !frame.unread.empty() && frame.unread[slot])
    drop(frame.unread[slot]);
  else
    drop(frame.locals[slot]);
}

void Lifetimes::drop_parts_of(const Value* container) const {
  PyObject* object = container->source ? container->source->object.get() : nullptr;
  if (!object || !PyObject_IS_GC(object) || !Py_TYPE(object)->tp_traverse) return;
  // A part that has other references now may have none in a later call.
  visitproc visit = [](PyObject* part, void* lifetimes) -> int {
    return static_cast<const Lifetimes*>(lifetimes)->finalization_is_observable(part);
  };
  const bool is_observable = Py_TYPE(object)->tp_traverse(object, visit, const_cast<Lifetimes*>(this)) != 0;
  guard_drop(is_observable, container->source, Dropped::Parts, nullptr, "what a " + class_name(object) + " holds");
}

const Value* Lifetimes::find_observable(const std::vector<Value*>& stack, size_t from) const {
  for (size_t i = from; i < stack.size(); ++i) {
    const Source* source = stack[i] ? stack[i]->source : nullptr;
    if (is_held_by_slot(source) && finalization_is_observable(source->object.get())) return stack[i];
  }
  return nullptr;
}

/// Whether the finalization of no object of this class is observable.
static bool is_never_observable(PyTypeObject* type) {
  return !(type->tp_flags & Py_TPFLAGS_HAVE_GC) && !PyType_SUPPORTS_WEAKREFS(type) && !type->tp_finalize &&
         !type->tp_del;
}

void Lifetimes::watch(Source* source) {
  PyObject* object = source->object.get();
  if (finalization_is_observable(object))
    watched_.push_back(source);
  else if (!is_never_observable(Py_TYPE(object)))
    unobservable_.push_back(source);
}

void Lifetimes::guard_lost(const Frame* frames, const Value* result) const {
  if (unobservable_.empty()) return;
  const Reach reach = reach_of(frames, result);
  for (Source* source : unobservable_)
    if (!reach.has(source)) drop(source);
}

void Lifetimes::find_lost(const Frame& current) const {
  Reach reach;
  // A frame that has returned has dropped all but its result.
  if (current.returned)
    reach.add(current.result);
  else
    reach.add(current);
  for (const Frame* f = current.caller; f; f = f->caller) reach.add(*f);
  auto lost = [&] { return std::ranges::find_if_not(watched_, [&](const Source* s) { return reach.has(s); }); };
  // Usually the frames still hold them directly, and no search is needed.
  if (lost() == watched_.end()) return;
  reach.add_written(effects_);
  if (auto found = lost(); found != watched_.end())
    throw Break{BreakId::lifetime, Py_TYPE((*found)->object.get())->tp_name};
}

Reach Lifetimes::reach_of(const Frame* frames, const Value* result) const {
  Reach reach;
  for (const Frame* f = frames; f; f = f->caller) reach.add(*f);
  reach.add(result);
  reach.add_written(effects_);
  return reach;
}

bool Lifetimes::is_reachable(const Frame* frames, const Value* value, const Value* result) const {
  return reach_of(frames, result).has(value);
}

}  // namespace stator::capture
