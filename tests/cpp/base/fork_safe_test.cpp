#include "core/base/fork_safe.h"

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <cstdint>
#include <functional>
#include <thread>
#include <vector>

#include "core/fake/pool.h"
#include "core/observe/counters.h"

namespace stator {
namespace {

constexpr unsigned kPatience = 120;  // seconds after which the kernel ends a child that hangs

/// Exit status of a forked child that runs `work`; -1 if a signal ended it.
int in_child(const std::function<bool()>& work) {
  const pid_t pid = fork();
  if (pid == 0) {
    alarm(kPatience);
    _exit(work() ? 0 : 1);
  }
  int status = 0;
  EXPECT_EQ(waitpid(pid, &status, 0), pid);
  return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

/// Threads that repeat a piece of work until this object ends.
class Busy {
 public:
  Busy(int count, const std::function<void()>& work) {
    for (int i = 0; i < count; ++i)
      threads_.emplace_back([this, work] {
        while (!stop_) work();
      });
  }
  ~Busy() {
    stop_ = true;
    for (std::thread& thread : threads_) thread.join();
  }

 private:
  std::atomic<bool> stop_ = false;
  std::vector<std::thread> threads_;
};

ForkSafeMutex& first = *new ForkSafeMutex;
ForkSafeMutex& second = *new ForkSafeMutex;

TEST(ForkSafe, TheChildTakesEveryLockAndSeesWholeData) {
  std::array<uint64_t, 64> numbers{};
  Busy busy(3, [&] {
    std::lock_guard lock(first);
    for (uint64_t& number : numbers) ++number;
  });
  for (int round = 0; round < 100; ++round) {
    ASSERT_EQ(in_child([&] {
                std::lock_guard lock(first);
                for (uint64_t number : numbers)
                  if (number != numbers[0]) return false;
                return true;
              }),
              0);
  }
}

TEST(ForkSafe, LocksMayNestInAnyOrder) {
  Busy inwards(2, [&] {
    std::scoped_lock lock(first);
    std::scoped_lock inner(second);
  });
  for (int round = 0; round < 100; ++round) {
    ASSERT_EQ(in_child([&] {
                std::scoped_lock both(first);
                std::scoped_lock inner(second);
                return true;
              }),
              0);
  }
}

TEST(ForkSafe, PoolsAndCountersWorkInTheChild) {
  static auto* pool = new fake::Pool(48);
  auto use = [&] {
    void* slot = pool->allocate();
    observe::count("fork.test");
    pool->free(slot);
  };
  Busy busy(3, use);
  for (int round = 0; round < 100; ++round) {
    ASSERT_EQ(in_child([&] {
                for (int i = 0; i < 100; ++i) use();
                return observe::counts().at("fork.test") >= 100;
              }),
              0);
  }
}

TEST(ForkSafe, ARenewedLockIsFreeInTheChildOfAnotherThread) {
  auto& lock = *new ForkRenewedMutex;
  std::atomic<bool> held = false, done = false;
  std::thread owner([&] {
    std::lock_guard guard(lock);
    held = true;
    while (!done) std::this_thread::yield();
  });
  while (!held) std::this_thread::yield();
  EXPECT_FALSE(lock.try_lock());
  EXPECT_EQ(in_child([&] { return lock.try_lock(); }), 0);
  EXPECT_FALSE(lock.try_lock());  // the parent's is as it was
  done = true;
  owner.join();
  EXPECT_TRUE(lock.try_lock());
  lock.unlock();
}

TEST(ForkSafe, ARenewedLockStaysWithTheThreadThatForks) {
  auto& lock = *new ForkRenewedMutex;
  lock.lock();
  lock.lock();
  EXPECT_EQ(in_child([&] {
              auto free_for_others = [&] {
                bool free = false;
                std::thread([&] {
                  free = lock.try_lock();
                  if (free) lock.unlock();
                }).join();
                return free;
              };
              if (free_for_others()) return false;
              lock.unlock();
              if (free_for_others()) return false;
              lock.unlock();
              return free_for_others();
            }),
            0);
  lock.unlock();
  lock.unlock();
}

TEST(ForkSafe, TwoThreadsMayForkAtOnce) {
  Busy busy(2, [&] { std::lock_guard lock(first); });
  std::vector<std::thread> forking;
  std::atomic<int> failed = 0;
  for (int i = 0; i < 4; ++i)
    forking.emplace_back([&] {
      for (int round = 0; round < 20; ++round)
        if (in_child([] { return std::lock_guard(first), true; }) != 0) ++failed;
    });
  for (std::thread& thread : forking) thread.join();
  EXPECT_EQ(failed, 0);
}

}  // namespace
}  // namespace stator
