#pragma once

#include <string>
#include <vector>

#include "capture/guards/distinct.h"
#include "capture/values/source.h"

/// One guard in the form that runs: a function over an array of object slots.
namespace stator::capture {

/// A call as the vectorcall protocol passes it, before its arguments are bound to parameters. All references are
/// borrowed.
struct RawCall {
  PyObject* const* args;  // positional arguments, then those given by name
  size_t positional;
  PyObject* const* names;  // names of the latter
  size_t name_count;

  RawCall(PyObject* const* args, size_t positional, PyObject* const* names, size_t name_count)
      : args(args), positional(positional), names(names), name_count(name_count) {}
  /// `names`: tuple or null.
  RawCall(PyObject* const* args, size_t positional, PyObject* names)
      : RawCall(args, positional, names ? reinterpret_cast<PyTupleObject*>(names)->ob_item : nullptr,
                names ? PyTuple_GET_SIZE(names) : 0) {}
};

/// What guards look at: the bound arguments by localsplus slot, and the function that is called. Borrowed.
struct GuardInput {
  PyObject* const* arguments;
  PyObject* function;
  const RawCall* raw = nullptr;  // the call that the arguments were bound from; null at a resume
};

struct Check;
struct CheckRun {
  GuardInput input;
  PyObject** slots;  // borrowed references
  Ref* fresh;        // by slot: objects that a load created, which nothing else owns
};
/// Returns how many checks to advance; 0: the check fails. Runs no code of the program.
using CheckFn = int (*)(Check& check, CheckRun& run);

/// The checks of a plain dict's contents are a block. Its head compares the dict's version tag, and skips the block if
/// the tag is unchanged since the block last held. Its tail stores the tag for the head.
enum class CheckGroup : uint8_t {
  Load,       // fills a slot
  Fact,       // asserts a fact about the object in a slot
  DictHead,   // first of a block
  DictExact,  // in a block: the object is a dict and no subclass
  DictTail,   // last of a block
};

struct Check {
  CheckFn fn = nullptr;
  CheckGroup group = CheckGroup::Load;
  uint8_t kind = 0;            // SourceKind of a load, FactKind of a fact
  bool of_break = false;       // only a graph break depends on it (`Fact::of_break`)
  bool bound_only = false;     // not needed for a raw call whose shape is known (raw_opening.h)
  int32_t slot = 0;            // the slot it reads; loads: the slot it fills
  int32_t from = 0;            // loads: the parent's slot; relations: the other slot
  int32_t count = 0;           // loads: `Source::index`; heads and tails: a number of checks
  int32_t fact = -1;           // index into CheckArray::facts_; -1: no fact
  PyObject* object = nullptr;  // owned by the fact, or alive because the array watches it
  PyObject* extra = nullptr;   // likewise
  uint64_t number = 0;         // by kind: see guard_kinds.def; loads: hash of the key, or an address
};

/// What holds for a slot in every call.
struct SlotInfo {
  bool fixed = false;      // always the same object: guarded by identity, or pinned
  bool pinned = false;     // never loaded: its source is pinned
  bool leaf = true;        // no other slot is loaded from it
  bool read = false;       // a plan may read it
  bool related = false;    // compared with another slot
  bool recurring = false;  // other slots are loaded from the instance there, which calls are likely to bring again
};

/// Whether instances of this class cannot get another `__class__`: only those of Python classes, and modules, can.
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

}  // namespace stator::capture
