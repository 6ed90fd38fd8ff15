// The parts without Python from many threads at once. `make tsan` runs these under ThreadSanitizer.
#include <ATen/Parallel.h>
#include <ATen/TensorOperators.h>
#include <ATen/ops/equal.h>
#include <ATen/ops/linear.h>
#include <ATen/ops/ones.h>
#include <ATen/ops/rand.h>
#include <gtest/gtest.h>

#include <atomic>
#include <cstring>
#include <functional>
#include <thread>

#include "../graph/build.h"
#include "core/backend/backend.h"
#include "core/fake/pool.h"
#include "core/graph/text.h"
#include "core/graph/verify.h"
#include "core/observe/counters.h"
#include "core/tracer/tracer.h"

namespace stator {
namespace {

using namespace testing;

constexpr int kThreads = 8, kRounds = 40;

/// Runs `work(number)` in all threads, which start together.
void together(const std::function<void(int)>& work) {
  std::atomic<int> ready{0};
  std::vector<std::thread> threads;
  for (int number = 0; number < kThreads; ++number)
    threads.emplace_back([&, number] {
      ++ready;
      while (ready < kThreads) std::this_thread::yield();
      work(number);
    });
  for (auto& thread : threads) thread.join();
}

class Threads : public ::testing::Test {
 protected:
  void SetUp() override {
    ASSERT_EQ(fake::install(), "");
    ASSERT_EQ(tracer::install(), "");
    at::set_num_threads(1);
  }
};

std::shared_ptr<graph::Graph> doubled_sum() {
  auto graph = std::make_shared<graph::Graph>();
  graph->states.push_back({});
  for (const char* name : {"x", "y"}) graph->add_input(name, {});
  auto sum = call(*graph, op("add", "Tensor"), {v(0), v(1), c(1)});
  graph->outputs = {call(*graph, op("mul", "Tensor"), {v(sum), c(at::ones({}) * 2)})};
  return graph;
}

TEST_F(Threads, OneExecutableRunsInAll) {
  auto executable = backend::compile_reference(doubled_sum());
  together([&](int number) {
    auto x = at::ones({3}) * number, y = at::ones({3});
    for (int round = 0; round < kRounds; ++round) EXPECT_TRUE(at::equal(executable->run({x, y})[0], (x + y) * 2));
  });
}

TEST_F(Threads, EachCompilesAndRunsItsOwn) {
  together([&](int number) {
    for (int round = 0; round < kRounds; ++round) {
      auto x = at::ones({2, 2}) * number;
      EXPECT_TRUE(at::equal(backend::compile_reference(doubled_sum())->run({x, x})[0], x * 4));
    }
  });
}

TEST_F(Threads, EachTracesItsOwn) {
  together([&](int number) {
    auto x = at::ones({2, 3}) * number, w = at::ones({4, 3}).requires_grad_();
    for (int round = 0; round < kRounds; ++round) {
      tracer::Tracer tracer("thread");
      auto fake_x = tracer.add_input(x, "x"), fake_w = tracer.add_input(w, "w");
      at::Tensor y;
      {
        tracer::TraceScope scope(tracer);
        y = at::linear(fake_x, fake_w).relu().mul(number + 1).sum();
      }
      EXPECT_TRUE(y.requires_grad());
      tracer.graph().outputs = {tracer.value_of(y)};
      EXPECT_EQ(graph::find_problem(tracer.graph()), "");
      auto out = backend::compile_reference(tracer.share_graph())->run({x, w})[0];
      EXPECT_TRUE(at::equal(out, at::linear(x, w).relu().mul(number + 1).sum()));
    }
  });
}

TEST_F(Threads, OneGraphIsPrintedAndReadByAll) {
  auto graph = doubled_sum();
  const std::string text = graph::to_text(*graph);
  together([&](int) {
    for (int round = 0; round < kRounds; ++round) {
      EXPECT_EQ(graph::to_text(*graph), text);
      EXPECT_EQ(graph::to_text(*graph::from_text(text)), text);
    }
  });
}

TEST_F(Threads, CountsAddUp) {
  observe::reset_counts();
  together([&](int number) {
    for (int round = 0; round < kRounds; ++round) {
      observe::count("threads.shared");
      observe::count("threads.own" + std::to_string(number));
      (void)observe::counts();
    }
  });
  auto counts = observe::counts();
  EXPECT_EQ(counts["threads.shared"], static_cast<uint64_t>(kThreads * kRounds));
  EXPECT_EQ(counts["threads.own3"], static_cast<uint64_t>(kRounds));
  observe::reset_counts();
}

TEST_F(Threads, PoolSlotsAreNeverShared) {
  static auto* pool = new fake::Pool(24);
  together([&](int number) {
    std::vector<unsigned char*> slots;
    for (int round = 0; round < 20 * kRounds; ++round) {
      slots.push_back(static_cast<unsigned char*>(pool->allocate()));
      std::memset(slots.back(), number, 24);
      if (round % 3 == 2) {
        for (int byte = 0; byte < 24; ++byte) EXPECT_EQ(slots.front()[byte], number);
        pool->free(slots.front());
        slots.erase(slots.begin());
      }
    }
    for (auto* slot : slots) pool->free(slot);
  });
}

TEST_F(Threads, FakesMadeHereDieThere) {
  std::vector<tracer::Tracer*> tracers;
  for (int i = 0; i < kThreads; ++i) tracers.push_back(new tracer::Tracer("handed on"));
  together([&](int number) {
    auto fake = tracers[number]->add_input(at::ones({2}), "x");
    tracer::TraceScope scope(*tracers[number]);
    auto y = fake.sin() + 1;
    EXPECT_EQ(y.sizes(), (std::vector<int64_t>{2}));
  });
  together([&](int number) { delete tracers[(number + 1) % kThreads]; });
}

}  // namespace
}  // namespace stator
