#pragma once

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "capture/guards/check.h"
#include "capture/guards/global_state.h"
#include "capture/guards/likely_failure.h"
#include "capture/guards/shape_guards.h"
#include "capture/guards/word_rows.h"

/// The guards of one entry in the form that runs: the source tree flattened into an array of checks over an array of
/// object slots.
namespace stator::capture {

/// Owned by a cache entry. Owns literals, and watches all other objects that its guards refer to: once one of them
/// died, the array is dead and its guards never hold again. `run` needs the GIL and runs no code of the program. A full
/// pass runs all checks. After it held, a word pass (word_pass.h) gives the same answer faster, until a word changes.
class CheckArray {
 public:
  /// Drops the tree's references to objects of the program.
  CheckArray(std::unique_ptr<SourceTree> tree, std::shared_ptr<const GlobalState> globals);

  bool run(const GuardInput& input);
  /// The same for a call whose arguments are not bound yet. False means only that the fast path does not apply.
  bool run(const RawCall& call, PyObject* function);
  /// Runs only those guards that depend on the arguments or that reading relies on, and requires the same state of
  /// torch. The caller vouches for the others.
  bool run_for_arguments(const GuardInput& input);
  /// Runs all guards but those that only a graph break depended on: whether the plan does what the program does.
  bool run_for_plan(const GuardInput& input);
  /// Whether a graph break depended on some guards that the plan does not need.
  bool has_break() const { return has_break_; }
  /// After that returned true: the keyword names of the call as a tuple; null if there are none.
  PyObject* call_names() const { return call_names_; }
  /// The object that the source of this slot gave in the last run that held; borrowed.
  PyObject* slot(int32_t index) const { return current_[index]; }
  bool is_dead() const { return *dead_; }
  /// Where the objects were whose death made it dead, as far as arguments, variables or stack values lead to them.
  std::vector<std::string> died_at() const;
  /// Makes the array dead when `object` dies. False for objects without weak references.
  bool watch(PyObject* object);
  /// The state of torch (grad mode, autocast, ...) that the guards require.
  const GlobalState& globals() const { return *globals_; }
  /// Whether the call is about the same recurring instances as the captured one: those in the arguments and in
  /// variables of the function's closure. An instance that died counts as the same: where each call brings a new one,
  /// the captures are about the same.
  bool is_about_same(const GuardInput& input) const;

  /// Which check fails first on this input.
  struct Miss {
    std::string text;                // what was expected, what was seen, and the program's line
    const Source* source = nullptr;  // null: no guard of a source failed, but the state of torch or a load
    const Fact* fact = nullptr;
    PyObject* saw = nullptr;       // borrowed
    PyObject* expected = nullptr;  // the object of the fact; borrowed
  };
  Miss miss(const GuardInput& input);
  /// Runs the word pass and the full pass on one input. Empty if they agree, else what they say. The oracle asks this.
  std::string compare_passes(const GuardInput& input);
  /// Collects the Equals and Length guards that fail on this input, and the Tensor guards that fail because of sizes,
  /// as far as the plan depends on them. Stops at the first other check that fails, but for guards on symbolic sizes,
  /// and returns false then.
  bool misses(const GuardInput& input, std::vector<Miss>& into);
  /// One line per fact.
  std::vector<std::string> describe() const;
  /// Nanoseconds of each guard on an input for which all hold, in the order of `describe`; last those of reading the
  /// objects that they are about. Each is measured alone, over many repetitions. Empty if a guard does not hold.
  std::vector<double> costs(const GuardInput& input);
  /// By slot, the path of its source.
  std::vector<std::string> slot_names() const;
  size_t size() const { return facts_.size(); }
  /// How many of them are of this kind.
  size_t count(FactKind kind) const;

 private:
  struct Builder;

  /// Where the captured call had an instance, and which.
  struct Instance {
    int32_t argument;  // bound argument; -1: not in one
    int32_t cell;      // cell of the function's closure
    Ref weak;          // null: the instance cannot be referred to weakly
  };

  /// Calls `take` with each source that has a slot.
  template <class F>
  void for_each_slot(F&& take) const;
  /// The word pass of the call's row, or else the full pass.
  bool run_passes(const GuardInput& input);
  bool run_fully(const GuardInput& input);
  /// Has `likely_failure_` try the check first that fails on this input.
  void learn_failure(const GuardInput& input);
  /// Runs the checks that are not left out.
  template <class F>
  bool run_without(const GuardInput& input, F&& is_left_out);
  /// Whether `run_for_arguments` leaves the check out.
  bool is_vouched_for(const Check& check) const;

  std::unique_ptr<SourceTree> tree_;
  std::shared_ptr<const GlobalState> globals_;
  std::vector<Check> checks_;
  std::vector<SlotInfo> slot_info_;
  std::vector<PyObject*> slots_;  // of the full pass
  std::vector<Ref> fresh_;        // see CheckRun
  PyObject* const* current_ = nullptr;
  PyObject* call_names_ = nullptr;
  WordRows rows_;
  LikelyFailure likely_failure_;
  std::vector<Instance> instances_;
  bool has_break_ = false;
  struct Asserted {
    Source* source;
    Fact* fact;
    PyObject* object;  // as Check::object
  };
  std::vector<Asserted> facts_;
  std::vector<std::pair<int32_t, PyObject*>> identities_;  // arguments that are guarded by identity; compared only
  std::vector<std::unique_ptr<const DistinctSlots>> groups_;
  std::vector<std::unique_ptr<const ShapeCheck>> shape_checks_;
  struct Watch {
    Ref weak;
    const Source* source;  // of the guard that refers to the object; null: it belongs to no single one
  };
  std::vector<Watch> watches_;
  const Source* watching_ = nullptr;  // while the array is built: the source of the guards that are added
  Ref on_death_;                      // the callback of the watches
  std::shared_ptr<bool> dead_ = std::make_shared<bool>(false);
};

}  // namespace stator::capture
