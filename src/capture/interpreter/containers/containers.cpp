// Lists and tuples that values are or have, and changes of containers.
#include "capture/interpreter/containers/dicts.h"
#include "capture/interpreter/known_types.h"

namespace stator::capture {

Value* Interpreter::item(SequenceValue* sequence, size_t index) {
  Value*& slot = sequence->items[index];
  if (!slot) {
    PyObject* object = PySequence_Fast_GET_ITEM(sequence->outside.get(), index);
    slot =
        wrap(object, sources_->child(sequence->source, SourceKind::Item, static_cast<int32_t>(index), nullptr, object));
  }
  return slot;
}

SequenceValue* Interpreter::list_part(Value* value) {
  if (auto* sequence = as_sequence(value)) return sequence;
  if (auto* object = as<ObjectValue>(value)) {
    bool is_deque = object->type == deque_type();
    // Such a one is not known by more than its class because its length changes.
    if (object->type == &PyList_Type && object->object) refuse_varying(object->source);
    if (!object->base && object->object &&
        (PyList_Check(object->object.get()) || PyTuple_Check(object->object.get()) || is_deque)) {
      bool is_list = PyList_Check(object->object.get()) || is_deque;
      auto* sequence =
          arena.make<SequenceValue>(is_list ? Kind::List : Kind::Tuple, is_list ? &PyList_Type : &PyTuple_Type);
      sequence->outside = is_deque ? Ref::steal(PySequence_Tuple(object->object.get())) : object->object;
      sequence->source = object->source;
      sequence->items.assign(PySequence_Fast_GET_SIZE(sequence->outside.get()), nullptr);
      guard(object->source, FactKind::Length, nullptr, static_cast<int64_t>(sequence->items.size()));
      object->base = sequence;
    }
    return as_sequence(object->base);
  }
  return nullptr;
}

/// Whether it is a dict that is its own `__dict__`: then items are attributes.
static bool is_own_dict(PyObject* object) {
  PyObject* own = nullptr;
  return object && !PyDict_CheckExact(object) && stator_instance_dict(object, &own) == kStatorDictObject &&
         own == object;
}

void Interpreter::refuse_frozen(const Value* value) const {
  const auto* object = value->kind == Kind::Object ? static_cast<const ObjectValue*>(value) : nullptr;
  const auto* dict = value->kind == Kind::Dict ? static_cast<const DictValue*>(value) : nullptr;
  if (PyObject* outside = object ? object->object.get() : dict ? dict->outside.get() : nullptr; is_own_dict(outside))
    throw Break{BreakId::mutation, "a dict that is its own __dict__"};
  if (frozen_values && arena.is_among_first(value, *frozen_values))
    throw Break{BreakId::mutation, "a change in a part that may run any number of times"};
}

void Interpreter::mutated(Value* container) {
  ++mutations;
  refuse_frozen(container);
  auto* dict = as<DictValue>(container);
  if (!container->source || (dict && dict->is_globals)) return;
  if (dict) {
    realise_all(*this, dict);
    dict->mutated = true;
  }
  EffectKind kind = container->kind == Kind::List ? EffectKind::ListReplace : EffectKind::DictReplace;
  for (const Effect& known : effects)
    if (known.target == container && known.kind == kind) return;
  let_go_of_parts(container);
  if (auto* sequence = as_sequence(container))
    for (size_t i = 0; i < sequence->items.size(); ++i) item(sequence, i);
  effects.push_back({kind, container});
}

void Interpreter::replay_method(Value* target, const char* method, std::vector<Value*> arguments) {
  let_go_of_parts(target);
  Ref name = Ref::steal(PyUnicode_InternFromString(method));
  effects.push_back({EffectKind::CallMethod, target, constant(std::move(name)), tuple(std::move(arguments))});
}

}  // namespace stator::capture
