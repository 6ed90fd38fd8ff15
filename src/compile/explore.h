#pragma once

#include <optional>

#include "compile/run_attempt.h"

namespace stator {

/// What all attempts of one capture led to.
struct Exploration {
  AttemptResult result;                       // gives the guards and, if it has a graph, the plan
  std::optional<capture::BreakReason> broke;  // the break that is reported; it may be that of an earlier attempt
  /// The earlier attempt that met the break, or whose graph is split there; null: `result` met it, or there is none.
  /// That the capture ends there depends on its facts of steps up to `break_step`, the plan only on those of `result`.
  std::unique_ptr<capture::Interpreter> met_break;
  uint64_t break_step = 0;
  bool runs_plain = false;  // the break could not be reached: CPython runs the frame
  bool raises = false;      // the break is an exception of the program that leaves the frame

  /// Whether a plan can be made. Before the first instruction there is nothing that one could do.
  bool has_plan() const {
    return result.graph && !(result.outcome.end == End::Stopped && result.interpreter->options.stop_before == 1);
  }
};

/// Makes attempts, as `next_attempt` decides, until one is accepted. Empty with a Python error set if a signal handler
/// raised.
std::optional<Exploration> explore(const CaptureContext& context);

/// Stores how an exploration ended in the entry and in the record of the compilation: its break, the marks that it
/// read, the sizes that became constants.
void describe_end(const Exploration& explored, capture::Entry& entry);

}  // namespace stator
