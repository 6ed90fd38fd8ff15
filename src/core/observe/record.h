#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "core/base/export.h"
#include "core/observe/phases.h"

/// The record of one compilation: what users see of it as a dict, in logs and in files, are views of this struct.
/// docs/observability.md has the schema.
namespace stator::observe {

/// Grows when a field gets another meaning.
inline constexpr int kRecordVersion = 1;
inline constexpr size_t kMaxSpans = 4096;

struct STATOR_API CompilationRecord {
  // Identity. `frame_key` numbers compilations since the last `reset_frame_count`, from 1 on.
  std::string compile_id;
  uint64_t frame_key = 0;
  std::string name, qualified_name, file;
  int64_t line = 0;
  std::string backend;
  std::vector<std::string> stack;  // of the program, outermost first; the compiled function is the last

  // Cache and guards.
  std::optional<int64_t> cache_size, accumulated_cache_size, guard_count, shape_guard_count;
  std::optional<double> guard_latency_us;  // one check of the guards, measured
  std::string recompile_reason;            // empty: none
  std::optional<std::set<std::string>> user_contexts;

  // Graph. Empty where none was made.
  std::optional<int64_t> op_count, node_count, input_count;
  std::weak_ptr<const void> graph;  // a graph::Graph, as long as its entry lives
  int64_t breaks = 0;
  std::string break_id, break_reason, break_file;
  int64_t break_line = 0;
  int64_t instructions = 0;  // that all attempts interpreted
  bool has_code = false;     // an entry was made that calls use
  bool is_forward = true;

  // Times, of `now_ns`; 0: not yet.
  int64_t start_ns = 0, end_ns = 0;
  int64_t before_restart_ns = 0;  // attempts that were not kept; of a failure: all
  std::vector<Span> spans;        // in the order of their ends; at most kMaxSpans
  uint64_t spans_dropped = 0;
  std::optional<int64_t> cpu_instructions;  // that the processor retired; empty: not counted

  // Failure, and attempts.
  std::string fail_type, fail_reason, fail_file, fail_stack;
  int64_t fail_line = 0;
  int64_t attempts = 0;
  std::set<std::string> restart_reasons;

  // What the graph works on.
  int64_t param_count = 0, param_numel = 0, param_bytes = 0;
  std::set<std::string> custom_ops, refused_ops;  // user-registered operators with, and without, a shape function
  int64_t float_inputs = 0, symbolic_sizes = 0;   // numbers of the program that became inputs of the graph
  std::set<std::string> fixed_numbers;            // numbers that changed, but that the program needs as they are

  std::string config;  // the settings at the start, as a JSON object
  /// What others add: a JSON text by name.
  std::map<std::string, std::string> extra;
  std::string event_args;  // a JSON object for the event of the whole compilation, or empty

  void add_span(const Span& span);
  /// Microseconds of all spans of a kind, in whole ones.
  int64_t us_of(const PhaseKind& kind) const;
};

/// RAII: the record of a compilation that this thread makes. It ends with the scope, and is then among `records`.
class STATOR_API RecordScope {
 public:
  RecordScope();
  ~RecordScope();
  RecordScope(const RecordScope&) = delete;
  RecordScope& operator=(const RecordScope&) = delete;

  CompilationRecord& operator*() { return *record_; }
  CompilationRecord* operator->() { return record_.get(); }
  /// The record, which is complete when the scope has ended.
  std::shared_ptr<const CompilationRecord> shared() const { return record_; }
  /// Ends the record now. Nothing writes to it afterwards.
  std::shared_ptr<const CompilationRecord> end();

 private:
  std::shared_ptr<CompilationRecord> record_;
  CompilationRecord* outer_;
  bool ended_ = false;
};
/// The innermost record that is open on this thread; null: none.
STATOR_API CompilationRecord* open_record();

/// Whether torch itself registers operators of the namespace that this name (`aten::add`) begins with.
STATOR_API bool is_of_torch(std::string_view operator_name);
/// Adds an operator without a shape function to the open record, unless it is one of torch.
STATOR_API void note_refused(const std::string& operator_name);

/// The newest records, the oldest first.
STATOR_API std::vector<std::shared_ptr<const CompilationRecord>> records();
STATOR_API void set_record_limit(size_t limit);
STATOR_API size_t record_limit();
STATOR_API void clear_records();

/// How many compilations began since the last reset.
STATOR_API uint64_t frame_count();
/// Sets that to 0, and drops the times of phases.
STATOR_API void reset_frame_count();

/// Adds a function whose capture began (its name, file and line) to the list of frames, unless the list has it. The
/// list keeps the first kMaxFrames.
inline constexpr size_t kMaxFrames = 10'000;
STATOR_API void note_frame(const std::string& frame);
STATOR_API std::vector<std::string> frames();

}  // namespace stator::observe
