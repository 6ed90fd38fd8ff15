#pragma once

#include <string>

#include "capture/cache/entry.h"

/// What captures look like to users: plain dicts.
namespace stator {

/// Called after each capture with a record of it (a dict), or none. New reference to the one before, or null.
Ref set_capture_listener(Ref listener);
/// Called likewise with captures that broke or were made again, where its `wanted()` says so.
void set_capture_log(Ref log);
/// Tells both. False with the error of a signal's handler set, which is the program's; their own errors are shown.
bool tell_listener(PyCodeObject* code, const capture::Entry& entry, const std::string& recompile_reason);
/// Set by the bindings: a Python object for a graph.
using GraphWrapper = Ref (*)(std::shared_ptr<graph::Graph> graph);
void set_graph_wrapper(GraphWrapper wrapper);

/// Called with each error of Stator's own that leaves the first call of a captured form: `recorder(error, function,
/// arguments by slot, fullgraph)`. Null: nobody is. New reference to the one before, or null.
Ref set_failure_recorder(Ref recorder);
/// Tells it of the Python error that is set, which stays set unless a signal's handler raises another one.
void record_failure(PyObject* function, PyObject* const* arguments, size_t count, bool fullgraph);

/// Facts of a capture that was just made.
Ref describe_capture(PyCodeObject* code, const capture::Entry& entry, const std::string& recompile_reason);
/// A break as the dict that users are shown.
Ref describe_break(const capture::BreakReason& reason);
/// Facts of an entry as a dict.
Ref describe_entry(const capture::Entry& entry);

/// The text of a str, or "?".
std::string text_of(PyObject* object);

}  // namespace stator
