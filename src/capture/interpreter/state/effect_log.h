#pragma once

#include <cstdint>
#include <optional>
#include <unordered_map>
#include <utility>
#include <vector>

#include "capture/interpreter/state/object_map.h"
#include "capture/values/arena.h"
#include "capture/values/value.h"

namespace stator::capture {

enum class EffectKind : uint8_t {
  SetAttr,
  DelAttr,
  ListReplace,
  DictReplace,
  CallMethod,  // key: name of a method of a built-in class; value: tuple of arguments
  SetCell,
  SetGlobal,
  DelGlobal,
  Make,  // the target is made by a call, in this order among others
  Take,  // `count` items are taken from an iterator
};

/// A change of an external object, which the plan replays.
struct Effect {
  EffectKind kind;
  Value* target;
  Value* key = nullptr;
  Value* value = nullptr;
  int32_t count = 0;
};

/// A result that the program put into a functools cache.
struct CacheFill {
  PyObject* function;
  Ref key;
  Value* result;
};

/// Side effects of the program, in program order.
///
/// Invariant: no external object is changed while the capture runs. Each change is an effect here, and is visible to
/// the program through the values, `globals_written` and `classes_written`. While a replayable part is captured, values
/// that existed before it are not changed at all.
class EffectLog {
 public:
  using Names = std::vector<std::pair<PyObject*, Value*>>;

  explicit EffectLog(const ValueArena& arena) : arena_(arena) {}

  void add(Effect effect) { effects_.push_back(effect); }
  /// Logs that one more item is taken from an iterator.
  void add_take(Value* iterator);
  bool empty() const { return effects_.empty(); }
  size_t size() const { return effects_.size(); }
  auto begin() const { return effects_.begin(); }
  auto end() const { return effects_.end(); }
  const Effect& operator[](size_t index) const { return effects_[index]; }
  /// Removes the effects from an index on.
  void truncate(size_t size) { effects_.resize(size); }
  bool has(EffectKind kind, const Value* target) const;

  /// Counts a change of a container, whether or not it makes a new effect.
  void note_change() { ++changes_; }
  /// The number of changes so far. Equal counts mean that no container changed in between.
  uint64_t changes() const { return changes_; }

  /// Whether the program changed this external object, or the instance whose `__dict__` it is.
  bool is_changed(PyObject* object, const ObjectMap& objects) const;

  /// Captures a part of the program that may run any number of times. It has its own log, which the caller
  /// inspects before the scope ends; changes of values that existed before it are breaks.
  class ReplayablePart {
   public:
    explicit ReplayablePart(EffectLog& log);
    ~ReplayablePart();
    ReplayablePart(const ReplayablePart&) = delete;
    ReplayablePart& operator=(const ReplayablePart&) = delete;

   private:
    EffectLog& log_;
    std::vector<Effect> outer_effects_;
    std::optional<size_t> outer_frozen_;
  };
  /// Whether a replayable part is captured and the value existed before it.
  bool is_frozen(const Value* value) const { return frozen_ && arena_.is_among_first(value, *frozen_); }
  /// Breaks if the value must not be changed. Must be called before any change of it.
  void refuse_frozen(const Value* value) const;

  /// Names that the program wrote in globals and Python modules (null: deleted), by their dict.
  std::unordered_map<PyObject*, Names> globals_written;
  /// Attributes that the program wrote to classes, newest first.
  std::unordered_map<PyTypeObject*, Names> classes_written;
  std::vector<CacheFill> cache_fills;

 private:
  const ValueArena& arena_;
  std::vector<Effect> effects_;
  uint64_t changes_ = 0;
  std::optional<size_t> frozen_;  // in a replayable part: the number of values that existed before it
};

}  // namespace stator::capture
