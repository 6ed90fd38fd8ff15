#pragma once

#include <memory>

#include "capture/cache/entry.h"
#include "capture/pycompat/code.h"
#include "capture/pycompat/frame.h"

/// Frames that go on after a break: what a plan leaves is put into real frames, the breaking instruction runs for real,
/// and the next place of the frame is looked up like any other call.
namespace stator::capture {

/// A place in a frame of `function`, which is not running.
struct Place {
  PyObject* function;
  const pycompat::Code* code;
  int32_t offset = 0;
  PyObject* const* values;  // slots, then stack, as the frame has them
  int32_t depth = 0;        // of the stack
};

/// How frames reach the compiler.
class Compiler {
 public:
  virtual ~Compiler() = default;
  /// The entry for a place, captured now if need be. Null: CPython runs the frame from here (with a Python error set:
  /// that error is raised there).
  virtual std::shared_ptr<Entry> entry_at(const Place& place) = 0;
  /// Whether a frame of `function` that is about to run on behalf of a break is worth a capture. `slots` holds its
  /// arguments.
  virtual bool is_candidate(PyObject* function, PyObject* const* slots) = 0;
  /// Whether what handles the error that is set is left to CPython: it says that a break was refused, or another one
  /// would be refused on the way out.
  virtual bool leaves_handlers() = 0;
};

/// Runs the plan of an entry whose guards just held: what it calls is left alone, and profilers see a range with the
/// entry's label. False with a Python error set.
bool run_plan(const Entry& entry, Outcome& outcome);

/// Goes on in the frames that `plan` left, the first of which is made anew for `function`. New reference to the result
/// of the outermost frame, or null with a Python error set.
PyObject* go_on(Compiler& compiler, PyObject* function, const Plan& plan, Outcome outcome);
/// Runs the plain function; the frames below it may be captured.
PyObject* call_watched(Compiler& compiler, PyObject* function, PyObject* const* args, size_t nargsf, PyObject* names);

/// Frames that the thread starts while this lives may be captured. On one thread the last one made ends first.
class WatchedBlock {
 public:
  virtual ~WatchedBlock() = default;
};
/// Null with a Python error set where frames cannot be watched.
std::unique_ptr<WatchedBlock> watch_block(std::unique_ptr<Compiler> compiler);

/// While it lives, frames that start on this thread are left alone: a capture or a backend is at work.
class FramesAside {
 public:
  FramesAside();
  ~FramesAside();
  FramesAside(const FramesAside&) = delete;
  FramesAside& operator=(const FramesAside&) = delete;

 private:
  Compiler* outer_;
};

}  // namespace stator::capture
