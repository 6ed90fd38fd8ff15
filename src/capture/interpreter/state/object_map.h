#pragma once

#include <unordered_map>
#include <vector>

#include "capture/values/value.h"
#include "core/base/pointer_map.h"

namespace stator::capture {

/// Which value represents which object.
///
/// Invariant: an external object that can change, or whose identity can be seen, has one value however it is reached;
/// the same holds for a fake tensor, and for the weak reference to a value. The values in the map keep their
/// objects alive, so an address identifies one object during the entire capture.
class ObjectMap {
 public:
  /// The value of an external object; null: it was not met yet, or is a literal.
  Value* find(PyObject* object) const {
    Value* const* found = by_object_.find(object);
    return found ? *found : nullptr;
  }
  bool contains(PyObject* object) const { return by_object_.find(object) != nullptr; }
  void add(PyObject* object, Value* value) { by_object_.set(object, value); }
  /// Calls `f(value)` for each value, in no particular order.
  template <class F>
  void for_each(const F& f) const {
    by_object_.for_each([&](const void*, Value* value) { f(value); });
  }

  /// The external instance, function or tensor whose `__dict__` the object is, if its attributes were looked at; null
  /// otherwise. Of several that share the dict: the first.
  Value* owner_of_dict(PyObject* dict) const {
    auto found = dict_owners_.find(dict);
    return found == dict_owners_.end() ? nullptr : found->second;
  }
  /// Notes that an external object stores its attributes in this dict. Returns the value of the dict if that is known,
  /// otherwise another owner that was noted before, otherwise null.
  Value* claim_dict(PyObject* dict, Value* owner) {
    Value* other = dict_owners_.emplace(dict, owner).first->second;
    if (Value* known = find(dict)) return known;
    return other == owner ? nullptr : other;
  }

  /// Notes that an external container (an OrderedDict) stores its attributes in this dict. Returns null, or the value
  /// that the dict belongs to already: its own, or that of another owner.
  const Value* claim_dict_of_container(PyObject* dict, const Value* owner) {
    if (const Value* known = find(dict)) return known;
    if (const Value* other = owner_of_dict(dict)) return other;
    const Value* first = container_dicts_.emplace(dict, owner).first->second;
    return first == owner ? nullptr : first;
  }
  /// The external container whose `__dict__` the object is, if its attributes were looked at; null otherwise.
  const Value* container_of_dict(PyObject* dict) const {
    auto found = container_dicts_.find(dict);
    return found == container_dicts_.end() ? nullptr : found->second;
  }

  /// The value of a fake tensor, or null.
  TensorValue* find_fake(PyObject* fake) const {
    TensorValue* const* found = by_fake_.find(fake);
    return found ? *found : nullptr;
  }
  void add_fake(PyObject* fake, TensorValue* tensor) { by_fake_.set(fake, tensor); }

  /// The value of an array object of `stator.arrays`; null until the caller sets it.
  ArrayValue*& array(PyObject* object) { return arrays_[object]; }
  /// External objects for which the program made weak references with callbacks.
  std::vector<const Value*> called_back;

  /// The weak reference that the program made to a value, of which there is one; null until the caller sets it.
  ObjectValue*& weak_reference_to(const Value* referent) { return weak_references_[referent]; }

 private:
  PointerMap<Value*> by_object_;
  std::unordered_map<PyObject*, Value*> dict_owners_;
  std::unordered_map<PyObject*, const Value*> container_dicts_;
  PointerMap<TensorValue*> by_fake_;
  std::unordered_map<PyObject*, ArrayValue*> arrays_;
  std::unordered_map<const Value*, ObjectValue*> weak_references_;
};

}  // namespace stator::capture
