#pragma once

#include <Python.h>

#include <cstdint>
#include <optional>

#include "compile/frame_compiler.h"

/// What compiled functions do in the whole process, whatever thread calls them. GIL held throughout.
namespace stator {

enum class Stance : uint8_t { Default, EagerThenCompile, ForceEager, EagerOnRecompile, FailOnRecompile };

/// Sets Stator's own, by its name; -1 with a Python error set if there is none of that name. Gives the earlier one.
int set_stance(PyObject* name);
/// The names that there are, in a new tuple.
PyObject* stance_names();
/// The name of a stance; borrowed.
PyObject* stance_name(Stance stance);

/// What a compiled call may do now: as the thread's mode says, and the stance; that is Stator's own or, where that is
/// the default, torch's. Empty with a Python error set when torch's has a name that nobody knows.
std::optional<RunMode> mode_now();
/// Whether the call is the first of its code, which is made as plain Python.
bool is_first_call(capture::CodeCache& cache);

/// Sets the Python error of a miss where the stance forbids to capture.
void refuse_capture(capture::CodeCache& cache, const capture::Place& place, PyObject* cache_key);

}  // namespace stator
