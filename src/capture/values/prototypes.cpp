#include "capture/values/prototypes.h"

namespace stator::capture {

Prototype* Prototypes::find(PyObject* object) {
  if (all_.empty()) return nullptr;
  auto found = by_object_.find(object);
  return found == by_object_.end() ? nullptr : found->second;
}

Prototype& Prototypes::add(Ref object) {
  Prototype& made = all_.emplace_back();
  by_object_[object.get()] = &made;
  own(object);
  made.object = std::move(object);
  return made;
}

void Prototypes::set_surrogate(Ref object, Value* value) {
  values_[object.get()] = value;
  surrogates_[value] = object.get();
  own(std::move(object));
}

Value* Prototypes::value_of(PyObject* object) const {
  if (values_.empty()) return nullptr;
  auto found = values_.find(object);
  return found == values_.end() ? nullptr : found->second;
}

PyObject* Prototypes::surrogate(Value* value) const {
  auto found = surrogates_.find(value);
  return found == surrogates_.end() ? nullptr : found->second;
}

void Prototypes::own(Ref object) {
  PyObject* key = object.get();
  owned_.try_emplace(key, std::move(object));
}

bool Prototypes::owns(const Source* source) const {
  if (owned_.empty() || !source) return false;
  while (source->parent) source = source->parent;
  return source->kind == SourceKind::Pinned && owned_.contains(source->object.get());
}

}  // namespace stator::capture
