#include "capture/interpreter/state/lifetimes.h"

#include <algorithm>
#include <unordered_set>

#include "capture/interpreter/state/known_types.h"
#include "capture/interpreter/state/reach.h"
#include "capture/pycompat/lifetime.h"

namespace stator::capture {

namespace {

/// The function that a callback finally calls, through bound methods, partials and the finalizers of `weakref`.
Ref callee_of(PyObject* callback) {
  static PyObject* const partial = known_object("functools.partial");
  static PyObject* const finalize = known_object("weakref.finalize");
  static PyObject* const finalizers = known_object("weakref.finalize._registry");
  if (PyMethod_Check(callback)) return callee_of(PyMethod_GET_FUNCTION(callback));
  PyObject* type = reinterpret_cast<PyObject*>(Py_TYPE(callback));
  PyObject* holder = type == partial    ? callback
                     : type == finalize ? PyDict_GetItemWithError(finalizers, callback)
                                        : nullptr;
  Ref callee = holder ? Ref::steal(PyObject_GetAttrString(holder, "func")) : Ref();
  PyErr_Clear();
  return callee ? callee_of(callee.get()) : Ref::borrow(callback);
}

/// Whether a weak reference's callback is not observable: those of compilers, which watch modules and
/// tensors, and Stator's own, which belong to capsules.
int is_unobservable_callback(PyObject* callback, void*) {
  Ref callee = callee_of(callback);
  if (PyCFunction_Check(callee.get())) {
    PyObject* self = PyCFunction_GET_SELF(callee.get());
    return self && PyCapsule_CheckExact(self);
  }
  if (!PyFunction_Check(callee.get())) return false;
  PyObject* module = PyDict_GetItemString(PyFunction_GET_GLOBALS(callee.get()), "__name__");
  return module && PyUnicode_Check(module) && std::string_view(PyUnicode_AsUTF8(module)).starts_with("torch.");
}

}  // namespace

bool Lifetimes::finalization_is_observable(PyObject* object) const {
  // The capture itself holds one more reference to each part that was examined.
  struct Ours {
    const ObjectMap& objects;
    std::unordered_set<PyObject*> asked;
  } ours{objects_, {}};
  const StatorLifetimeQueries queries = {
      [](PyObject* part, void* context) -> int {
        auto* mine = static_cast<Ours*>(context);
        try {
          return mine->objects.contains(part) && mine->asked.insert(part).second;
        } catch (const std::bad_alloc&) {  // must not pass through the search, which is C
          return 1;
        }
      },
      is_unobservable_callback, &ours};
  return stator_finalization_is_observable(object, &queries) != 0;
}

void Lifetimes::drop(PyObject* object) const {
  if (object && finalization_is_observable(object)) throw Break{BreakId::lifetime, Py_TYPE(object)->tp_name};
}

bool Lifetimes::is_held_by_slot(const Source* source) const {
  return start_.is_resumed() && source && source->kind == SourceKind::Argument && source->object;
}

void Lifetimes::drop(const Source* source) const {
  if (is_held_by_slot(source)) drop(source->object.get());
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
  visitproc is_observable = [](PyObject* part, void* lifetimes) -> int {
    return static_cast<const Lifetimes*>(lifetimes)->finalization_is_observable(part);
  };
  if (Py_TYPE(object)->tp_traverse(object, is_observable, const_cast<Lifetimes*>(this)))
    throw Break{BreakId::lifetime, std::string("what a ") + Py_TYPE(object)->tp_name + " holds"};
}

const Value* Lifetimes::find_observable(const std::vector<Value*>& stack, size_t from) const {
  for (size_t i = from; i < stack.size(); ++i) {
    const Source* source = stack[i] ? stack[i]->source : nullptr;
    if (is_held_by_slot(source) && finalization_is_observable(source->object.get())) return stack[i];
  }
  return nullptr;
}

void Lifetimes::watch(Source* source) {
  if (finalization_is_observable(source->object.get())) watched_.push_back(source);
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

bool Lifetimes::is_reachable(const Frame* frames, const Value* value, const Value* result) const {
  Reach reach;
  for (const Frame* f = frames; f; f = f->caller) reach.add(*f);
  reach.add(result);
  reach.add_written(effects_);
  return reach.has(value);
}

}  // namespace stator::capture
