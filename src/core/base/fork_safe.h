#pragma once

#include <pthread.h>

#include <atomic>
#include <mutex>

#include "core/base/export.h"

namespace stator {

/// A lock that is usable in the child of a fork. A fork copies one thread: a lock that another thread held would stay
/// locked in the child for ever, over data that is half written. Every lock of Stator is therefore one of the two
/// classes below; each adds itself to one list, and the fork handlers work on that list. `tools/check_names.py` (part
/// of `make lint`) rejects `std::mutex`, `std::once_flag` and the like elsewhere in src/.
///
/// Locks live as long as the process: they are made by `new` at namespace scope, or in an object that is made so.
///
/// The guard of a function-local static is a lock as well, which no handler knows. So the core has no such static. The
/// extension is compiled without guards (-fno-threadsafe-statics): its statics are used with the GIL only, which orders
/// their initialisers. One that gives up the GIL may run again before it is done; it must
/// give the same object each time, or use `keep_first` (capture/pycompat/keep_first.h).
class STATOR_API ForkSafeLock {
 public:
  ForkSafeLock(const ForkSafeLock&) = delete;
  ForkSafeLock& operator=(const ForkSafeLock&) = delete;

 protected:
  ForkSafeLock();
  ~ForkSafeLock() = default;

 private:
  friend struct ForkHandlers;
  /// Takes the lock for the thread that forks: `wait`s for it, or answers whether it was free.
  virtual bool take_for_fork(bool wait) = 0;
  virtual void release_in_parent() = 0;
  virtual void release_in_child() = 0;
  /// In the child, for a lock that another thread made while this one forked: it was not taken.
  virtual void renew() = 0;

  ForkSafeLock* next_ = nullptr;  // the lock that was made before this one
};

/// For short sections. The thread that forks takes all of these first, so that no other thread is inside of a section
/// when the child is copied, and releases them in both processes. That thread may hold the GIL meanwhile: a thread that
/// holds a lock of this class must not wait for the GIL, call code of the program, or fork. It may take another one.
class STATOR_API ForkSafeMutex final : public ForkSafeLock {
 public:
  ForkSafeMutex() = default;
  ~ForkSafeMutex() = delete;
  void lock() { mutex_.lock(); }
  void unlock() { mutex_.unlock(); }

 private:
  bool take_for_fork(bool wait) override;
  void release_in_parent() override { mutex_.unlock(); }
  void release_in_child() override { mutex_.unlock(); }
  void renew() override;

  std::mutex mutex_;
};

/// For long sections that run Python code, as a capture does. A fork cannot wait for its owner, which may wait for the
/// GIL. The child gets a new lock; what the forking thread itself holds, it holds again. So the data under the lock
/// must be consistent wherever the owner may give up the GIL: another thread, or the same one further down, may see it
/// there.
class STATOR_API ForkRenewedMutex final : public ForkSafeLock {
 public:
  ForkRenewedMutex() = default;
  ~ForkRenewedMutex() = delete;
  void lock();
  bool try_lock();
  void unlock();

 private:
  bool take_for_fork(bool) override { return true; }
  void release_in_parent() override {}
  void release_in_child() override;
  void renew() override;
  void note_locked();

  std::recursive_mutex mutex_;
  // The owner writes them while it holds the lock; `kNoThread` while no thread does.
  static constexpr pthread_t kNoThread = 0;
  std::atomic<pthread_t> owner_ = kNoThread;
  int depth_ = 0;
};

/// A value that is made at its first use, by one thread. In place of a function-local static or `std::call_once`; made
/// by `new` at namespace scope. Making it must not wait for the GIL.
template <class T>
class ForkSafeOnce {
 public:
  ForkSafeOnce() = default;
  ~ForkSafeOnce() = delete;
  template <class Make>
  const T& get(const Make& make) {
    if (const T* made = made_.load(std::memory_order_acquire)) return *made;
    std::lock_guard lock(mutex_);
    if (made_.load(std::memory_order_relaxed) == nullptr) made_.store(new T(make()), std::memory_order_release);
    return *made_.load(std::memory_order_relaxed);
  }

 private:
  ForkSafeMutex& mutex_ = *new ForkSafeMutex;
  std::atomic<const T*> made_ = nullptr;
};

}  // namespace stator
