#pragma once

#include <string>
#include <vector>

#include "capture/guards/dropping.h"
#include "capture/interpreter/state/effect_log.h"
#include "capture/interpreter/state/frame.h"
#include "capture/interpreter/state/object_map.h"
#include "capture/interpreter/state/reach.h"
#include "capture/interpreter/state/start_frame.h"

namespace stator::capture {

struct GeneratorValue;
class GuardRecorder;

/// In the program, objects die where it drops them. A capture keeps everything it examined alive until its plan has
/// run.
///
/// Invariant: an instruction that drops an external object whose finalization the program may observe is a break, so
/// that the program itself executes it.
class Lifetimes {
 public:
  Lifetimes(const StartFrame& start, const ObjectMap& objects, const EffectLog& effects, GuardRecorder& guards)
      : start_(start), objects_(objects), effects_(effects), guards_(guards) {}

  /// Called when the program drops a reference. Breaks if that may run code. Null: nothing is dropped. For objects that
  /// are guarded by identity; the functions below guard that dropping what a later call has there runs no code either.
  void drop(PyObject* object) const;
  /// The attribute of an external object, which is replaced or deleted.
  void drop_attribute(PyObject* owner, Source* source, PyObject* name) const;
  /// The item at a string key of the external dict at this source, which is replaced or deleted.
  void drop_item(Source* dict, PyObject* name) const;
  /// What an external cell holds.
  void drop_contents(const CellValue* cell) const;
  /// An object that the captured frame itself holds. An object that was reached through another one stays alive with
  /// that one.
  void drop(Source* source) const;
  void drop(const Value* value) const { drop(value ? value->source : nullptr); }
  void drop_slot(const Frame& frame, int slot) const;
  /// Called when anything that the external object held at the start of the capture may be dropped.
  void drop_parts_of(const Value* container) const;
  /// The first value of the stack, from an index on, whose finalization may be observed; null: none.
  const Value* find_observable(const std::vector<Value*>& stack, size_t from) const;

  /// Tracks an object that was on the captured frame's stack at the start. The stack may hold its only reference, so
  /// dropping it is a break, wherever the program passed it.
  void watch(Source* source);
  /// Breaks if the program can no longer reach a watched object.
  void check_watched(const Frame& current) const {
    if (!watched_.empty()) find_lost(current);
  }
  /// At the end of the capture: a later call may have another object in the place of one that was on the stack, and
  /// that the program can no longer reach. Guards that dropping it runs no code either.
  void guard_lost(const Frame* frames, const Value* result) const;
  /// Whether the program can still reach the value: from these frames, from what it wrote elsewhere, or from `result`.
  bool is_reachable(const Frame* frames, const Value* value, const Value* result) const;

  std::vector<GeneratorValue*> generators;  // all that the program made

 private:
  bool finalization_is_observable(PyObject* object) const;
  /// Null: nothing is dropped, which is not observable.
  bool drop_is_observable(PyObject* object) const { return object && finalization_is_observable(object); }
  void guard_drop(bool is_observable, Source* source, Dropped what, PyObject* name, const std::string& text) const;
  /// Whether a slot of the captured frame is the only known reference to the object.
  bool is_held_by_slot(const Source* source) const;
  void find_lost(const Frame& current) const;
  Reach reach_of(const Frame* frames, const Value* result) const;

  const StartFrame& start_;
  const ObjectMap& objects_;
  const EffectLog& effects_;
  GuardRecorder& guards_;
  std::vector<const Source*> watched_;
  std::vector<Source*> unobservable_;  // were on the stack as the watched ones; dropping them is not observable
};

}  // namespace stator::capture
