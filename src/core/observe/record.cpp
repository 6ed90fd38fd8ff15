#include "core/observe/record.h"

#include <algorithm>
#include <deque>
#include <mutex>
#include <unordered_set>

#include "core/base/fork_safe.h"
#include "core/observe/clock.h"
#include "core/observe/recording.h"

namespace stator::observe {
namespace {

struct Records {
  std::deque<std::shared_ptr<const CompilationRecord>> newest;
  size_t limit = 64;
  std::vector<std::string> frames;
  std::unordered_set<std::string> known_frames;
};
ForkSafeMutex& record_mutex = *new ForkSafeMutex;
Records& kept_records = *new Records;
std::atomic<uint64_t> frames_begun{0};
thread_local CompilationRecord* record_of_thread = nullptr;

}  // namespace

void CompilationRecord::add_span(const Span& span) {
  if constexpr (!kIsRecording) return;
  if (spans.size() < kMaxSpans)
    spans.push_back(span);
  else
    ++spans_dropped;
}

int64_t CompilationRecord::us_of(const PhaseKind& kind) const {
  int64_t sum = 0;
  for (const Span& span : spans)
    if (span.kind == &kind) sum += span.end_ns - span.start_ns;
  return sum / 1000;
}

RecordScope::RecordScope() : record_(std::make_shared<CompilationRecord>()), outer_(record_of_thread) {
  record_->frame_key = frames_begun.fetch_add(1, std::memory_order_relaxed) + 1;
  record_->start_ns = now_ns();
  record_of_thread = record_.get();
}

RecordScope::~RecordScope() { end(); }

std::shared_ptr<const CompilationRecord> RecordScope::end() {
  if (std::exchange(ended_, true)) return record_;
  record_->end_ns = now_ns();
  record_of_thread = outer_;
  if constexpr (!kIsRecording) return record_;
  std::shared_ptr<const CompilationRecord> oldest;  // destroyed without the lock
  std::lock_guard lock(record_mutex);
  if (kept_records.limit == 0) return record_;
  if (kept_records.newest.size() >= kept_records.limit) {
    oldest = std::move(kept_records.newest.front());
    kept_records.newest.pop_front();
  }
  kept_records.newest.push_back(record_);
  return record_;
}

CompilationRecord* open_record() { return record_of_thread; }

bool is_of_torch(std::string_view operator_name) {
  static constexpr std::string_view kOwn[] = {"aten", "prim",     "prims",  "stator",       "quantized",
                                              "c10d", "profiler", "mkldnn", "higher_order", "_c10d_functional"};
  const std::string_view space = operator_name.substr(0, operator_name.find(':'));
  return std::find(std::begin(kOwn), std::end(kOwn), space) != std::end(kOwn);
}

void note_refused(const std::string& operator_name) {
  if (record_of_thread != nullptr && !is_of_torch(operator_name)) record_of_thread->refused_ops.insert(operator_name);
}

std::vector<std::shared_ptr<const CompilationRecord>> records() {
  std::lock_guard lock(record_mutex);
  return {kept_records.newest.begin(), kept_records.newest.end()};
}

void set_record_limit(size_t limit) {
  std::lock_guard lock(record_mutex);
  kept_records.limit = limit;
  while (kept_records.newest.size() > limit) kept_records.newest.pop_front();
}
size_t record_limit() {
  std::lock_guard lock(record_mutex);
  return kept_records.limit;
}
void clear_records() {
  std::lock_guard lock(record_mutex);
  kept_records.newest.clear();
}

uint64_t frame_count() { return frames_begun.load(std::memory_order_relaxed); }
void reset_frame_count() {
  frames_begun.store(0, std::memory_order_relaxed);
  reset_phase_times();
}

void note_frame(const std::string& frame) {
  if constexpr (!kIsRecording) return;
  std::lock_guard lock(record_mutex);
  if (kept_records.frames.size() < kMaxFrames && kept_records.known_frames.insert(frame).second)
    kept_records.frames.push_back(frame);
}
std::vector<std::string> frames() {
  std::lock_guard lock(record_mutex);
  return kept_records.frames;
}

}  // namespace stator::observe
