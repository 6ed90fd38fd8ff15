#pragma once

#include <memory>
#include <optional>
#include <string>

#include "capture/cache/entry.h"
#include "capture/values/shapes_spec.h"
#include "compile/guard_callbacks.h"

namespace stator::capture {
struct Start;
}
namespace stator::backend {
class Choice;
}

namespace stator {

/// What one `stator.compile` call asked for.
struct CompileRequest {
  Ref compiler;                                   // Python callable (gm, example_inputs); null: a native backend
  std::shared_ptr<const backend::Choice> native;  // that backend; null if `compiler` is set
  Ref cache_key;
  std::string backend;
  bool fullgraph = false;                           // a graph break anywhere is an error
  bool break_is_error = false;                      // a graph break in the body of the function itself is an error
  std::shared_ptr<const GuardCallbacks> guards;     // null: none
  int64_t recompile_limit = 0;                      // 0: that of the settings
  std::optional<bool> dynamic;                      // whether sizes are symbolic; none: those that changed
  std::shared_ptr<const capture::ShapesSpec> spec;  // what the user stated of the arguments; null: nothing
};

/// Breaks of earlier entries for which only guards of the break fail; their plans are still right. If a capture breaks
/// there again, the guarded facts were not the cause, and it does not guard them.
using KnownBreaks = std::vector<capture::BreakReason>;

/// Captures a frame from one place on, in four steps: explore, build guards, build plan, compile graph. The entry's
/// plan ends the frame, or stops at the graph break that `broke` describes. An entry without a plan says that the next
/// instruction, or the rest of the frame, runs as plain Python. Null with a Python error set when the backend or a
/// callback of the user failed, or a signal handler raised. GIL held. Global state is as before afterwards, also on
/// failure.
std::shared_ptr<capture::Entry> compile_frame(const capture::Start& start, const CompileRequest& request,
                                              const std::string& graph_name, const KnownBreaks& known_breaks);
/// The same up to where the backend would compile the graph, with the settings and marks that `record` names. The entry
/// has no plan, but what the oracle compares.
std::shared_ptr<capture::Entry> capture_for_oracle(const capture::Start& start, const CompileRequest& request,
                                                   const std::string& graph_name, const capture::OracleRecord& record);

/// A truth about symbolic sizes and numbers that a backend relied on while it compiled, as Python; empty if it has no
/// such text. The symbols of sizes and ints in it, by name, and the floats, by their place among `inputs`.
struct BackendGuard {
  std::string truth;
  std::vector<std::string> symbols;
  std::vector<size_t> floats;
};

/// Set once by the bindings: has a Python backend compile a graph. `inputs`: examples of its inputs, but for the
/// leading ones that are sizes; for a tensor that holds a float of the program, the float. `guards`: gets what the
/// backend relied on. Null with a Python error set when it failed.
using BackendCall = std::unique_ptr<capture::GraphRunner> (*)(std::shared_ptr<graph::Graph> graph,
                                                              const std::vector<PyObject*>& inputs,
                                                              const CompileRequest& request,
                                                              std::vector<BackendGuard>& guards);
void set_backend_call(BackendCall call);

}  // namespace stator
