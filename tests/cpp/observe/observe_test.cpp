// Counters, phases, records and events, without Python.
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <thread>
#include <vector>

#include "core/observe/clock.h"
#include "core/observe/counters.h"
#include "core/observe/events.h"
#include "core/observe/instructions.h"
#include "core/observe/phases.h"
#include "core/observe/record.h"

namespace stator::observe {
namespace {

Counter fixed("observe_test", "fixed");
PhaseKind& outer_kind = *new PhaseKind("observe_test_outer");
PhaseKind& inner_kind = *new PhaseKind("observe_test_inner");

void in_threads(int threads, const std::function<void()>& work) {
  std::vector<std::thread> running;
  for (int i = 0; i < threads; ++i) running.emplace_back(work);
  for (auto& thread : running) thread.join();
}

TEST(Counters, AddFromManyThreads) {
  reset_counts();
  in_threads(4, [] {
    for (int i = 0; i < 1000; ++i) {
      fixed.add(2);
      count("observe_test.named", 2);
    }
  });
  EXPECT_EQ(fixed.value(), 8000);
  EXPECT_EQ(counts().at("observe_test.fixed"), 8000);
  EXPECT_EQ(count_of("observe_test.named"), 8000);
}

TEST(Counters, FixedOneIsFoundByNameAndShownAtZero) {
  reset_counts();
  EXPECT_EQ(counts().at("observe_test.fixed"), 0);
  EXPECT_EQ(count("observe_test.fixed", 3), 3);
  EXPECT_EQ(fixed.value(), 3);
  EXPECT_FALSE(counts().contains("observe_test.none"));
  EXPECT_EQ(count_of("observe_test.none"), 0);
}

TEST(Counters, ResetOfOneGroupLeavesOthers) {
  reset_counts();
  count("observe_test.a");
  count("observe_test_other.a");
  fixed.add();
  reset_counts("observe_test");
  EXPECT_EQ(count_of("observe_test.a"), 0);
  EXPECT_EQ(fixed.value(), 0);
  EXPECT_EQ(count_of("observe_test_other.a"), 1);
}

TEST(Counters, RestoreGivesEarlierCounts) {
  reset_counts();
  fixed.add(5);
  count("observe_test.a", 2);
  const auto earlier = counts();
  fixed.add();
  count("observe_test.b");
  restore_counts(earlier);
  EXPECT_EQ(counts(), earlier);
}

TEST(Phases, NestByThreadAndAddUp) {
  reset_phase_times();
  in_threads(4, [] {
    Phase outer(outer_kind);
    for (int i = 0; i < 3; ++i) Phase inner(inner_kind);
  });
  const auto times = phase_times();
  EXPECT_EQ(times.at("observe_test_outer").count, 4);
  EXPECT_EQ(times.at("observe_test_inner").count, 12);
  EXPECT_EQ(times.at("observe_test_inner").durations.size(), 12u);
  EXPECT_LE(times.at("observe_test_inner").total_ns, times.at("observe_test_outer").total_ns);
  EXPECT_EQ(times.at("observe_test_outer").active, 0);
}

TEST(Phases, ShowsThoseThatAreOpen) {
  Phase outer(outer_kind);
  EXPECT_EQ(phase_times().at("observe_test_outer").active, 1);
}

TEST(Phases, DurationsAreBounded) {
  reset_phase_times();
  for (size_t i = 0; i < 3 * kMaxDurations; ++i) Phase phase(inner_kind);
  const PhaseTimes times = phase_times().at("observe_test_inner");
  EXPECT_EQ(times.count, static_cast<int64_t>(3 * kMaxDurations));
  EXPECT_EQ(times.durations.size(), kMaxDurations);
}

TEST(Phases, SameNameIsSameKind) { EXPECT_EQ(&phase_kind("observe_test_outer"), &outer_kind); }

TEST(Records, HoldTheSpansOfTheirThread) {
  clear_records();
  reset_frame_count();
  {
    RecordScope scope;
    scope->compile_id = "7/0";
    {
      Phase outer(outer_kind);
      Phase inner(inner_kind, 3);
    }
    EXPECT_EQ(open_record()->compile_id, "7/0");
    std::thread([] { EXPECT_EQ(open_record(), nullptr); }).join();
  }
  EXPECT_EQ(open_record(), nullptr);
  ASSERT_EQ(records().size(), 1u);
  const CompilationRecord& record = *records().front();
  ASSERT_EQ(record.spans.size(), 2u);
  EXPECT_EQ(record.spans[0].kind, &inner_kind);
  EXPECT_EQ(record.spans[0].number, 3u);
  EXPECT_EQ(record.spans[0].depth, record.spans[1].depth + 1);
  EXPECT_LE(record.start_ns, record.spans[1].start_ns);
  EXPECT_LE(record.spans[1].end_ns, record.end_ns);
  EXPECT_EQ(record.frame_key, 1u);
}

TEST(Records, AnInnerOneDoesNotDisturbTheOuter) {
  RecordScope outer;
  outer->compile_id = "0/0";
  {
    RecordScope inner;
    inner->compile_id = "1/0";
    EXPECT_EQ(open_record()->compile_id, "1/0");
  }
  EXPECT_EQ(open_record()->compile_id, "0/0");
}

TEST(Records, OnlyTheNewestAreKept) {
  clear_records();
  for (int i = 0; i < 70; ++i) {
    RecordScope scope;
    scope->line = i;
  }
  EXPECT_EQ(records().size(), 64u);
  set_record_limit(2);
  ASSERT_EQ(records().size(), 2u);
  EXPECT_EQ(records().back()->line, 69);
  set_record_limit(64);
}

TEST(Records, SpansAreBounded) {
  RecordScope scope;
  for (size_t i = 0; i < kMaxSpans + 10; ++i) Phase phase(inner_kind);
  EXPECT_EQ(scope->spans.size(), kMaxSpans);
  EXPECT_EQ(scope->spans_dropped, 10u);
}

TEST(Records, ResetOfTheFrameCountDropsTimesOnly) {
  count("observe_test.kept");
  { RecordScope scope; }
  { Phase phase(inner_kind); }
  reset_frame_count();
  EXPECT_EQ(frame_count(), 0u);
  EXPECT_TRUE(phase_times().empty());
  EXPECT_GT(count_of("observe_test.kept"), 0);
}

TEST(Events, AreKeptOnlyIfWanted) {
  clear_events();
  { Phase phase(inner_kind); }
  EXPECT_TRUE(events().empty());
  request_events(true);
  {
    RecordScope scope;
    scope->compile_id = "3/1";
    Phase phase(inner_kind);
  }
  request_events(false);
  { Phase phase(inner_kind); }
  const auto seen = events();
  ASSERT_EQ(seen.size(), 2u);
  EXPECT_EQ(seen[0].kind, 'B');
  EXPECT_EQ(seen[1].kind, 'E');
  EXPECT_EQ(seen[0].compile_id, "3/1");
  EXPECT_EQ(seen[0].thread, seen[1].thread);
  EXPECT_LE(seen[0].time_ns, seen[1].time_ns);
}

TEST(Events, AMillionStayWithinTheBound) {
  clear_events();
  const size_t before = event_limit();
  for (int i = 0; i < 1'000'000; ++i) add_event({"event", 'i', i, std::string(100, ' ')});
  uint64_t dropped = 0;
  EXPECT_EQ(events(&dropped).size(), before);
  EXPECT_EQ(dropped, 1'000'000 - before);
  EXPECT_EQ(events().back().time_ns, 999'999);
  clear_events();
  // One event may be large; many large ones may not.
  for (int i = 0; i < 200; ++i) add_event({"event", 'i', i, std::string(size_t{1} << 20, ' ')});
  EXPECT_LE(events().size(), 64u);
  clear_events();
}

TEST(Observation, WorksInTheChildOfAFork) {
  std::atomic<bool> stop{false};
  std::thread busy([&] {
    while (!stop) {
      count("observe_test.fork");
      Phase phase(inner_kind);
      RecordScope scope;
      add_event({"event", 'i', now_ns(), ""});
    }
  });
  for (int i = 0; i < 20; ++i) {
    const pid_t child = fork();
    if (child == 0) {
      alarm(5);  // a lock that stays locked ends the child
      count("observe_test.fork");
      { Phase phase(inner_kind); }
      { RecordScope scope; }
      add_event({"event", 'i', now_ns(), ""});
      _exit(phase_times().empty() || records().empty() || events().empty());
    }
    int status = -1;
    ASSERT_EQ(waitpid(child, &status, 0), child);
    ASSERT_TRUE(WIFEXITED(status)) << "signal " << WTERMSIG(status);
    EXPECT_EQ(WEXITSTATUS(status), 0);
  }
  stop = true;
  busy.join();
  clear_events();
}

thread_local int64_t fake_instructions = 0;
std::optional<int64_t> read_fake() { return fake_instructions; }
std::optional<int64_t> read_nothing() { return {}; }

TEST(Instructions, OutermostScopeOfEachThreadAdds) {
  reset_counts();
  in_threads(2, [] {
    InstructionScope outer(read_fake);
    fake_instructions += 5;
    {
      InstructionScope inner(read_fake);
      fake_instructions += 7;
      EXPECT_EQ(inner.so_far(), 7);
    }
    EXPECT_EQ(outer.so_far(), 12);
  });
  EXPECT_EQ(count_of("instructions.compile"), 24);
}

TEST(Instructions, WithoutACounterNothingIsAdded) {
  reset_counts();
  {
    InstructionScope scope(read_nothing);
    EXPECT_FALSE(scope.so_far());
  }
  EXPECT_FALSE(counts().contains("instructions.compile"));
}

TEST(Instructions, OfThisThreadGrowIfTheKernelCountsThem) {
  const std::optional<int64_t> before = retired_instructions();
  const std::optional<int64_t> after = retired_instructions();
  ASSERT_EQ(before.has_value(), after.has_value());
  if (!before) GTEST_SKIP() << "the kernel counts no instructions here";
  EXPECT_GT(*after, *before);
  const pid_t child = fork();
  if (child == 0) _exit(retired_instructions() ? 0 : 3);
  int status = 0;
  waitpid(child, &status, 0);
  EXPECT_EQ(status, 0);
}

}  // namespace
}  // namespace stator::observe
