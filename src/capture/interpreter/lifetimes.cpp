#include "capture/interpreter/lifetimes.h"

#include <algorithm>
#include <unordered_set>

#include "capture/interpreter/interpreter.h"
#include "capture/interpreter/known_types.h"
#include "capture/interpreter/reach.h"
#include "capture/pycompat/lifetime.h"

// Objects die where the program drops them. A capture holds everything that it looked at until its plan has run, so an
// instruction that drops something whose end the program may notice is left to the program.

namespace stator::capture {

namespace {

/// What a callback calls in the end: past bound methods, partial calls, and the finalizers of `weakref`.
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

/// Compilers watch the ends of modules and tensors, Stator by functions that belong to capsules: nothing of that is for
/// the program to see.
int is_quiet(PyObject* callback, void*) {
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

bool Interpreter::ends_aloud(PyObject* object) const {
  // The capture itself holds the parts that were looked at.
  struct Ours {
    const Interpreter* in;
    std::unordered_set<PyObject*> asked;
  } ours{this, {}};
  const StatorEnds asks = {[](PyObject* part, void* context) -> int {
                             auto* mine = static_cast<Ours*>(context);
                             try {
                               return mine->in->by_object_.contains(part) && mine->asked.insert(part).second;
                             } catch (const std::bad_alloc&) {  // must not pass through the search, which is C
                               return 1;
                             }
                           },
                           is_quiet, &ours};
  return stator_ends_aloud(object, &asks) != 0;
}

void Interpreter::let_go(PyObject* object) const {
  if (object && ends_aloud(object)) throw Break{BreakId::lifetime, Py_TYPE(object)->tp_name};
}

bool Interpreter::is_held_by_slot(const Source* source) const {
  return offset_ > 0 && source && source->kind == SourceKind::Argument && source->object;
}

void Interpreter::let_go(const Source* source) const {
  PyObject* object = is_held_by_slot(source) ? source->object.get() : nullptr;
  if (object && ends_aloud(object)) throw Break{BreakId::lifetime, Py_TYPE(object)->tp_name};
}

void Interpreter::let_go(const Frame& from, int slot) const {
  if (!from.locals[slot] && !from.unread.empty() && from.unread[slot])
    let_go(from.unread[slot]);
  else
    let_go(from.locals[slot]);
}

void Interpreter::let_go_of_parts(const Value* container) const {
  PyObject* object = container->source ? container->source->object.get() : nullptr;
  if (!object || !PyObject_IS_GC(object) || !Py_TYPE(object)->tp_traverse) return;
  // A part that others hold now may have no other holder in a later call.
  visitproc let_go = [](PyObject* part, void* in) -> int {
    return static_cast<const Interpreter*>(in)->ends_aloud(part);
  };
  if (Py_TYPE(object)->tp_traverse(object, let_go, const_cast<Interpreter*>(this)))
    throw Break{BreakId::lifetime, std::string("what a ") + Py_TYPE(object)->tp_name + " holds"};
}

const Value* Interpreter::ends_aloud(const std::vector<Value*>& stack, size_t from) const {
  for (size_t i = from; i < stack.size(); ++i) {
    const Source* source = stack[i] ? stack[i]->source : nullptr;
    if (is_held_by_slot(source) && ends_aloud(source->object.get())) return stack[i];
  }
  return nullptr;
}

void Interpreter::watch(Source* source) {
  if (ends_aloud(source->object.get())) watched_.push_back(source);
}

void Interpreter::find_watched(const Frame& current) const {
  Reach reach;
  // A frame that has returned has dropped all but its result.
  if (current.returned)
    reach.add(current.result);
  else
    reach.add(current);
  for (const Frame* f = current.caller; f; f = f->caller) reach.add(*f);
  auto lost = [&] { return std::ranges::find_if_not(watched_, [&](const Source* s) { return reach.has(s); }); };
  // As a rule they are still where they were, and what those places hold in turn need not be looked through.
  if (lost() == watched_.end()) return;
  reach.add_written(*this);
  if (auto found = lost(); found != watched_.end())
    throw Break{BreakId::lifetime, Py_TYPE((*found)->object.get())->tp_name};
}

bool is_reachable(const Interpreter& in, const Value* value, const Value* result) {
  Reach reach;
  for (const Frame* f = in.frame; f; f = f->caller) reach.add(*f);
  reach.add(result);
  reach.add_written(in);
  return reach.has(value);
}

}  // namespace stator::capture
