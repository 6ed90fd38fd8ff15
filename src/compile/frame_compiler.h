#pragma once

#include <string>
#include <vector>

#include "capture/cache/code_cache.h"
#include "capture/frame/resume.h"
#include "compile/pipeline.h"

namespace stator {

/// What compiled functions may do: on this thread, or in all of the process (then also to fail where nothing is
/// cached).
enum class RunMode : int { Compile = 0, RunOnly = 1, Off = 2, FailOnMiss = 3 };
/// Of this thread; see `mode_now` for what holds.
RunMode& run_mode();

/// Files whose frames are never captured on their own (they are when they are inlined): path prefixes.
std::vector<std::string>& skipped_files();

/// Sets the Python error `stator.Unsupported`.
void raise_unsupported(const capture::BreakReason& reason);

/// Looks places up in the caches and captures what is missing, for one `stator.compile`.
class FrameCompiler final : public capture::Compiler {
 public:
  explicit FrameCompiler(CompileRequest request) : request_(std::move(request)) {}

  std::shared_ptr<capture::Entry> entry_at(const capture::Place& place) override;
  bool is_candidate(PyObject* function, PyObject* const* slots) override;
  bool leaves_handlers() override;
  /// Nothing cached fits: captures and publishes. As `entry_at` for the result.
  std::shared_ptr<capture::Entry> capture(capture::CodeCache& cache, const capture::Place& place);
  /// Whether the entry only says that what was asked for cannot be had.
  bool is_refusal(const capture::Entry& entry) const;

 private:
  /// With a Python error set when reaching a limit is one.
  bool at_limit(capture::CodeCache& cache, const capture::Place& place, const std::string& reason);
  void warn_limit(capture::CodeCache& cache, const std::string& which, int64_t limit, const std::string& now,
                  const std::string& reason);
  bool publish(capture::CodeCache& cache, std::shared_ptr<capture::Entry> entry, const std::string& reason);

  CompileRequest request_;
};

}  // namespace stator
