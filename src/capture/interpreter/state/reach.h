#pragma once

#include <unordered_set>
#include <vector>

#include "capture/interpreter/state/effect_log.h"
#include "capture/interpreter/state/generator.h"

/// Which values keep which others alive.
namespace stator::capture {

/// Whether it is a weak reference or proxy that the program made; its `base` is the referent.
bool is_made_weak(const ObjectValue* object);

/// Calls `f` with every value that this one keeps alive, and with null for parts that are missing. The parts of an
/// iterator are not known: what only an iterator holds counts as dropped, which costs a break.
template <class F>
void each_part(const Value* value, F&& f) {
  auto each = [&](const auto& values) {
    for (Value* part : values) f(part);
  };
  visit(*value, Cases{
                    [&](const SequenceValue& sequence) { each(sequence.items); },
                    [&](const DictValue& dict) {
                      for (const DictValue::Entry& entry : dict.entries) f(entry.key), f(entry.value);
                      f(dict.default_factory), f(dict.own);
                    },
                    [&](const SetValue& set) { f(set.table); },
                    [&](const ViewValue& view) { f(view.dict); },
                    [&](const SliceValue& slice) { f(slice.start), f(slice.stop), f(slice.step); },
                    [&](const CellValue& cell) { f(cell.contents); },
                    [&](const FunctionValue& function) {
                      each(function.closure);
                      for (auto& [name, field] : function.fields) f(field);
                      f(function.defaults), f(function.kwdefaults), f(function.annotations), f(function.own);
                    },
                    [&](const MethodValue& method) { f(method.function), f(method.self); },
                    [&](const ObjectValue& object) {
                      for (const ObjectValue::Attribute& attribute : object.attributes) f(attribute.value);
                      f(object.own), f(object.cause), f(object.context);
                      if (!is_made_weak(&object)) f(object.base);
                    },
                    [&](const SuperValue& super) { f(super.self); },
                    [&](const TensorValue& tensor) {
                      for (auto& [name, attribute] : tensor.own) f(attribute);
                      f(tensor.grad);
                    },
                    [&](const TextValue& text) { each(text.arguments); },
                    [&](const OpaqueValue& opaque) { each(opaque.arguments); },
                    [](const NullValue&) {},
                    [](const UnreadValue&) {},
                    [](const ConstantValue&) {},
                    [](const IteratorValue&) {},
                    [](const ArrayValue&) {},
                    [](const NumberValue&) {},
                });
}

/// The set of values and sources that the program can reach.
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
  /// Adds what the program wrote to globals, classes and other external objects. To be called last.
  void add_written(const EffectLog& log) {
    for (auto& [dict, names] : log.globals_written)
      for (auto& [name, value] : names) add(value);
    for (auto& [type, names] : log.classes_written)
      for (auto& [name, value] : names) add(value);
    close();
    // A value that was written to an object lives as long as that object.
    for (const Effect& effect : log)
      if (holds_root_of(effect.target)) add(effect.key), add(effect.value);
    close();
  }
  /// Whether the program still holds the root source through which the external object was reached.
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
