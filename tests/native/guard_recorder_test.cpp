// Facts that a capture relied on: which are recorded, and which are left out.
#include "capture/interpreter/state/guard_recorder.h"

#include <gtest/gtest.h>

#include "running_frames.h"

namespace stator::capture {
namespace {

class GuardRecorderTest : public ::testing::Test {
 protected:
  testing::Python python;
  RunningFrames running;
  Prototypes prototypes;
  GuardRecorder guards{running.stack, prototypes};
  Ref number = python("5000"), text = python("'text'");
};

TEST_F(GuardRecorderTest, AFactNamesTheLineThatNeededIt) {
  Source* source = guards.sources().argument(0, number.get());
  guards.add(source, FactKind::Identity, number.get());
  guards.add_at_end(source, FactKind::Length, 3);
  ASSERT_EQ(source->facts.size(), 2u);
  EXPECT_EQ(source->facts[0].line.line, 20);
  EXPECT_EQ(source->facts[0].object.get(), number.get());
  EXPECT_EQ(source->facts[1].line.line, 0);
  EXPECT_EQ(source->facts[1].number, 3);
}

TEST_F(GuardRecorderTest, AFactIsRecordedOnce) {
  Source* source = guards.sources().argument(0, number.get());
  guards.add(source, FactKind::Length, nullptr, 2);
  guards.add(source, FactKind::Length, nullptr, 2);
  EXPECT_EQ(source->facts.size(), 1u);
}

TEST_F(GuardRecorderTest, WhatFollowsFromThePinIsLeftOut) {
  Source* source = guards.sources().pinned(text.get(), "text");
  guards.add(source, FactKind::Identity, text.get());
  guards.add(source, FactKind::Equals, text.get());
  guards.add_type(source, &PyUnicode_Type);
  EXPECT_TRUE(source->facts.empty());
  guards.add(source, FactKind::Length, nullptr, 4);
  EXPECT_EQ(source->facts.size(), 1u);
}

TEST_F(GuardRecorderTest, AClassIsGuardedOnceUnlessItCannotChange) {
  Ref made = python("type('Made', (), {})");
  guards.add_class(made.as<PyTypeObject>());
  guards.add_class(made.as<PyTypeObject>());
  guards.add_class(&PyList_Type);
  const auto& roots = guards.sources().roots();
  ASSERT_EQ(roots.size(), 1u);
  EXPECT_EQ(roots[0]->object.get(), made.get());
  ASSERT_EQ(roots[0]->facts.size(), 1u);
  EXPECT_EQ(roots[0]->facts[0].kind, FactKind::ClassContent);
}

TEST_F(GuardRecorderTest, SourcesOfOneObject) {
  Source *a = guards.sources().argument(0, number.get()), *b = guards.sources().argument(1, number.get());
  guards.add_same(a, a, true);
  EXPECT_TRUE(a->facts.empty());
  guards.add_same(a, b, true);
  ASSERT_EQ(a->facts.size(), 1u);
  EXPECT_EQ(a->facts[0].kind, FactKind::SameAs);
  EXPECT_EQ(a->facts[0].other, b);
  EXPECT_TRUE(a->loaded && b->loaded) << "both need a slot, even without other facts";
}

TEST_F(GuardRecorderTest, SourcesOfDifferentObjectsAreGuardedTogether) {
  std::vector<Source*> sources;
  for (int i = 0; i < 5; ++i) sources.push_back(guards.sources().argument(i, number.get()));
  guards.add_same(sources[0], sources[1], false);
  for (int i = 2; i < 5; ++i)
    for (int j = i + 1; j < 5; ++j) guards.add_same(sources[i], sources[j], false);
  auto tree = guards.take_sources();
  ASSERT_EQ(sources[0]->facts.size(), 1u);
  EXPECT_EQ(sources[0]->facts[0].kind, FactKind::NotSameAs);
  EXPECT_EQ(sources[0]->facts[0].other, sources[1]);
  ASSERT_EQ(sources[2]->facts.size(), 1u) << "each of three was compared with each";
  EXPECT_EQ(sources[2]->facts[0].kind, FactKind::Distinct);
  EXPECT_EQ(sources[2]->facts[0].group->size(), 3u);
  for (int i : {1, 3, 4}) EXPECT_TRUE(sources[i]->facts.empty());
}

TEST_F(GuardRecorderTest, ObjectsThatOnlyTheCaptureHasAreNotInTheTree) {
  Ref own = python("type('Own', (), {})");
  prototypes.own(own);
  Source* root = guards.sources().pinned(own.get(), "Own");
  Source* part = guards.sources().child(root, SourceKind::Attribute, kOwnAttribute, text.get(), number.get());
  guards.add(part, FactKind::Identity, number.get());
  Source* argument = guards.sources().argument(0, number.get());
  // The other object is guarded instead.
  guards.add_same(argument, part, true);
  ASSERT_EQ(argument->facts.size(), 1u);
  EXPECT_EQ(argument->facts[0].kind, FactKind::Identity);
  auto tree = guards.take_sources();
  ASSERT_EQ(tree->roots().size(), 1u);
  EXPECT_EQ(tree->roots()[0], argument);
  EXPECT_TRUE(part->facts.empty());
  EXPECT_FALSE(part->object);
}

}  // namespace
}  // namespace stator::capture
