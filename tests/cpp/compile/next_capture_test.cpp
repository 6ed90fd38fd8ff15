// Which numbers a capture takes as inputs: each transition, and the bound on the number of captures.
#include "compile/next_capture.h"

#include <gtest/gtest.h>

#include <set>

namespace stator {
namespace {

using capture::Numbers;

Numbers floats(std::unordered_set<std::string> names) { return {std::move(names), {}, {}}; }
Numbers ints(std::unordered_set<std::string> names) { return {{}, std::move(names), {}}; }
Numbers size(const std::string& tensor, int dim) {
  Numbers made;
  made.sizes.add(tensor, uint64_t{1} << dim);
  return made;
}
Numbers both(Numbers a, const Numbers& b) {
  a.add_numbers(b);
  return a;
}
std::set<std::string> names(const Numbers& numbers) {
  std::set<std::string> made(numbers.floats.begin(), numbers.floats.end());
  made.insert(numbers.ints.begin(), numbers.ints.end());
  numbers.sizes.for_each([&](const std::string& tensor, int dim) { made.insert(tensor + "." + std::to_string(dim)); });
  return made;
}
using Names = std::set<std::string>;

NumberChoice choice(Numbers varying, Numbers changed = {}, Numbers constants = {}) {
  return {std::move(varying), std::move(changed), std::move(constants)};
}
CaptureOutcome broke(Numbers named = {}) {
  CaptureOutcome outcome;
  outcome.broke = true;
  outcome.named = std::move(named);
  return outcome;
}
CaptureOutcome refused(Numbers numbers) {
  CaptureOutcome outcome;
  outcome.refused = std::move(numbers);
  return outcome;
}

/// The entry is the result.
void expect_end(const CaptureDecision& decision, const Names& needed = {}) {
  EXPECT_FALSE(decision.next);
  EXPECT_FALSE(decision.is_unusable);
  EXPECT_EQ(names(decision.needed), needed);
}
/// Another capture follows; returns its numbers.
NumberChoice expect_next(const CaptureDecision& decision, const NumberChoice& before, const Names& needed) {
  EXPECT_FALSE(decision.is_unusable);
  EXPECT_EQ(names(decision.needed), needed);
  if (!decision.next) {
    ADD_FAILURE() << "no capture follows";
    return before;
  }
  EXPECT_EQ(decision.next->number, before.number + 1);
  return *decision.next;
}

TEST(NextCapture, WithoutABreakTheEntryIsTheResult) {
  expect_end(next_capture(choice({}), {}));
  expect_end(next_capture(choice(both(floats({"a"}), size("x", 0)), floats({"a"})), {}));
}

TEST(NextCapture, ABreakThatNeedsNoNumberIsTheResult) {
  expect_end(next_capture(choice({}), broke()));
  // A number that varied before may vary here as well, unless the break is an error.
  expect_end(next_capture(choice(ints({"n"})), broke()));
}

TEST(NextCapture, NumbersThatTheBreakNamesBecomeConstants) {
  const NumberChoice first = choice(both(ints({"n", "m"}), size("x", 1)), ints({"n"}));
  const NumberChoice next = expect_next(next_capture(first, broke(size("x", 1))), first, {"x.1"});
  EXPECT_EQ(names(next.varying), (Names{"n", "m"}));
  EXPECT_EQ(names(next.changed), (Names{"n"}));
  EXPECT_EQ(names(next.constants), (Names{"x.1"}));
  EXPECT_FALSE(next.has_constants_only);
}

TEST(NextCapture, NumbersThatChangedBecomeConstantsIfTheBreakNamesNone) {
  const NumberChoice first = choice(both(ints({"n", "m"}), floats({"a"})), both(ints({"n"}), floats({"a"})));
  const NumberChoice next = expect_next(next_capture(first, broke()), first, {"n", "a"});
  EXPECT_EQ(names(next.varying), (Names{"m"}));
  EXPECT_FALSE(next.changed.has_numbers());
}

TEST(NextCapture, ABreakWhereAnEntryWithConstantsEndedAsWellNeedsNone) {
  CaptureOutcome outcome = broke(ints({"n"}));
  outcome.ends_as_before = true;
  expect_end(next_capture(choice(ints({"n"}), ints({"n"})), outcome));
  // Without numbers that changed there is no such entry.
  const NumberChoice known = choice(ints({"n"}));
  expect_next(next_capture(known, outcome), known, {"n"});
}

TEST(NextCapture, ABreakThatIsAnErrorMakesAllNumbersConstants) {
  CaptureOutcome outcome = broke();
  outcome.is_refusal = true;
  const NumberChoice first = choice(both(ints({"n"}), size("x", 0)));
  const NumberChoice next = expect_next(next_capture(first, outcome), first, {"n", "x.0"});
  EXPECT_FALSE(next.varying.has_numbers());
  expect_end(next_capture(next, outcome));
}

TEST(NextCapture, NumbersThatTheBackendRefusesBecomeConstants) {
  const NumberChoice first = choice(floats({"a", "b"}), floats({"a"}));
  // Whatever the break says: the entry must not be used.
  CaptureOutcome outcome = broke(floats({"b"}));
  outcome.refused = floats({"a"});
  outcome.specialised = ints({"n"});
  const NumberChoice next = expect_next(next_capture(first, outcome), first, {});
  EXPECT_EQ(names(next.varying), (Names{"b"}));
  EXPECT_FALSE(next.changed.has_numbers());
  EXPECT_EQ(names(next.constants), (Names{"a", "n"}));
}

TEST(NextCapture, AnIntThatVariesOnlyBecauseTheUserAskedForItBecomesAConstant) {
  const NumberChoice first = choice({});
  const NumberChoice next = expect_next(next_capture(first, broke(ints({"n"}))), first, {"n"});
  EXPECT_EQ(names(next.constants), (Names{"n"}));
}

TEST(NextCapture, WhatIsAConstantAlreadyLeadsToNoFurtherCapture) {
  // Such as a size that a mark makes a symbol all the same.
  expect_end(next_capture(choice({}, {}, size("x", 0)), broke(size("x", 0))), {"x.0"});
  const CaptureDecision decision = next_capture(choice({}, {}, size("x", 0)), refused(size("x", 0)));
  EXPECT_FALSE(decision.next);
  EXPECT_TRUE(decision.is_unusable);
  // One that varies in spite of it is taken out.
  const NumberChoice varying = choice(floats({"a"}), {}, floats({"a"}));
  EXPECT_FALSE(expect_next(next_capture(varying, refused(floats({"a"}))), varying, {}).varying.has_numbers());
}

TEST(NextCapture, NoSequenceOfOutcomesMakesMoreCapturesThanTheBound) {
  for (const bool refuses : {false, true}) {
    NumberChoice now = choice(ints({"kept"}), ints({"kept"}));
    // Each capture meets a number that was not known before.
    while (true) {
      const Numbers number = ints({"n" + std::to_string(now.number)});
      EXPECT_EQ(now.has_constants_only, now.number == kMaxCaptures);
      const CaptureDecision decision = next_capture(now, refuses ? refused(number) : broke(number));
      if (!decision.next) {
        EXPECT_EQ(decision.is_unusable, refuses);
        break;
      }
      ASSERT_EQ(decision.next->number, now.number + 1);
      now = *decision.next;
    }
    EXPECT_EQ(now.number, kMaxCaptures);
    EXPECT_FALSE(now.varying.has_numbers());
    EXPECT_FALSE(now.changed.has_numbers());
  }
}

}  // namespace
}  // namespace stator
