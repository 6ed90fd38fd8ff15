#include "core/observe/instructions.h"

#include <linux/perf_event.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "core/observe/counters.h"
#include "core/observe/recording.h"

namespace stator::observe {
namespace {

/// The kernel's counter of one thread. It is opened at the first use, and closed with the thread.
class ThreadCounter {
 public:
  ThreadCounter() = default;
  ~ThreadCounter() { close_file(); }
  ThreadCounter(const ThreadCounter&) = delete;
  ThreadCounter& operator=(const ThreadCounter&) = delete;

  std::optional<int64_t> read_count() {
    // In the child of a fork, the file still counts the parent's thread.
    if (process_ != getpid()) open_file();
    uint64_t count = 0;
    if (file_ < 0 || read(file_, &count, sizeof count) != sizeof count) return {};
    return static_cast<int64_t>(count);
  }

 private:
  void open_file() {
    close_file();
    process_ = getpid();
    perf_event_attr wanted{};
    wanted.type = PERF_TYPE_HARDWARE;
    wanted.size = sizeof wanted;
    wanted.config = PERF_COUNT_HW_INSTRUCTIONS;
    wanted.pinned = 1;  // counted all the time, or not at all
    wanted.exclude_kernel = wanted.exclude_hv = 1;
    file_ = static_cast<int>(syscall(SYS_perf_event_open, &wanted, 0, -1, -1, PERF_FLAG_FD_CLOEXEC));
  }
  void close_file() {
    if (file_ >= 0) close(file_);
    file_ = -1;
  }

  int file_ = -1;
  pid_t process_ = 0;
};

thread_local ThreadCounter counter_of_thread;
thread_local uint32_t open_scopes = 0;

}  // namespace

std::optional<int64_t> retired_instructions() {
  if constexpr (!kIsRecording) return {};
  return counter_of_thread.read_count();
}

InstructionScope::InstructionScope(Source source) : source_(source), start_(source()) { ++open_scopes; }

InstructionScope::~InstructionScope() {
  const std::optional<int64_t> spent = so_far();
  if (--open_scopes == 0 && spent) count("instructions.compile", *spent);
}

std::optional<int64_t> InstructionScope::so_far() const {
  const std::optional<int64_t> now = start_ ? source_() : std::nullopt;
  return now ? std::optional(*now - *start_) : std::nullopt;
}

}  // namespace stator::observe
