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

/// The folder of one capture, where `config().debug_dir` names a directory; nothing otherwise. What goes wrong with it
/// is told, and stops nobody.
class DebugFolder {
 public:
  DebugFolder(PyCodeObject* code, const std::string& id, const std::string& reason);
  ~DebugFolder() { close(); }
  DebugFolder(const DebugFolder&) = delete;
  DebugFolder& operator=(const DebugFolder&) = delete;

  /// Closes it, with the Python error that is set, which stays set. Nothing is written after that.
  void close();
  void write(PyCodeObject* code, const capture::Entry& entry, const std::string& reason);

 private:
  Ref folder_;
};

}  // namespace stator
