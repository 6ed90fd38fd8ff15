#pragma once

#include <unordered_set>
#include <vector>

#include "capture/interpreter/iteration/generators.h"
#include "capture/interpreter/weak_references.h"

/// Which values keep which others alive.
namespace stator::capture {

/// Calls `f` with every value that this one keeps alive, null ones too. An iterator's are not known: what only that one
/// holds counts as dropped, which costs a break.
template <class F>
void each_part(const Value* value, F&& f) {
  switch (value->kind) {
    case Kind::Tuple:
    case Kind::List:
      for (Value* item : static_cast<const SequenceValue*>(value)->items) f(item);
      break;
    case Kind::Dict: {
      auto* dict = static_cast<const DictValue*>(value);
      for (const DictValue::Entry& entry : dict->entries) f(entry.key), f(entry.value);
      f(dict->default_factory), f(dict->own);
      break;
    }
    case Kind::Set:
      f(static_cast<const SetValue*>(value)->table);
      break;
    case Kind::View:
      f(static_cast<const ViewValue*>(value)->dict);
      break;
    case Kind::Slice: {
      auto* slice = static_cast<const SliceValue*>(value);
      f(slice->start), f(slice->stop), f(slice->step);
      break;
    }
    case Kind::Cell:
      f(static_cast<const CellValue*>(value)->contents);
      break;
    case Kind::Function: {
      auto* function = static_cast<const FunctionValue*>(value);
      for (CellValue* cell : function->closure) f(cell);
      for (auto& [name, field] : function->fields) f(field);
      f(function->defaults), f(function->kwdefaults), f(function->annotations), f(function->own);
      break;
    }
    case Kind::Method:
      f(static_cast<const MethodValue*>(value)->function), f(static_cast<const MethodValue*>(value)->self);
      break;
    case Kind::Object: {
      auto* object = static_cast<const ObjectValue*>(value);
      for (const ObjectValue::Attribute& attribute : object->attributes) f(attribute.value);
      f(object->own), f(object->cause), f(object->context);
      if (!is_made_weak(object)) f(object->base);
      break;
    }
    case Kind::Super:
      f(static_cast<const SuperValue*>(value)->self);
      break;
    case Kind::Tensor: {
      auto* tensor = static_cast<const TensorValue*>(value);
      for (auto& [name, attribute] : tensor->own) f(attribute);
      f(tensor->grad);
      break;
    }
    case Kind::Text:
      for (Value* argument : static_cast<const TextValue*>(value)->arguments) f(argument);
      break;
    case Kind::Opaque:
      for (Value* argument : static_cast<const OpaqueValue*>(value)->arguments) f(argument);
      break;
    case Kind::Null:
    case Kind::Unread:
    case Kind::Constant:
    case Kind::Iterator:
    case Kind::Array:
    case Kind::Number:
      break;
  }
}

/// Everything that the program can reach.
class Reach {
 public:
  void add(const Value* value) {
    if (!value || !seen_.insert(value).second) return;
    if (value->source) add(value->source);
    waiting_.push_back(value);
  }
  void add(const Source* source) { sources_.insert(source); }
  void add(const Frame& frame) {
    for (const Value* value : frame.locals) add(value);
    for (const Source* source : frame.unread) add(source);
    for (const Value* value : frame.stack) add(value);
    add(frame.function), add(frame.handled), add(frame.thrown), add(frame.result), add(frame.locals_dict);
  }
  void close() {
    while (!waiting_.empty()) {
      const Value* next = waiting_.back();
      waiting_.pop_back();
      if (auto* generator = next->kind == Kind::Iterator ? dynamic_cast<const GeneratorValue*>(next) : nullptr;
          generator && generator->frame)
        add(*generator->frame);
      each_part(next, [this](const Value* part) { add(part); });
    }
  }
  bool has(const Source* source) const { return sources_.contains(source); }
  bool has(const Value* value) const { return seen_.contains(value); }
  /// What the program wrote to globals, classes and other outside objects, after all else.
  void add_written(const Interpreter& in) {
    for (auto& [dict, names] : in.globals_written)
      for (auto& [name, value] : names) add(value);
    for (auto& [type, names] : in.classes_written)
      for (auto& [name, value] : names) add(value);
    close();
    // What is written to an object lives as long as that one.
    for (const Effect& effect : in.effects)
      if (holds_root_of(effect.target)) add(effect.key), add(effect.value);
    close();
  }
  /// Whether the program still has what an outside object was reached by.
  bool holds_root_of(const Value* value) const {
    const Source* root = value->source;
    while (root && root->parent) root = root->parent;
    return root && (root->kind != SourceKind::Argument || has(root));
  }

 private:
  std::unordered_set<const Value*> seen_;
  std::unordered_set<const Source*> sources_;
  std::vector<const Value*> waiting_;
};

}  // namespace stator::capture
