// What is done once for a plan before it runs: stores are merged, and references to objects of the program are given
// up.
#include "capture/call/plan.h"
#include "capture/pycompat/facts.h"

namespace stator::capture {
namespace {

// Column `observes` of plan_steps.def: whether a step runs code of the program, which could observe the stores before
// it.
bool never(const Step&) { return false; }
bool always(const Step&) { return true; }
bool with_items(const Step& step) { return !step.items.empty(); }
bool unless_text_key(const Step& step) { return !PyUnicode_CheckExact(step.object.get()); }
/// Keys are hashed.
bool unless_empty_dict(const Step& step) {
  return step.object.as<PyTypeObject>() != &PyDict_Type || !step.items.empty();
}

using Predicate = bool (*)(const Step&);
constexpr Predicate kObserves[] = {
#define STATOR_STEP(name, make, text, a, b, observes) observes,
#include "capture/call/plan_steps.def"
#undef STATOR_STEP
};

bool observes_stores(const Step& step) { return kObserves[static_cast<size_t>(step.kind)](step); }

/// Whether the program cannot notice that this value is made and dropped.
bool is_plain_value(const Step& step) { return !observes_stores(step) && step.kind != StepKind::NewObject; }

bool is_store(const Step& step, int32_t owner) {
  return step.kind == StepKind::SetAttribute && step.a == owner && step.b >= 0;
}

class Preparation {
 public:
  explicit Preparation(std::vector<Step>& steps) : steps_(steps) {}

  void run() {
    for (size_t i = 0; i < steps_.size(); ++i) {
      if (steps_[i].kind == StepKind::NewObject) merge_stores(i);
      if (steps_[i].kind == StepKind::FillDict && is_fresh(i)) steps_[i].hint = StepHint::Fresh;
      if (is_store(steps_[i], steps_[i].a)) merge_overwritten(i);
    }
  }

 private:
  /// A store to an object that this plan did not make.
  bool stores_outside(const Step& step) {
    bool stores =
        step.kind == StepKind::SetAttribute || step.kind == StepKind::SetCell || step.kind == StepKind::SetItem;
    return stores && steps_[step.a].kind != StepKind::NewObject && steps_[step.a].kind != StepKind::NewCell;
  }

  /// Stores all attributes of a new object in one step, at the position of the last store.
  void merge_stores(size_t object) {
    auto* type = steps_[object].object.as<PyTypeObject>();
    if (!type) return;
    std::vector<size_t> stores;
    for (size_t i = object + 1; i < steps_.size() && !observes_stores(steps_[i]) && !stores_outside(steps_[i]); ++i)
      if (is_store(steps_[i], static_cast<int32_t>(object))) stores.push_back(i);
    if (stores.size() < 2) return;
    Ref names = Ref::steal(PyDict_New());
    std::vector<int32_t> values;
    for (size_t i : stores) {
      PyObject* name = steps_[i].object.get();
      PyObject* on_class = _PyType_Lookup(type, name);
      if ((on_class && Py_TYPE(on_class)->tp_descr_set) || PyDict_Contains(names.get(), name) != 0) return;
      const Step& value = steps_[steps_[i].b];
      bool is_constant = value.kind == StepKind::Constant;
      if (PyDict_SetItem(names.get(), name, is_constant ? value.object.get() : Py_None) < 0) return PyErr_Clear();
      values.push_back(is_constant ? -1 : steps_[i].b);
    }
    Ref all = Ref::steal(PySequence_Tuple(names.get()));
    if (!all) return PyErr_Clear();
    for (size_t i : stores) steps_[i].hint = StepHint::Merged;
    Step& last = steps_[stores.back()];
    last.kind = StepKind::SetAttributes;
    last.object = std::move(names);
    last.extra = std::move(all);
    last.items = std::move(values);
    last.number = stator_type_assign_version(type);
  }

  /// Whether a FillDict step fills a dict that this plan made and that is still empty.
  bool is_fresh(size_t fill) {
    int32_t target = steps_[fill].a;
    if (steps_[target].kind != StepKind::NewObject) return false;
    for (size_t i = target + 1; i < fill; ++i) {
      const Step& step = steps_[i];
      if (observes_stores(step) && step.kind != StepKind::SetAttributes && step.kind != StepKind::FillDict)
        return false;
      if ((step.kind == StepKind::SetItem || step.kind == StepKind::FillDict) && step.a == target) return false;
    }
    return true;
  }

  /// Merges a store into a later one that overwrites it before any step can observe the value.
  void merge_overwritten(size_t store) {
    Step& step = steps_[store];
    if (step.hint == StepHint::Merged || !is_plain_value(steps_[step.b])) return;
    for (size_t i = store + 1; i < steps_.size() && !observes_stores(steps_[i]); ++i) {
      Step& later = steps_[i];
      if (!is_store(later, step.a) || PyUnicode_Compare(later.object.get(), step.object.get()) != 0) continue;
      later.hint = StepHint::Overwrites;
      later.items = std::move(step.items);
      later.items.push_back(step.b);
      step.hint = StepHint::Merged;
      return;
    }
  }

  std::vector<Step>& steps_;
};

}  // namespace

void Plan::disown_watched(CheckArray& guards) {
  for (Step& step : steps) {
    PyObject* object = step.object.get();
    if (!object) continue;
    bool is_class = PyType_Check(object) && PyType_HasFeature(step.object.as<PyTypeObject>(), Py_TPFLAGS_HEAPTYPE);
    if (!is_class && !PyFunction_Check(object) && !PyModule_CheckExact(object)) continue;
    if (!guards.watch(object)) continue;
    step.object.disown();
    disowned_.push_back(object);
  }
}

void Plan::prepare() {
  Preparation(steps).run();
  for (size_t i = 0; i < steps.size(); ++i)
    if (steps[i].hint != StepHint::Merged || steps[i].kind != StepKind::SetAttribute)
      (steps[i].kind == StepKind::Slot ? slots_ : order_).push_back(static_cast<int32_t>(i));
}

}  // namespace stator::capture
