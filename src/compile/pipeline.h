#pragma once

#include <memory>
#include <string>

#include "capture/cache/entry.h"
#include "compile/guard_callbacks.h"

namespace stator::capture {
struct Start;
}

namespace stator {

/// What one `stator.compile` call asked for.
struct CompileRequest {
  Ref compiler;  // Python callable (gm, example_inputs), or null for the native executor
  Ref cache_key;
  std::string backend;
  bool fullgraph = false;
  bool break_is_error = false;
  std::shared_ptr<const GuardCallbacks> guards;  // null: none
};

/// Captures from one place of a frame on: bytecode, values, guards, graph, backend, plan. The entry has a plan, which
/// ends the frame or stops at a break that `broke` tells of; without one the next instruction, or all of the frame,
/// runs as plain Python. Null with a Python error set when the backend failed or the user interrupted. GIL held; global
/// state is as before afterwards, also on failure.
std::shared_ptr<capture::Entry> compile_frame(const capture::Start& start, const CompileRequest& request,
                                              const std::string& graph_name);

/// Set once by the bindings: hands a graph to a Python backend; null with a Python error set when it failed.
using BackendCall = std::unique_ptr<capture::GraphRunner> (*)(std::shared_ptr<graph::Graph> graph,
                                                              const std::vector<PyObject*>& inputs,
                                                              const CompileRequest& request);
void set_backend_call(BackendCall call);

}  // namespace stator
