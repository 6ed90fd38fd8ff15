#include "capture/interpreter/objects/dropped.h"

#include <unordered_set>
#include <vector>

namespace stator::capture {
namespace {

/// Searches the objects that others keep alive. Classes and modules are not searched: they stay alive in any case.
class Search {
 public:
  explicit Search(PyObject* wanted) : wanted_(wanted) {}

  /// Whether the wanted object is reachable from the root, or too much is.
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
    constexpr size_t kMost = 10000;
    if (object == wanted_ || seen_.size() > kMost) return false;
    const bool is_looked_into = !PyType_Check(object) && !PyModule_Check(object) && seen_.insert(object).second;
    if (is_looked_into) waiting_.push_back(object);
    return true;
  }

  PyObject* wanted_;
  std::unordered_set<PyObject*> seen_;
  std::vector<PyObject*> waiting_;
};

/// The objects that the captured frame held when the capture began and still holds at the current instruction.
std::unordered_set<PyObject*> held_variables(const Interpreter& in) {
  std::unordered_set<PyObject*> held;
  auto hold = [&](const Source* source) {
    if (source && source->object) held.insert(source->object.get());
  };
  const Frame* frame = in.frames.current();
  if (!frame) {
    // The captured frame has returned. Its caller holds the arguments, unless the frame is a resumed one.
    for (const Ref& value : in.start.values())
      if (value && !in.start.is_resumed()) held.insert(value.get());
    return held;
  }
  while (frame->caller) frame = frame->caller;
  for (const Source* source : frame->unread) hold(source);
  for (const auto* values : {&frame->locals, &frame->stack})
    for (const Value* value : *values) hold(value ? value->source : nullptr);
  return held;
}

}  // namespace

bool may_have_dropped(const Interpreter& in, PyObject* object) {
  Search search(object);
  if (!in.effects.classes_written.empty()) return true;
  for (auto& [dict, names] : in.effects.globals_written)
    for (auto& [name, value] : names)
      if (PyObject* before = PyDict_GetItemWithError(dict, name); before && search.finds_in(before)) return true;
  for (const Effect& effect : in.effects) {
    const Source* source = effect.target ? effect.target->source : nullptr;
    // A change of the object itself does not drop it.
    if (source && source->object.get() == object) continue;
    if (source && (!source->object || search.finds_in(source->object.get()))) return true;
  }
  const std::unordered_set<PyObject*> held = held_variables(in);
  for (const Ref& value : in.start.values())
    if (value && !held.contains(value.get()) && search.finds_in(value.get())) return true;
  return false;
}

}  // namespace stator::capture
