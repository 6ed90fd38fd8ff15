#pragma once

#include <string>

#include "capture/cache/code_cache.h"
#include "capture/frame/compiler.h"
#include "compile/next_capture.h"
#include "compile/pipeline.h"

namespace stator {

/// What a compiled call may do.
enum class RunMode : int {
  Compile = 0,
  RunOnly = 1,     // a miss runs as plain Python
  Off = 2,         // every call runs as plain Python
  FailOnMiss = 3,  // a miss is an error; only a stance sets it
};
/// What this thread asked for; `mode_now` tells what holds.
RunMode& run_mode();

/// What a lookup in a cache gave.
struct Lookup {
  std::shared_ptr<capture::Entry> found;  // null: none fits
  uint64_t captures;                      // how many the cache had seen at that time
};

/// Looks places up in the caches and captures what is missing, for one `stator.compile`.
class FrameCompiler final : public capture::Compiler {
 public:
  explicit FrameCompiler(CompileRequest request) : request_(std::move(request)) {}

  std::shared_ptr<capture::Entry> entry_at(const capture::Place& place) override;
  bool is_candidate(PyObject* function, PyObject* const* slots) override;
  bool handlers_run_plain() override;
  /// Captures and publishes, after nothing cached fitted (`looked`). Returns as `entry_at` does.
  std::shared_ptr<capture::Entry> capture(capture::CodeCache& cache, const capture::Place& place, Lookup looked);
  /// With `config.oracle`, before a lookup: whether all entries' word passes say what their full passes say. False with
  /// a Python error set.
  bool confirm_words(capture::CodeCache& cache, const capture::Place& place, const capture::GuardInput& input);
  /// Likewise after a hit: whether a fresh capture gives the same as the entry.
  bool confirm_hit(const capture::Place& place, const capture::Entry& entry);

 private:
  /// Whether a break in the captured function is an error.
  bool is_error_here() const;
  /// Whether the entry only reports a break that this request makes an error.
  bool is_refusal(const capture::Entry& entry) const;
  /// Captures with the numbers that changed as inputs of the graph, and the sizes that changed as symbols, as far as
  /// the program and the backend allow that (`next_capture`). `varying`: what the entry does not specialise on. Null
  /// with a Python error set.
  std::shared_ptr<capture::Entry> capture_general(capture::CodeCache& cache, const capture::Place& place,
                                                  const KnownBreaks& known_breaks, capture::Varying& varying);
  /// What `next_capture` needs to know of the entry. `earlier`: entries that specialised on a number that changed.
  CaptureOutcome outcome_of(const capture::Entry& entry, const capture::Varying& varying,
                            const std::vector<std::shared_ptr<capture::Entry>>& earlier) const;
  /// Tells the user's callback why the entries at the place do not hold. False with the Python error of the callback
  /// set.
  bool report_misses(capture::CodeCache& cache, const capture::Place& place);
  /// Names the entry, adds it to the cache unless it is a refusal, and counts it.
  void publish(capture::CodeCache& cache, const std::shared_ptr<capture::Entry>& entry);

  CompileRequest request_;
};

}  // namespace stator
