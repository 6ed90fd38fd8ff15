#pragma once

#include <string>

#include "compile/pipeline.h"

/// What torch.compile's own modules say, and are told, if the program has imported them. They are not imported for
/// this.
namespace stator {

/// The limits of captures, and what happens at them.
struct Limits {
  int64_t recompile, accumulated;
  bool fail;
};
/// Those of the request; else of Stator's settings; where such a setting has its default value, torch's of that name.
Limits limits_of(const CompileRequest& request);
/// Whether a backend or capture that fails is to run the frame as plain Python; also by torch's setting.
bool suppresses_errors();

/// One capture, for torch's compile callbacks and counters.
class CompileNotice {
 public:
  /// Runs the start callbacks.
  explicit CompileNotice(const std::string& compile_id);
  /// False, with a Python error set, if a start callback raised.
  bool ok() const { return ok_; }
  /// Runs the end callbacks and counts. `entry`: what was captured; null: the capture failed, with a Python error set,
  /// which stays. False with a Python error set if an end callback raised.
  bool end(const capture::Entry* entry);

 private:
  Ref block_;  // of Python's `torch_compiler.started`; null: torch.compile is not imported
  bool ok_ = true;
};

}  // namespace stator
