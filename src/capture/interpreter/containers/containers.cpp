// Items and list parts of values; logging of changes.
#include <string_view>

#include "capture/interpreter/containers/dicts.h"
#include "capture/interpreter/state/known_types.h"

namespace stator::capture {

Value* Interpreter::item(SequenceValue* sequence, size_t index) {
  Value*& slot = sequence->items[index];
  if (!slot) {
    PyObject* object = PySequence_Fast_GET_ITEM(sequence->external.get(), index);
    slot = wrap(object, guards.sources().child(sequence->source, SourceKind::Item, static_cast<int32_t>(index), nullptr,
                                               object));
  }
  return slot;
}

SequenceValue* Interpreter::list_part(Value* value) {
  if (auto* sequence = as_sequence(value)) return sequence;
  if (auto* object = as<ObjectValue>(value)) {
    bool is_deque = object->type == deque_type();
    // Lists of varying length are guarded by type only: using their contents is a break.
    if (object->type == &PyList_Type && object->object) start.refuse_varying(object->source);
    if (!object->base && object->object &&
        (PyList_Check(object->object.get()) || PyTuple_Check(object->object.get()) || is_deque)) {
      bool is_list = PyList_Check(object->object.get()) || is_deque;
      auto* sequence =
          arena.make<SequenceValue>(is_list ? Kind::List : Kind::Tuple, is_list ? &PyList_Type : &PyTuple_Type);
      sequence->external = is_deque ? Ref::steal(PySequence_Tuple(object->object.get())) : object->object;
      sequence->source = object->source;
      sequence->items.assign(PySequence_Fast_GET_SIZE(sequence->external.get()), nullptr);
      guards.add(object->source, FactKind::Length, nullptr, static_cast<int64_t>(sequence->items.size()));
      object->base = sequence;
    }
    return as_sequence(object->base);
  }
  return nullptr;
}

void Interpreter::mutated(Value* container) {
  effects.note_change();
  effects.refuse_frozen(container);
  auto* dict = as<DictValue>(container);
  if (!container->source || (dict && dict->is_globals)) return;
  if (dict) {
    realise_all(*this, dict);
    dict->mutated = true;
  }
  EffectKind kind = container->kind == Kind::List ? EffectKind::ListReplace : EffectKind::DictReplace;
  if (effects.has(kind, container)) return;
  lifetimes.drop_parts_of(container);
  if (auto* sequence = as_sequence(container))
    for (size_t i = 0; i < sequence->items.size(); ++i) item(sequence, i);
  effects.add({kind, container});
}

/// Whether the method drops nothing that the container holds: a list that grows from call to call is not searched for
/// what it might drop. A deque drops items when it is full.
static bool only_adds(Interpreter& in, Value* container, std::string_view method) {
  PyTypeObject* type = in.type_of(container);
  return (type == &PyList_Type && method == "append") ||
         (type == &PySet_Type && (method == "add" || method == "update"));
}

void Interpreter::replay_method(Value* target, const char* method, std::vector<Value*> arguments) {
  if (!only_adds(*this, target, method)) lifetimes.drop_parts_of(target);
  Ref name = Ref::steal(PyUnicode_InternFromString(method));
  effects.add({EffectKind::CallMethod, target, constant(std::move(name)), tuple(std::move(arguments))});
}

}  // namespace stator::capture
