#pragma once

#include <memory>
#include <optional>
#include <vector>

#include "capture/interpreter/assembly/assemble.h"
#include "compile/attempt.h"
#include "compile/capture_context.h"

namespace stator {

/// One interpretation of the bytecode, and what it made.
struct AttemptResult {
  std::unique_ptr<capture::Interpreter> interpreter;
  Outcome outcome;
  std::optional<capture::BreakReason> broke;  // if the outcome is Broke; then nothing below is set
  capture::Assembly assembly;
  std::shared_ptr<graph::Graph> graph;
  bool is_checked_early = false;                // for a Python backend: its computations that may fail run before it
  std::vector<uint32_t> kept_inputs;            // the graph inputs that are used, as indices of `TorchSession::inputs`
  std::vector<capture::SizeInput> size_inputs;  // of the graph for a Python backend, before the others; likewise
  std::shared_ptr<const capture::GlobalState> state_at_end;  // null: the same as at the start
};

/// Interprets once as the attempt says. A Python error is set afterwards only if a signal handler raised one. The
/// global state is as before.
AttemptResult run_attempt(const CaptureContext& context, const Attempt& attempt);

}  // namespace stator
