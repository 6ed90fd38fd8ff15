// Which instructions drop an object whose end the program may observe.
#include "capture/interpreter/state/lifetimes.h"

#include <gtest/gtest.h>

#include "capture/interpreter/state/guard_recorder.h"
#include "running_frames.h"

namespace stator::capture {
namespace {

class LifetimesTest : public ::testing::Test {
 protected:
  LifetimesTest() { python.run("class Loud:\n  def __del__(self): pass\nclass Silent: pass"); }

  /// A capture that starts in a resumed frame. Its first slots own the only references to `held`.
  void resume(std::vector<Ref> held) {
    std::vector<PyObject*> values(16);
    for (size_t i = 0; i < held.size(); ++i) values[i] = held[i].get();
    start.emplace(Start{.function = running.function(), .offset = 4, .values = values.data()});
    lifetimes.emplace(*start, objects, effects, guards);
    for (size_t i = 0; i < held.size(); ++i) {
      Value* value = arena.make<ObjectValue>(Py_TYPE(held[i].get()));
      value->source = guards.sources().argument(static_cast<int>(i), held[i].get());
      objects.add(held[i].get(), value);
      locals.push_back(value);
    }
  }

  testing::Python python;
  RunningFrames running;
  ValueArena arena;
  Prototypes prototypes;
  GuardRecorder guards{running.stack, prototypes};
  ObjectMap objects;
  EffectLog effects{arena};
  std::optional<StartFrame> start;
  std::optional<Lifetimes> lifetimes;
  std::vector<Value*> locals;
};

TEST_F(LifetimesTest, DroppingAnObjectWithAFinalizerIsABreak) {
  resume({python("Loud()"), python("Silent()")});
  EXPECT_THROW(lifetimes->drop(locals[0]), Break);
  EXPECT_NO_THROW(lifetimes->drop(locals[1]));
  EXPECT_NO_THROW(lifetimes->drop(static_cast<const Value*>(nullptr)));
  EXPECT_NO_THROW(lifetimes->drop(arena.make<ObjectValue>(&PyBaseObject_Type))) << "the program made it";
}

TEST_F(LifetimesTest, AnObjectWithoutAFinalizerMayHoldOneThatHasOne) {
  resume({python("[Loud()]"), python("[[1], 2]")});
  EXPECT_THROW(lifetimes->drop(locals[0]), Break);
  EXPECT_NO_THROW(lifetimes->drop(locals[1]));
  EXPECT_THROW(lifetimes->drop_parts_of(locals[0]), Break);
  EXPECT_NO_THROW(lifetimes->drop_parts_of(locals[1]));
}

TEST_F(LifetimesTest, ThatADropIsUnobservableInALaterCallIsGuarded) {
  resume({python("Silent()"), python("[Silent()]")});
  lifetimes->drop(locals[0]);
  lifetimes->drop_parts_of(locals[1]);
  for (size_t i = 0; i < 2; ++i) {
    ASSERT_EQ(locals[i]->source->facts.size(), 1u);
    EXPECT_EQ(locals[i]->source->facts[0].kind, FactKind::UnobservableDrop);
    EXPECT_EQ(locals[i]->source->facts[0].number, static_cast<int64_t>(i == 0 ? Dropped::Object : Dropped::Parts));
  }
}

TEST_F(LifetimesTest, AnAttributeIsDroppedWhereItIsReplaced) {
  resume({python("Silent()")});
  PyObject* owner = locals[0]->source->object.get();
  Ref name = python("'held'");
  EXPECT_NO_THROW(lifetimes->drop_attribute(owner, locals[0]->source, name.get())) << "there is none yet";
  EXPECT_FALSE(drop_is_observable(owner, Dropped::Attribute, name.get()));
  PyObject_SetAttr(owner, name.get(), python("Loud()").get());
  EXPECT_THROW(lifetimes->drop_attribute(owner, locals[0]->source, name.get()), Break);
  EXPECT_TRUE(drop_is_observable(owner, Dropped::Attribute, name.get()));
}

TEST_F(LifetimesTest, WhatKeepsAnObjectAlive) {
  Ref object = python("Silent()"), list = python("[[], 1]");
  EXPECT_FALSE(is_reachable(list.get(), object.get()));
  PyList_Append(PyList_GET_ITEM(list.get(), 0), object.get());
  EXPECT_TRUE(is_reachable(list.get(), object.get()));
}

TEST_F(LifetimesTest, ASlotThatWasNotReadDropsWhatItHolds) {
  resume({python("Loud()")});
  Frame& frame = running.outer;
  frame.unread = {locals[0]->source, nullptr};
  EXPECT_THROW(lifetimes->drop_slot(frame, 0), Break);
  EXPECT_NO_THROW(lifetimes->drop_slot(frame, 1));
  frame.store(0, locals[0]);
  EXPECT_THROW(lifetimes->drop_slot(frame, 0), Break);
}

TEST_F(LifetimesTest, FindsTheFirstValueOfAStackThatIsObservable) {
  resume({python("Loud()"), python("Silent()"), python("Loud()")});
  EXPECT_EQ(lifetimes->find_observable(locals, 0), locals[0]);
  EXPECT_EQ(lifetimes->find_observable(locals, 1), locals[2]);
  EXPECT_EQ(lifetimes->find_observable(locals, 3), nullptr);
}

TEST_F(LifetimesTest, AWatchedObjectMustStayReachable) {
  resume({python("Loud()"), python("Silent()")});
  for (Value* value : locals) lifetimes->watch(value->source);
  Frame& current = running.inner;
  EXPECT_THROW(lifetimes->check_watched(current), Break);
  running.outer.locals[0] = locals[0];
  EXPECT_NO_THROW(lifetimes->check_watched(current)) << "a caller holds it";
  auto* list = arena.make<SequenceValue>(Kind::List, &PyList_Type);
  list->items.push_back(locals[0]);
  running.outer.locals[0] = list;
  EXPECT_NO_THROW(lifetimes->check_watched(current)) << "a part of what a caller holds";
  running.outer.locals[0] = nullptr;
  current.returned = true;
  current.locals[0] = locals[0];
  EXPECT_THROW(lifetimes->check_watched(current), Break) << "a frame that returned holds only its result";
  current.result = locals[0];
  EXPECT_NO_THROW(lifetimes->check_watched(current));
}

TEST_F(LifetimesTest, WhatIsReachable) {
  resume({python("Silent()")});
  Value* value = arena.make<ObjectValue>(&PyBaseObject_Type);
  EXPECT_FALSE(lifetimes->is_reachable(&running.inner, value, nullptr));
  EXPECT_TRUE(lifetimes->is_reachable(&running.inner, value, value));
  running.outer.stack.push_back(value);
  EXPECT_TRUE(lifetimes->is_reachable(&running.inner, value, nullptr));
}

}  // namespace
}  // namespace stator::capture
