#pragma once

#include <string>
#include <vector>

#include "capture/values/source.h"

/// One guard as it runs: a function over a row of object slots.
namespace stator::capture {

/// A call as it comes, before its arguments are laid out. Borrowed.
struct RawCall {
  PyObject* const* args;  // positional arguments, then those given by name
  size_t positional;
  PyObject* const* names;  // of the latter
  size_t name_count;

  RawCall(PyObject* const* args, size_t positional, PyObject* const* names, size_t name_count)
      : args(args), positional(positional), names(names), name_count(name_count) {}
  /// `names`: tuple or null.
  RawCall(PyObject* const* args, size_t positional, PyObject* names)
      : RawCall(args, positional, names ? reinterpret_cast<PyTupleObject*>(names)->ob_item : nullptr,
                names ? PyTuple_GET_SIZE(names) : 0) {}
};

/// What a call brings: the bound arguments by localsplus slot, and the function that runs.
struct GuardInput {
  PyObject* const* arguments;
  PyObject* function;
  const RawCall* raw = nullptr;  // where the arguments were bound from, if from a call
};

struct Check;
struct CheckRun {
  GuardInput input;
  PyObject** slots;  // borrowed references
  Ref* fresh;        // by slot: objects that a load made, which nothing else holds
};
/// How many checks to go forward; 0: the check does not hold. Runs no user code.
using CheckFn = int (*)(Check& check, CheckRun& run);

/// A check either fills a slot (Load), asserts a fact of one, or belongs to the block of an exact dict: head (fast
/// accept, goes past the tail), what the block holds, tail (makes the fast accept stand for what was just seen).
enum class CheckGroup : uint8_t { Load, Fact, DictHead, DictExact, DictTail };

struct Check {
  CheckFn fn = nullptr;
  CheckGroup group = CheckGroup::Load;
  uint8_t kind = 0;            // SourceKind of a load, FactKind of a fact
  bool bound_only = false;     // follows from the form of the call where that is known (raw_opening.h)
  int32_t slot = 0;            // what it looks at, or fills
  int32_t from = 0;            // loads: the parent's slot
  int32_t count = 0;           // an index or a number of checks, by kind
  int32_t fact = -1;           // index into the array's fact list: what it asserts
  PyObject* object = nullptr;  // owned by the fact, or kept valid by a weak watch
  PyObject* extra = nullptr;
  uint64_t number = 0;
};

/// Slots of which the first `changed` hold objects that no other slot here holds.
struct DistinctSlots {
  std::vector<int32_t> slots;
  size_t changed;
};

/// What is known of a slot whatever a call brings.
struct SlotInfo {
  bool fixed = false;    // always the same object: asserted by identity, or following from other guards
  bool pinned = false;   // not loaded
  bool leaf = true;      // nothing is loaded from it
  bool read = false;     // a plan may read it
  bool related = false;  // compared with another slot
};

/// Instances of this class stay instances of it: only those of Python classes, and modules, can be given another.
inline bool has_constant_instances(const PyTypeObject* type) {
  return !(type->tp_flags & Py_TPFLAGS_HEAPTYPE) && type != &PyModule_Type;
}

/// Runs checks in order; false at the first that does not hold.
inline bool run_checks(Check* check, Check* end, CheckRun& run) {
  while (check < end) {
    int step = check->fn(*check, run);
    if (step == 0) return false;
    check += step;
  }
  return true;
}

/// Tables by kind have this many rows.
inline constexpr size_t kLoadKinds = static_cast<size_t>(SourceKind::Cached) + 1;
inline constexpr size_t kFactKinds = 0
#define STATOR_GUARD(name, invariant) +1
#include "capture/values/guard_kinds.def"
#undef STATOR_GUARD
    ;

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
