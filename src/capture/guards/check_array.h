#pragma once

#include <memory>
#include <string>
#include <vector>

#include "capture/guards/check.h"
#include "capture/guards/global_state.h"
#include "capture/guards/word_pass.h"

/// Guards as they run: the source tree flattened into an array of typed checks over a row of object slots.
namespace stator::capture {

/// Owned by a cache entry. Holds literals strongly, everything else weakly: when a watched object dies, the array is
/// dead and never holds again. `run` needs the GIL and runs no user code. A pass over all checks is the guard; once it
/// has held, a pass over words (word_pass.h) stands for it until something changed.
class CheckArray {
 public:
  /// Consumes the tree: object references held for capture are dropped.
  CheckArray(std::unique_ptr<SourceTree> tree, std::shared_ptr<const GlobalState> globals);

  bool run(const GuardInput& input);
  /// As above for a call whose arguments are not laid out yet. False says only that this could not be told quickly.
  bool run(const RawCall& call, PyObject* function);
  /// The names of such a call after it held, as a tuple; null if there are none.
  PyObject* call_names() const { return words_.call_names(); }
  /// The object that a loaded source held in the last successful run; borrowed.
  PyObject* slot(int32_t index) const { return current_[index]; }
  bool is_dead() const { return *dead_; }
  /// The array is dead once `object` is. False for objects that cannot be watched.
  bool watch(PyObject* object);
  /// The ambient state in which the guards held.
  const GlobalState& globals() const { return *globals_; }
  /// Whether the arguments that are guarded by identity are the same objects.
  bool same_identities(const GuardInput& input) const;

  /// Which check fails first on this input.
  struct Miss {
    std::string text;                // what it saw and what it wanted, and the user's line
    const Source* source = nullptr;  // null: it is none of the facts
    const Fact* fact = nullptr;
    PyObject* saw = nullptr;  // borrowed
  };
  Miss miss(const GuardInput& input);
  /// All facts about single values and the lengths of lists that fail on this input, as long as nothing else does.
  /// False if something else fails too.
  bool misses(const GuardInput& input, std::vector<Miss>& into);
  /// One line per fact.
  std::vector<std::string> describe() const;
  size_t size() const { return facts_.size(); }

 private:
  struct Builder;

  bool run_fully(const GuardInput& input);
  void consider_words(const GuardInput& input);

  std::unique_ptr<SourceTree> tree_;
  std::shared_ptr<const GlobalState> globals_;
  std::vector<Check> checks_;
  std::vector<SlotInfo> slot_info_;
  std::vector<PyObject*> slots_;  // of the full pass
  std::vector<Ref> fresh_;        // see CheckRun
  PyObject* const* current_ = nullptr;
  WordPass words_;
  uint32_t uses_ = 0;   // of the words since they were recorded
  uint32_t pause_ = 1;  // full passes until they are recorded
  uint32_t last_pause_ = 1;
  struct Asserted {
    Source* source;
    Fact* fact;
    PyObject* object;  // as Check::object
  };
  std::vector<Asserted> facts_;
  std::vector<std::unique_ptr<const DistinctSlots>> groups_;
  std::vector<Ref> watches_;
  Ref on_death_;  // what they call
  std::shared_ptr<bool> dead_ = std::make_shared<bool>(false);
};

}  // namespace stator::capture
