#pragma once

#include <Python.h>

#include <cstdint>
#include <optional>

#include "compile/frame_compiler.h"

/// Stances: what compiled functions do in the whole process, on all threads. GIL held throughout.
namespace stator {

enum class Stance : uint8_t {
  Default,
  EagerThenCompile,
  ForceEager,
  EagerOnRecompile,
  FailOnRecompile,
  AotEagerThenCompile
};

/// Sets Stator's own stance: its name, the backend for all compiled functions or None, and whether guards are skipped.
/// Returns the same three of the stance before, in a new tuple. Null with a Python error set if the name is unknown.
PyObject* set_stance(PyObject* name, PyObject* backend, bool skips_guards);
/// The names of all stances, in a new tuple.
PyObject* stance_names();
/// The name of a stance; borrowed.
PyObject* stance_name(Stance stance);

/// What a compiled call may do now: the stricter of the thread's mode and the stance. The stance is Stator's own or,
/// where that is the default, torch's. Empty with a Python error set if torch's stance has an unknown name.
std::optional<RunMode> mode_now();
/// The backend that the stance names in place of each compiled function's own; null: none. Borrowed. To be asked
/// after `mode_now`, which takes notice of changes.
PyObject* forced_backend();
/// Whether the stance asks to skip guards (`CodeCache::find_only`). To be asked after `mode_now`.
bool skips_guards();
/// Whether the call is the first of its code under a stance that makes the first call as plain Python. What its
/// arguments were is kept: sizes and numbers that differ in the next call are symbols in its capture.
bool is_first_call(capture::CodeCache& cache, PyObject* const* bound);

/// Sets the Python error for a miss under a stance that forbids captures.
void refuse_capture(capture::CodeCache& cache, const capture::Place& place, PyObject* cache_key);

}  // namespace stator
