#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "capture/call/break.h"
#include "capture/call/plan.h"
#include "capture/guards/check_array.h"

namespace stator::graph {
class Graph;
}

namespace stator::capture {

/// Milliseconds of one capture by phase.
struct Phases {
  double interpret = 0, guards = 0, backend = 0;
  double total() const { return interpret + guards + backend; }
};

/// One way a code object was captured: when the guards hold, the plan is right. Published whole and never changed
/// afterwards, but for its counters and the guards' re-armed tags (under the GIL).
struct Entry {
  int32_t offset = 0;  // code unit where the plan begins
  Ref cache_key;       // identity of the backend
  std::string backend;
  std::string function;  // the qualified name of the code
  uint64_t frame_id = 0, compile_id = 0;
  std::optional<int64_t> autograd_id;  // of the compiled backward pass that it was captured in
  std::unique_ptr<CheckArray> guards;
  std::unique_ptr<Plan> plan;  // null: the instruction at `offset` runs for real, or all of the frame does
  bool runs_plain = false;     // the latter
  bool general = false;        // made without values that keep changing: asked after all others
  std::optional<BreakReason> broke;
  bool raises = false;  // it broke for an exception that leaves the frame: the program's own, and nothing unsupported
  std::vector<BoundPlace> bound;  // what the frame must hold, and must not; empty at offset 0
  std::shared_ptr<graph::Graph> graph;
  size_t ops = 0;
  Phases phases;
  uint64_t hits = 0;
  uint64_t used = 0;  // when it was hit or made last, by its cache's clock

  /// Whether the places that were looked at hold something just where they did.
  bool fits(PyObject* const* values) const {
    for (const BoundPlace& place : bound)
      if (place.bound != (values[place.index] != nullptr)) return false;
    return true;
  }
  /// `frame/count`; in a compiled backward pass `!pass/frame/count`.
  std::string id() const {
    std::string pass = autograd_id ? "!" + std::to_string(*autograd_id) + "/" : "";
    return pass + std::to_string(frame_id) + "/" + std::to_string(compile_id);
  }
  /// What profilers show.
  std::string label() const { return "Stator: " + id() + " " + function; }
};

}  // namespace stator::capture
