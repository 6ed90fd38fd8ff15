#pragma once

#include <atomic>
#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "core/base/export.h"
#include "core/observe/profile.h"

/// Timed phases of work: nested by thread, inside the compilation that is recorded on the thread, if any. Each phase
/// that ends adds its duration to the times of its kind, and a span to the compilation's record. While events are
/// recorded (events.h) it also gives a begin and an end event, and while torch's profiler records, a range.
namespace stator::observe {

/// A name of phases. Made by `new` at namespace scope, or by `phase_kind`; never destroyed.
class STATOR_API PhaseKind {
 public:
  explicit PhaseKind(const char* name);
  PhaseKind(const PhaseKind&) = delete;
  PhaseKind& operator=(const PhaseKind&) = delete;

  const std::string& name() const { return name_; }

 private:
  friend class Phase;
  friend struct PhaseKinds;
  const std::string name_;
  std::atomic<int64_t> active_{0};
  // Under the lock of phases.cpp:
  int64_t first_seen_ = 0, count_ = 0, total_ns_ = 0;
  std::vector<int64_t> durations_;  // the newest ones
  PhaseKind* next_ = nullptr;
};
/// The kind of this name, which is made if there is none.
STATOR_API PhaseKind& phase_kind(const std::string& name);

/// A phase that has ended. Times are of `now_ns`.
struct Span {
  const PhaseKind* kind;
  int64_t start_ns, end_ns;
  uint32_t depth;   // how many phases were open around it, on its thread
  uint32_t number;  // of an attempt and the like; 0: none
};

/// RAII: one phase. The innermost open one of its thread must end first.
class STATOR_API Phase {
 public:
  explicit Phase(PhaseKind& kind, uint32_t number = 0);
  ~Phase();
  Phase(const Phase&) = delete;
  Phase& operator=(const Phase&) = delete;

  /// Data for the end event: a JSON object.
  void set_event_args(std::string args) { args_ = std::move(args); }

 private:
  PhaseKind& kind_;
  std::string args_;
  uint32_t number_;
  bool has_event_;
  ProfiledRange range_;
  int64_t start_ns_;
};

/// The phases of one name so far.
struct PhaseTimes {
  int64_t active = 0;               // open now, on all threads
  int64_t count = 0, total_ns = 0;  // of those that ended
  int64_t first_seen = 0;           // the order in which kinds were first seen
  std::vector<int64_t> durations;   // in the order of their ends; at most the newest kMaxDurations
};
inline constexpr size_t kMaxDurations = 4096;
STATOR_API std::map<std::string, PhaseTimes> phase_times();
STATOR_API void reset_phase_times();

}  // namespace stator::observe
