#pragma once

#include <memory>
#include <string>
#include <vector>

#include "capture/guards/global_state.h"
#include "capture/values/source.h"

/// Guards as they run: the source tree flattened into an array of typed checks over a row of object slots.
namespace stator::capture {

/// What a call brings: the bound arguments by localsplus slot, and the function that runs.
struct GuardInput {
  PyObject* const* arguments;
  PyObject* function;
};

struct Check;
struct CheckRun {
  GuardInput input;
  PyObject** slots;
};
/// How many checks to go forward; 0: the check does not hold.
using CheckFn = int (*)(Check& check, CheckRun& run);

struct Check {
  CheckFn fn = nullptr;
  int32_t slot = 0;            // what it looks at, or fills
  int32_t from = 0;            // loads: the parent's slot
  int32_t count = 0;           // an index or a number of checks, by kind
  int32_t fact = -1;           // index into the array's fact list: what it asserts
  PyObject* object = nullptr;  // owned by the fact, or kept valid by a weak watch
  PyObject* extra = nullptr;
  uint64_t number = 0;
};

/// Owned by a cache entry. Holds literals strongly, everything else weakly: when a watched object dies, the array is
/// dead and never holds again. `run` needs the GIL and runs no user code.
class CheckArray {
 public:
  /// Consumes the tree: object references held for capture are dropped.
  CheckArray(std::unique_ptr<SourceTree> tree, std::shared_ptr<const GlobalState> globals);

  bool run(const GuardInput& input);
  /// The object that a loaded source held in the last successful run; borrowed.
  PyObject* slot(int32_t index) const { return slots_[index]; }
  bool is_dead() const { return *dead_; }
  /// Whether the arguments that are guarded by identity are the same objects.
  bool same_identities(const GuardInput& input) const;

  /// Which check failed in a run on this input, what it saw and what it wanted, and the user's line.
  std::string failure(const GuardInput& input);
  /// One line per fact.
  std::vector<std::string> describe() const;
  size_t size() const { return facts_.size(); }

 private:
  struct Builder;

  std::unique_ptr<SourceTree> tree_;
  std::shared_ptr<const GlobalState> globals_;
  std::vector<Check> checks_;
  std::vector<PyObject*> slots_;
  struct Asserted {
    Source* source;
    Fact* fact;
    PyObject* object;  // as Check::object
  };
  std::vector<Asserted> facts_;
  std::vector<Ref> watches_;
  std::shared_ptr<bool> dead_ = std::make_shared<bool>(false);
};

/// The check functions of one fact kind, and how a failure reads; rows in check_kinds.cpp.
struct FactRow {
  CheckFn check;
  /// `object` is what stands at the source now, or null when the path to it is gone.
  std::string (*describe)(const Fact& fact);
  std::string (*saw)(const Fact& fact, PyObject* object);
};
const FactRow& fact_row(FactKind kind);
bool is_invariant(FactKind kind);

/// The load function of one source kind.
CheckFn load_row(SourceKind kind);

}  // namespace stator::capture
