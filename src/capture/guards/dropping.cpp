#include "capture/guards/dropping.h"

#include <string_view>
#include <unordered_set>
#include <vector>

#include "capture/pycompat/facts.h"
#include "capture/pycompat/lifetime.h"
#include "capture/pycompat/text.h"

namespace stator::capture {
namespace {

/// A member of a standard module, which keeps it. Null while the module is not imported.
PyObject* member(const char* module, const char* name) {
  Ref key = Ref::steal(PyUnicode_FromString(module));
  Ref found = Ref::steal(PyImport_GetModule(key.get()));
  PyErr_Clear();
  return found ? PyDict_GetItemString(PyModule_GetDict(found.get()), name) : nullptr;
}

/// The function that a callback finally calls, through bound methods, partials and the finalizers of `weakref`.
Ref callee_of(PyObject* callback) {
  static PyObject* const partial = member("functools", "partial");
  static PyObject* const finalize = member("weakref", "finalize");
  static PyObject* const finalizers =
      finalize ? PyDict_GetItemString(reinterpret_cast<PyTypeObject*>(finalize)->tp_dict, "_registry") : nullptr;
  if (PyMethod_Check(callback)) return callee_of(PyMethod_GET_FUNCTION(callback));
  PyObject* type = reinterpret_cast<PyObject*>(Py_TYPE(callback));
  PyObject* holder = type == partial                  ? callback
                     : finalizers && type == finalize ? PyDict_GetItemWithError(finalizers, callback)
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
  return text_of(module).starts_with("torch.");
}

bool holds_observable(PyObject* container) {
  if (!PyObject_IS_GC(container) || !Py_TYPE(container)->tp_traverse) return false;
  visitproc visit = [](PyObject* part, void*) -> int { return finalization_is_observable(part); };
  return Py_TYPE(container)->tp_traverse(container, visit, nullptr) != 0;
}

class Search {
 public:
  explicit Search(PyObject* wanted) : wanted_(wanted) {}

  bool finds_in(PyObject* root) {
    if (!add(root)) return true;
    while (!waiting_.empty()) {
      PyObject* next = waiting_.back();
      waiting_.pop_back();
      traverseproc traverse = PyObject_IS_GC(next) ? Py_TYPE(next)->tp_traverse : nullptr;
      visitproc visit = [](PyObject* part, void* search) -> int {
        try {
          return !static_cast<Search*>(search)->add(part);
        } catch (const std::bad_alloc&) {  // must not pass through the traversal, which is C
          return 1;
        }
      };
      if (traverse && traverse(next, visit, this)) return true;
    }
    return false;
  }

 private:
  /// False if the search is over: the object was found, or too many were seen.
  bool add(PyObject* object) {
    constexpr size_t kMost = 1000;
    if (object == wanted_ || seen_.size() > kMost) return false;
    const bool is_looked_into = !PyType_Check(object) && !PyModule_Check(object) && seen_.insert(object).second;
    if (is_looked_into) waiting_.push_back(object);
    return true;
  }

  PyObject* wanted_;
  std::unordered_set<PyObject*> seen_;
  std::vector<PyObject*> waiting_;
};

}  // namespace

bool finalization_is_observable(PyObject* object, const std::function<bool(PyObject*)>& is_ours) {
  const StatorLifetimeQueries queries = {[](PyObject* part, void* context) -> int {
                                           auto& ask = *static_cast<const std::function<bool(PyObject*)>*>(context);
                                           try {
                                             return ask && ask(part);
                                           } catch (const std::bad_alloc&) {  // must not pass through the search
                                             return 1;
                                           }
                                         },
                                         is_unobservable_callback,
                                         const_cast<std::function<bool(PyObject*)>*>(&is_ours)};
  return stator_finalization_is_observable(object, &queries) != 0;
}

Ref attribute_held_by(PyObject* instance, PyObject* name) {
  PyObject* on_class = _PyType_Lookup(Py_TYPE(instance), name);
  if (!on_class || Py_TYPE(on_class) != &PyMemberDescr_Type) return Ref::borrow(stator_instance_value(instance, name));
  Ref held = Ref::steal(Py_TYPE(on_class)->tp_descr_get(on_class, instance, nullptr));
  if (!held) PyErr_Clear();
  return held;
}

bool drop_is_observable(PyObject* object, Dropped what, PyObject* name) {
  if (what == Dropped::Parts) return holds_observable(object);
  if (what == Dropped::Object) return finalization_is_observable(object);
  Ref held = what == Dropped::Item ? Ref::borrow(stator_dict_get_str(object, name)) : attribute_held_by(object, name);
  return held && finalization_is_observable(held.get());
}

bool is_reachable(PyObject* root, PyObject* wanted) { return Search(wanted).finds_in(root); }

}  // namespace stator::capture
