// Side effects of a capture, and the map from objects to values.
#include "capture/interpreter/state/effect_log.h"

#include <gtest/gtest.h>

#include "capture/call/break.h"
#include "capture/interpreter/state/object_map.h"

namespace stator::capture {
namespace {

SequenceValue* make_list(ValueArena& arena) { return arena.make<SequenceValue>(Kind::List, &PyList_Type); }

TEST(EffectLog, CountsItemsThatAreTakenInARow) {
  ValueArena arena;
  EffectLog log(arena);
  Value *first = make_list(arena), *second = make_list(arena);
  log.add_take(first);
  log.add_take(first);
  log.add_take(second);
  log.add_take(first);
  ASSERT_EQ(log.size(), 3u);
  EXPECT_EQ(log[0].count, 2);
  EXPECT_EQ(log[1].target, second);
  EXPECT_EQ(log[2].count, 1);
  EXPECT_TRUE(log.has(EffectKind::Take, second));
  EXPECT_FALSE(log.has(EffectKind::ListReplace, second));
  log.truncate(1);
  EXPECT_FALSE(log.has(EffectKind::Take, second));
}

TEST(EffectLog, CountsChangesThatMakeNoEffect) {
  ValueArena arena;
  EffectLog log(arena);
  log.note_change();
  EXPECT_EQ(log.changes(), 1u);
  EXPECT_TRUE(log.empty());
}

TEST(EffectLog, AReplayablePartHasALogOfItsOwnAndChangesOnlyItsOwnValues) {
  ValueArena arena;
  EffectLog log(arena);
  Value* before = make_list(arena);
  log.add({EffectKind::ListReplace, before});
  EXPECT_NO_THROW(log.refuse_frozen(before));
  {
    EffectLog::ReplayablePart part(log);
    EXPECT_TRUE(log.empty());
    Value* own = make_list(arena);
    EXPECT_THROW(log.refuse_frozen(before), Break);
    EXPECT_NO_THROW(log.refuse_frozen(own));
    {
      EffectLog::ReplayablePart nested(log);
      EXPECT_THROW(log.refuse_frozen(own), Break);
    }
    EXPECT_NO_THROW(log.refuse_frozen(own));
    log.add({EffectKind::ListReplace, own});
  }
  EXPECT_NO_THROW(log.refuse_frozen(before));
  ASSERT_EQ(log.size(), 1u);
  EXPECT_EQ(log[0].target, before);
}

TEST(ObjectMap, GivesOneValueForAnObject) {
  ValueArena arena;
  ObjectMap map;
  auto* object = reinterpret_cast<PyObject*>(&PyList_Type);
  EXPECT_EQ(map.find(object), nullptr);
  EXPECT_FALSE(map.contains(object));
  Value* value = make_list(arena);
  map.add(object, value);
  EXPECT_EQ(map.find(object), value);
  size_t count = 0;
  map.for_each([&](Value*) { ++count; });
  EXPECT_EQ(count, 1u);
}

TEST(ObjectMap, PlacesThatTheCallerFillsAreKept) {
  ValueArena arena;
  ObjectMap map;
  Value* referent = make_list(arena);
  EXPECT_EQ(map.weak_reference_to(referent), nullptr);
  auto* reference = arena.make<ObjectValue>(&_PyWeakref_RefType);
  map.weak_reference_to(referent) = reference;
  EXPECT_EQ(map.weak_reference_to(referent), reference);
  auto* dict = reinterpret_cast<PyObject*>(&PyDict_Type);
  EXPECT_EQ(map.owner_of_dict(dict), nullptr);
  EXPECT_EQ(map.claim_dict(dict, reference), nullptr);
  EXPECT_EQ(map.owner_of_dict(dict), reference);
  EXPECT_EQ(map.claim_dict(dict, referent), reference);
}

}  // namespace
}  // namespace stator::capture
