#include "core/observe/phases.h"

#include <mutex>

#include "core/base/fork_safe.h"
#include "core/observe/clock.h"
#include "core/observe/events.h"
#include "core/observe/record.h"
#include "core/observe/recording.h"

namespace stator::observe {
namespace {

ForkSafeMutex& phase_mutex = *new ForkSafeMutex;
int64_t kinds_seen = 0;
constexpr size_t kMaxPending = 1024;

/// The phases that this thread has open, and those that ended since its outermost one began.
struct ThreadPhases {
  uint32_t depth = 0;
  std::vector<Span> ended;
};
thread_local ThreadPhases phases_of_thread;

}  // namespace

struct PhaseKinds {
  static constinit std::atomic<PhaseKind*> head;

  static void add(PhaseKind& kind) {
    kind.next_ = head.load(std::memory_order_relaxed);
    while (!head.compare_exchange_weak(kind.next_, &kind, std::memory_order_release)) {
    }
  }
  static PhaseKind* find(const std::string& name) {
    for (PhaseKind* at = head.load(std::memory_order_acquire); at; at = at->next_)
      if (at->name_ == name) return at;
    return nullptr;
  }
  /// One lock for all phases of an outermost one: a phase inside costs no more than reading the clock.
  static void store(std::vector<Span>& ended) {
    std::lock_guard lock(phase_mutex);
    for (const Span& span : ended) {
      auto& kind = const_cast<PhaseKind&>(*span.kind);
      if (kind.count_ == 0) kind.first_seen_ = ++kinds_seen;
      ++kind.count_;
      kind.total_ns_ += span.end_ns - span.start_ns;
      if (kind.durations_.size() >= 2 * kMaxDurations)
        kind.durations_.erase(kind.durations_.begin(), kind.durations_.end() - kMaxDurations);
      kind.durations_.push_back(span.end_ns - span.start_ns);
    }
    ended.clear();
  }
  static std::map<std::string, PhaseTimes> times() {
    std::map<std::string, PhaseTimes> all;
    std::lock_guard lock(phase_mutex);
    for (PhaseKind* at = head.load(std::memory_order_acquire); at; at = at->next_) {
      PhaseTimes times{at->active_.load(std::memory_order_relaxed), at->count_, at->total_ns_, at->first_seen_, {}};
      const size_t kept = std::min(at->durations_.size(), kMaxDurations);
      times.durations.assign(at->durations_.end() - static_cast<ptrdiff_t>(kept), at->durations_.end());
      if (times.count > 0 || times.active > 0) all.emplace(at->name_, std::move(times));
    }
    return all;
  }
  static void reset() {
    std::lock_guard lock(phase_mutex);
    for (PhaseKind* at = head.load(std::memory_order_acquire); at; at = at->next_) {
      at->count_ = at->total_ns_ = 0;
      at->durations_ = {};
    }
  }
};
constinit std::atomic<PhaseKind*> PhaseKinds::head{nullptr};

PhaseKind::PhaseKind(const char* name) : name_(name) { PhaseKinds::add(*this); }

PhaseKind& phase_kind(const std::string& name) {
  if (PhaseKind* known = PhaseKinds::find(name)) return *known;
  std::lock_guard lock(phase_mutex);
  if (PhaseKind* known = PhaseKinds::find(name)) return *known;  // made since by another thread
  return *new PhaseKind(name.c_str());
}

Phase::Phase(PhaseKind& kind, uint32_t number)
    : kind_(kind), number_(number), has_event_(records_events()), range_([&] { return "Stator: " + kind.name(); }) {
  start_ns_ = 0;
  if constexpr (!kIsRecording) return;
  kind_.active_.fetch_add(1, std::memory_order_relaxed);
  ++phases_of_thread.depth;
  start_ns_ = now_ns();
  if (has_event_)
    add_event({kind_.name(), 'B', start_ns_, number_ ? "{\"number\": " + std::to_string(number_) + "}" : ""});
}

Phase::~Phase() {
  if constexpr (!kIsRecording) return;
  const int64_t end = now_ns();
  kind_.active_.fetch_sub(1, std::memory_order_relaxed);
  ThreadPhases& thread = phases_of_thread;
  const Span span{&kind_, start_ns_, end, --thread.depth, number_};
  if (CompilationRecord* record = open_record()) record->add_span(span);
  if (has_event_) add_event({kind_.name(), 'E', end, std::move(args_)});
  thread.ended.push_back(span);
  if (thread.depth == 0 || thread.ended.size() >= kMaxPending) PhaseKinds::store(thread.ended);
}

std::map<std::string, PhaseTimes> phase_times() { return PhaseKinds::times(); }
void reset_phase_times() { PhaseKinds::reset(); }

}  // namespace stator::observe
