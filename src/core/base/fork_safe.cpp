#include "core/base/fork_safe.h"

#include <new>

namespace stator {

/// What runs around each fork of the process, over the list of all locks.
struct ForkHandlers {
  // The newest lock. Locks are added without a lock and never taken out.
  static inline std::atomic<ForkSafeLock*> newest = nullptr;
  // The newest lock that `prepare` took.
  static inline ForkSafeLock* first_taken = nullptr;
  // Held from `prepare` to its end by the thread that forks: two threads may fork at once.
  static inline std::mutex forking;

  static void add(ForkSafeLock* lock) {
    lock->next_ = newest.load(std::memory_order_relaxed);
    while (!newest.compare_exchange_weak(lock->next_, lock, std::memory_order_release, std::memory_order_relaxed)) {
    }
  }

  static void prepare() {
    forking.lock();
    first_taken = newest.load(std::memory_order_acquire);
    for (ForkSafeLock* busy = first_taken; busy != nullptr;) busy = take_all(busy);
  }

  /// Waits for `first`, then tries the others without waiting. Returns null if it took all. If one is held by another
  /// thread, releases all and returns that one: to wait for it here could be a deadlock, since its owner may want
  /// `first`.
  static ForkSafeLock* take_all(ForkSafeLock* first) {
    first->take_for_fork(true);
    for (ForkSafeLock* lock = first_taken; lock != nullptr; lock = lock->next_) {
      if (lock == first || lock->take_for_fork(false)) continue;
      for (ForkSafeLock* taken = first_taken; taken != lock; taken = taken->next_)
        if (taken != first) taken->release_in_parent();
      first->release_in_parent();
      return lock;
    }
    return nullptr;
  }

  static void in_parent() {
    for (ForkSafeLock* lock = first_taken; lock != nullptr; lock = lock->next_) lock->release_in_parent();
    forking.unlock();
  }

  static void in_child() {
    for (ForkSafeLock* lock = newest; lock != first_taken; lock = lock->next_) lock->renew();
    for (ForkSafeLock* lock = first_taken; lock != nullptr; lock = lock->next_) lock->release_in_child();
    forking.unlock();
  }
};

// While the library is loaded, so before any of the locks can be held.
[[maybe_unused]] static const int installed =
    pthread_atfork(ForkHandlers::prepare, ForkHandlers::in_parent, ForkHandlers::in_child);

ForkSafeLock::ForkSafeLock() { ForkHandlers::add(this); }

bool ForkSafeMutex::take_for_fork(bool wait) {
  if (!wait) return mutex_.try_lock();
  mutex_.lock();
  return true;
}

void ForkSafeMutex::renew() { new (&mutex_) std::mutex; }

void ForkRenewedMutex::note_locked() {
  owner_.store(pthread_self(), std::memory_order_relaxed);
  ++depth_;
}

void ForkRenewedMutex::lock() {
  mutex_.lock();
  note_locked();
}

bool ForkRenewedMutex::try_lock() {
  if (!mutex_.try_lock()) return false;
  note_locked();
  return true;
}

void ForkRenewedMutex::unlock() {
  if (--depth_ == 0) owner_.store(kNoThread, std::memory_order_relaxed);
  mutex_.unlock();
}

void ForkRenewedMutex::release_in_child() {
  // A thread keeps its pthread_t over a fork. Another owner's depth may be half written: it is not looked at.
  if (owner_.load(std::memory_order_relaxed) != pthread_self()) return renew();
  new (&mutex_) std::recursive_mutex;
  for (int i = 0; i < depth_; ++i) mutex_.lock();
}

void ForkRenewedMutex::renew() {
  new (&mutex_) std::recursive_mutex;
  owner_ = kNoThread;
  depth_ = 0;
}

}  // namespace stator
