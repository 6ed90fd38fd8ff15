#pragma once

#include <functional>
#include <string>
#include <vector>

#include "capture/cache/entry.h"
#include "capture/pycompat/text.h"

/// Captures as users see them: plain dicts.
namespace stator {

/// Sets what is called after each capture with its record (a dict); null: nothing. Returns the listener before, or
/// null.
Ref set_capture_listener(Ref listener);
/// Sets what is called with the record of each capture if its `wanted()` is true.
void set_capture_log(Ref log);
/// Calls both. Errors that they raise are reported as unraisable. `check_guards` times one check of the guards, for the
/// log, and each guard is timed on `input`. False with a Python error set if a signal handler raised, which is for the
/// program.
bool tell_listener(PyCodeObject* code, const capture::Entry& entry, const std::string& recompile_reason,
                   const capture::GuardInput& input, const std::function<void()>& check_guards);
/// Set by the bindings: makes the Python object of a graph.
using GraphWrapper = Ref (*)(std::shared_ptr<graph::Graph> graph);
void set_graph_wrapper(GraphWrapper wrapper);

/// Sets what is called with each error of Stator's own that leaves a call which was captured: `recorder(error,
/// function, arguments by slot, fullgraph)`; null: nothing. Returns the recorder before, or null.
Ref set_failure_recorder(Ref recorder);
/// Calls the recorder with the Python error that is set. It stays set, unless a signal handler raises another one.
void record_failure(PyObject* function, PyObject* const* arguments, size_t count, bool fullgraph);

/// The record of a capture that was just made. `guard_costs`: see `CheckArray::costs`; empty if they were not measured.
Ref describe_capture(PyCodeObject* code, const capture::Entry& entry, const std::string& recompile_reason,
                     const std::vector<double>& guard_costs = {});
/// What caused a graph break, in one line.
std::string break_cause(const capture::BreakReason& reason);
/// A graph break as a dict.
Ref describe_break(const capture::BreakReason& reason);
/// An entry as a dict.
Ref describe_entry(const capture::Entry& entry);

}  // namespace stator
