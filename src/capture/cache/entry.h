#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "capture/call/break.h"
#include "capture/call/plan.h"
#include "capture/guards/check_array.h"
#include "capture/guards/dropping.h"
#include "capture/values/specialised.h"
#include "capture/values/varying.h"

namespace stator::graph {
class Graph;
}

namespace stator::observe {
struct CompilationRecord;
}

namespace stator::capture {

/// What a fresh capture is compared with, and what it must be given to be the same.
struct OracleRecord {
  std::string text;
  std::string settings;
  Varying varying;
  bool break_is_error = false;
  // Of an entry whose guards do not include what its break depended on: where a fresh capture must end.
  uint64_t stop_before = 0;  // a step; 0: anywhere
  BreakId stop_reason{};
};

/// The published result of a capture: if the guards hold, the plan does what the program does. Complete when it is
/// added to a cache. Only its counters and the recorded state of its guards change afterwards, under the GIL.
struct Entry {
  int32_t offset = 0;  // code unit at which the plan begins
  Ref cache_key;       // the backend and options that it was captured for, compared by identity
  std::string backend;
  std::string function;  // the qualified name of the code
  uint64_t frame_id = 0, compile_id = 0;
  std::optional<int64_t> autograd_id;  // of the compiled backward pass in which it was captured
  std::unique_ptr<CheckArray> guards;
  std::unique_ptr<Plan> plan;        // null: nothing was captured. The instruction at `offset` is executed concretely
  bool runs_plain = false;           // CPython runs the rest of the frame; all of it where there is no plan
  bool general = false;              // does not specialise on varying sources: tried after all other entries
  std::optional<BreakReason> broke;  // why the capture ended before the frame did
  bool guards_break = true;          // the guards include what that depended on: another call may not break there
  bool raises = false;               // the break is an exception of the program that leaves the frame
  std::vector<BoundPlace> bound;     // slots of the frame that must be bound, or unbound; empty at offset 0
  std::vector<int32_t> stored;       // slots that must be unbound, or hold what can be dropped unobserved; likewise
  std::vector<Specialised> specialised;  // symbolic sizes and ints that turned out to be one value
  std::vector<MarkedSize> marked;        // sizes that the user marked as dynamic
  std::vector<std::string> changed;      // what became symbolic in this capture: "n: 3, now 4"
  std::vector<const void*> asked;        // callables whose marks the capture looked for; compared only
  std::shared_ptr<graph::Graph> graph;
  Varying specialised_by_backend;  // symbolic sizes and ints that it guarded to have the value of this call
  Varying refused_by_backend;      // numbers and sizes that it takes as constants only: the entry must not be used
  size_t ops = 0;
  std::shared_ptr<const observe::CompilationRecord> record;  // of its capture; null: none was kept
  std::unique_ptr<OracleRecord> oracle;  // only of entries that were made while `config.oracle` was set
  uint64_t hits = 0;
  uint64_t used = 0;  // when it was last hit, or added, by the cache's clock

  /// Whether the same slots of the frame are bound as at the capture, as far as that matters.
  bool fits(PyObject* const* values) const {
    for (const BoundPlace& place : bound)
      if (place.bound != (values[place.index] != nullptr)) return false;
    for (int32_t slot : stored)
      if (values[slot] && drop_is_observable(values[slot], Dropped::Object, nullptr)) return false;
    return true;
  }
  /// `frame_id/compile_id`; in a compiled backward pass `!autograd_id/frame_id/compile_id`.
  std::string id() const {
    std::string pass = autograd_id ? "!" + std::to_string(*autograd_id) + "/" : "";
    return pass + std::to_string(frame_id) + "/" + std::to_string(compile_id);
  }
  /// The name that profilers show.
  std::string label() const { return "Stator: " + id() + " " + function; }
};

}  // namespace stator::capture
