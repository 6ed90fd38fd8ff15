#pragma once

#include <string>

#include "capture/pycompat/ref.h"

namespace stator::capture {
struct Entry;
}

namespace stator {

/// `opener(directory, compile id, function, file, line, reason)` gives an object with `write(record)` and
/// `close(error)`, or None. Set once by the Python side.
void set_debug_folder(Ref opener);

/// The debug folder of one capture, if `config().debug_dir` names a directory. An error while writing it is reported as
/// unraisable, and the capture goes on.
class DebugFolder {
 public:
  DebugFolder(PyCodeObject* code, const std::string& id, const std::string& reason);
  ~DebugFolder() { close(); }
  DebugFolder(const DebugFolder&) = delete;
  DebugFolder& operator=(const DebugFolder&) = delete;

  /// Closes the folder, and tells it the Python error that is set, which stays set. Nothing is written after that.
  void close();
  void write(PyCodeObject* code, const capture::Entry& entry, const std::string& reason);

 private:
  Ref folder_;
};

}  // namespace stator
