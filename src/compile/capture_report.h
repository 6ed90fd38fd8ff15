#pragma once

#include <memory>
#include <optional>
#include <string>

#include "capture/frame/compiler.h"
#include "compile/pipeline.h"
#include "core/observe/instructions.h"
#include "core/observe/record.h"

namespace stator::capture {
class CodeCache;
}

namespace stator {

struct Exploration;

/// Sets what is told of the start and the end of each compilation: an object with `started(compile_id, function, file,
/// line, reason)`, and `ended(record, capture)` where `capture` is None after a failure. Null: nothing. An error that
/// it raises is reported as unraisable.
void set_observer(Ref observer);

/// The record of one compilation, from its start to its end. GIL held.
class CaptureReport {
 public:
  /// `upcoming` has the ids of the entry to be made.
  CaptureReport(capture::CodeCache& cache, const capture::Place& place, const CompileRequest& request,
                const capture::Entry& upcoming, const std::string& reason);
  /// Ends the record, and tells the observer. A Python error that is set stays set.
  ~CaptureReport();
  CaptureReport(const CaptureReport&) = delete;
  CaptureReport& operator=(const CaptureReport&) = delete;

  /// The compilation made this entry. `is_refusal`: only to report a break that is an error.
  void captured(std::shared_ptr<capture::Entry> entry, bool is_refusal);
  /// The guards were checked for the first time, which took so long.
  void checked(int64_t nanoseconds) { record_->guard_latency_us = static_cast<double>(nanoseconds) / 1000; }
  /// The compilation failed, with the Python error that is set, which stays set.
  void failed();

 private:
  observe::RecordScope record_;                            // first: the phase ends before it
  std::optional<observe::InstructionScope> instructions_;  // while the setting is on
  std::optional<observe::Phase> phase_;
  PyCodeObject* code_;
  std::string reason_;
  std::shared_ptr<capture::Entry> entry_;
};

/// Notes facts of an exploration in the record that is open on this thread, if there is one.
void note_exploration(const Exploration& explored);

}  // namespace stator
