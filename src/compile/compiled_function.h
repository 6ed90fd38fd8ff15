#pragma once

#include "capture/pycompat/ref.h"
#include "compile/pipeline.h"

namespace stator {

/// The Python types of Stator's errors; set once at import.
struct ErrorTypes {
  Ref unsupported, internal, recompile_limit, backend_failed, skip_frame;
};
ErrorTypes& error_types();

/// What compiled functions may do on this thread.
enum class RunMode : int { Compile = 0, RunOnly = 1, Off = 2 };
RunMode& run_mode();

/// The Python type `CompiledFunction`; null with an error set if it could not be made.
PyTypeObject* compiled_function_type();

/// Called after each capture with a record of it (a dict), or none. New reference to the one before, or null.
Ref set_capture_listener(Ref listener);
/// Set by the bindings: a Python object for a graph.
using GraphWrapper = Ref (*)(std::shared_ptr<graph::Graph> graph);
void set_graph_wrapper(GraphWrapper wrapper);

/// A break as the dict that users are shown.
Ref describe_break(const capture::BreakReason& reason);
/// Facts of an entry as a dict.
Ref describe_entry(const capture::Entry& entry);

}  // namespace stator
