#pragma once

#include <memory>

#include "capture/frame/compiler.h"
#include "capture/pycompat/hook.h"

/// Capturing frames that other code starts: the PEP 523 hook gives them to a compiler.
namespace stator::capture {

/// While it lives, frames that this thread starts go to the compiler, if they are candidates. `ok()` is false, with a
/// Python error set, if the hook cannot be installed; nothing is watched then.
class Watch {
 public:
  explicit Watch(Compiler& compiler);
  ~Watch();
  Watch(const Watch&) = delete;
  Watch& operator=(const Watch&) = delete;
  bool ok() const { return hook_.ok(); }

 private:
  Compiler* outer_;
  pycompat::HookScope hook_;
};

/// While it lives, frames that this thread starts are not captured: a capture or a backend is at work, or a plan runs.
class NoWatch {
 public:
  NoWatch();
  ~NoWatch();
  NoWatch(const NoWatch&) = delete;
  NoWatch& operator=(const NoWatch&) = delete;

 private:
  Compiler* outer_;
};

/// A watch that owns its compiler. On one thread, the last one made ends first.
class WatchedBlock {
 public:
  explicit WatchedBlock(std::unique_ptr<Compiler> compiler) : compiler_(std::move(compiler)), watch_(*compiler_) {}
  bool ok() const { return watch_.ok(); }

 private:
  std::unique_ptr<Compiler> compiler_;
  Watch watch_;
};

/// Calls the plain function; frames that it starts may be captured.
PyObject* call_watched(Compiler& compiler, PyObject* function, PyObject* const* args, size_t nargsf, PyObject* names);

}  // namespace stator::capture
