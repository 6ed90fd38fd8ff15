#pragma once

#include <string>

#include "capture/cache/code_cache.h"
#include "compile/pipeline.h"

/// What torch.compile's own modules say, and are told, if the program has imported them. They are not imported for
/// this.
namespace stator {

/// Torch's setting; `otherwise` if torch.compile is not imported, or has none of this name.
int64_t torch_setting(const char* name, int64_t otherwise);
/// The text of a setting in one of torch's modules; empty if the module is not imported.
std::string torch_text(const char* module, const char* name);

/// Torch's settings of limits, which take microseconds to read. -1: torch.compile is not imported.
capture::TorchLimits torch_limits();

/// The limits of captures, and whether reaching one is an error: by the request; else by Stator's settings; where such
/// a setting has its default value, by torch's of that name.
struct Limits {
  Limits(const CompileRequest& request, const capture::TorchLimits& torch);
  int64_t recompile, accumulated;
  bool is_error;
};
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
