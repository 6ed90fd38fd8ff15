#pragma once

#include <memory>

#include "capture/interpreter/state/frame_stack.h"
#include "capture/values/class_lookups.h"
#include "capture/values/prototypes.h"
#include "capture/values/source.h"
#include "core/base/pointer_map.h"

namespace stator::capture {

/// Records what the capture relied on, as facts in a tree of sources.
///
/// Invariant: every fact held when it was recorded, and names the line of the program that needed it. Objects that only
/// the capture has (prototype classes and their parts) have no facts in the final tree.
class GuardRecorder {
 public:
  GuardRecorder(const FrameStack& frames, Prototypes& prototypes);

  SourceTree& sources() const { return *sources_; }
  /// Adds the facts that an attempt which broke recorded up to this step, as those that its break depended on
  /// (`Fact::of_break`). `broke` is of no use afterwards.
  void add_break(GuardRecorder& broke, uint64_t last_step);
  /// Returns the tree. Called once, when the capture is over.
  std::unique_ptr<SourceTree> take_sources();

  void add(Source* source, FactKind kind, PyObject* object = nullptr, int64_t number = 0);
  void add(Source* source, Fact fact) { sources_->add_fact(source, std::move(fact)); }
  /// The same after the last instruction, for a fact that belongs to no single line and step.
  void add_at_end(Source* source, Fact fact);
  void add_at_end(Source* source, FactKind kind, int64_t number) { add_at_end(source, {kind, Ref(), Ref(), number}); }
  void add_type(Source* source, PyTypeObject* type) {
    add(source, FactKind::TypeIs, reinterpret_cast<PyObject*>(type));
  }
  /// A fact that becomes a guard only if the attempt breaks later.
  void add_for_break(Source* source, Fact fact);
  /// Guards that all lookups on the class give the same results.
  void add_class(PyTypeObject* type);
  /// The source of an object in the class's own dict, that the program reads and that is not a descriptor. The class,
  /// or one that inherits from it, must be guarded. Null for classes that never change.
  Source* class_item(PyTypeObject* owner, PyObject* name, PyObject* object);
  /// The names that lookups on classes asked for.
  ClassLookups& lookups() { return *lookups_; }
  /// Guards that the sources give the same object, or different objects.
  void add_same(Source* a, Source* b, bool same);

 private:
  struct Different {
    Source *a, *b;
    UserLine line;
    uint64_t step;
  };
  /// Adds all facts to the tree except contents of classes; differences of objects only up to this step.
  void complete(uint64_t last_step = UINT64_MAX);
  void emit_differences();
  bool needs_guard(PyTypeObject* type);
  void guard_lookups();

  const FrameStack& frames_;
  Prototypes& prototypes_;
  std::unique_ptr<SourceTree> sources_;
  std::shared_ptr<ClassLookups> lookups_ = std::make_shared<ClassLookups>();
  PointerMap<bool> guarded_classes_;
  struct ForBreak {
    Source* source;
    Fact fact;
    uint64_t step;
  };
  std::vector<ForBreak> for_break_;
  std::vector<Different> different_;  // pairs of sources that gave different objects; become facts at the end
};

}  // namespace stator::capture
