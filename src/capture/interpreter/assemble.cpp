#include "capture/interpreter/assemble.h"

#include <unordered_map>

#include "capture/interpreter/exceptions.h"
#include "capture/interpreter/generators.h"
#include "capture/interpreter/handlers.h"
#include "capture/interpreter/known_types.h"

namespace stator::capture {
namespace {

class Assembler {
 public:
  explicit Assembler(Interpreter& in) : in_(in) {}

  Assembly run(Value* result) {
    check_unfinished(in_);
    out_.result = emit(result);
    for (const Effect& effect : in_.effects) emit_effect(effect);
    return std::move(out_);
  }

 private:
  int32_t add(Step step) {
    out_.steps.push_back(std::move(step));
    return static_cast<int32_t>(out_.steps.size()) - 1;
  }

  int32_t emit_all(const std::vector<Value*>& values, std::vector<int32_t>& into) {
    for (Value* value : values) into.push_back(emit(value));
    return 0;
  }

  int32_t emit(Value* value) {
    auto found = known_.find(value);
    if (found != known_.end()) {
      if (found->second < 0) throw Break{BreakId::reconstruct, "a container that holds itself"};
      return found->second;
    }
    known_[value] = -1;
    int32_t made = value->source ? emit_slot(value->source) : emit_new(value);
    known_[value] = made;
    return made;
  }

  int32_t emit_slot(Source* source) {
    source->loaded = true;
    out_.slots.push_back(source);
    return add({StepKind::Slot, static_cast<int32_t>(out_.slots.size()) - 1});
  }

  int32_t emit_new(Value* value) {
    switch (value->kind) {
      case Kind::Constant:
        return add({StepKind::Constant, -1, -1, static_cast<ConstantValue*>(value)->object});
      case Kind::Tensor: {
        out_.outputs.push_back(static_cast<TensorValue*>(value)->fake.get());
        return add({StepKind::Output, static_cast<int32_t>(out_.outputs.size()) - 1});
      }
      case Kind::Tuple:
      case Kind::List:
        return emit_sequence(static_cast<SequenceValue*>(value));
      case Kind::Dict: {
        auto* dict = static_cast<DictValue*>(value);
        Step step{StepKind::Dict, -1, -1, Ref::borrow(reinterpret_cast<PyObject*>(dict->type))};
        if (dict->type == default_dict_type()) step.a = emit(default_factory(in_, dict));
        step.items = dict_items(dict);
        return add(std::move(step));
      }
      case Kind::Set: {
        return emit_set(static_cast<SetValue*>(value));
      }
      case Kind::View: {
        auto* view = static_cast<ViewValue*>(value);
        static const char* const names[] = {"keys", "values", "items"};
        int32_t dict = emit(view->dict);
        return add(
            {StepKind::View, dict, -1, Ref::steal(PyUnicode_InternFromString(names[static_cast<size_t>(view->part)]))});
      }
      case Kind::Slice: {
        auto* slice = static_cast<SliceValue*>(value);
        Step step{StepKind::Slice};
        emit_all({slice->start, slice->stop, slice->step}, step.items);
        return add(std::move(step));
      }
      case Kind::Method: {
        auto* method = static_cast<MethodValue*>(value);
        int32_t function = emit(method->function), self = emit(method->self);
        return add({StepKind::Bound, function, self});
      }
      case Kind::Object:
        return emit_object(static_cast<ObjectValue*>(value));
      case Kind::Function:
        return emit_function(static_cast<FunctionValue*>(value));
      case Kind::Cell: {
        auto* cell = static_cast<CellValue*>(value);
        int32_t made = add({StepKind::NewCell});
        known_[value] = made;
        if (cell->contents) {
          int32_t contents = emit(cell->contents);
          add({StepKind::SetCell, made, contents});
        }
        return made;
      }
      default:
        throw Break{BreakId::reconstruct, std::string("a ") + in_.type_of(value)->tp_name};
    }
  }

  int32_t emit_set(SetValue* set) {
    Step step{StepKind::Set, set->type == &PyFrozenSet_Type};
    if (set->table) {
      for (auto& entry : set->table->entries)
        if (entry.key) step.items.push_back(emit(entry.key));
      return add(std::move(step));
    }
    // The order of a set tells its history; a copy that has lost it is another set.
    step.object = Ref::steal(PyFrozenSet_New(set->elements.get()));
    Ref copy = Ref::steal(PySet_New(step.object.get()));
    Ref wanted = Ref::steal(PySequence_List(set->elements.get())), made = Ref::steal(PySequence_List(copy.get()));
    for (Py_ssize_t i = 0; i < PyList_GET_SIZE(wanted.get()); ++i)
      if (PyList_GET_ITEM(wanted.get(), i) != PyList_GET_ITEM(made.get(), i))
        throw Break{BreakId::reconstruct, "a set whose order cannot be rebuilt"};
    return add(std::move(step));
  }

  int32_t emit_sequence(SequenceValue* sequence) {
    bool is_list = sequence->kind == Kind::List,
         is_plain = sequence->type == &PyTuple_Type || sequence->type == &PyList_Type;
    Step step{is_list ? StepKind::List : is_plain ? StepKind::Tuple : StepKind::NamedTuple};
    if (!is_plain) step.object = Ref::borrow(reinterpret_cast<PyObject*>(sequence->type));
    for (size_t i = 0; i < sequence->items.size(); ++i) step.items.push_back(emit(in_.item(sequence, i)));
    return add(std::move(step));
  }

  std::vector<int32_t> dict_items(DictValue* dict) {
    std::vector<int32_t> items;
    for (auto& [key, value] : mapping_items(in_, dict)) {
      items.push_back(emit(key));
      items.push_back(emit(value));
    }
    return items;
  }

  /// The instance without its attributes.
  int32_t emit_bare(ObjectValue* object) {
    auto type = Ref::borrow(reinterpret_cast<PyObject*>(object->type));
    PyTypeObject* native = native_base(object->type);
    bool is_exception = is_exception_class(object->type);
    if (is_exception && (object->raised || object->cause || object->context))
      throw Break{BreakId::reconstruct, "an exception that was raised"};
    if (is_exception || native == &PyTuple_Type) {
      Step step{is_exception ? StepKind::NewObject : StepKind::NamedTuple, -1, -1, std::move(type)};
      auto* items = as_sequence(object->base);
      for (size_t i = 0; i < items->items.size(); ++i) step.items.push_back(emit(in_.item(items, i)));
      return add(std::move(step));
    }
    bool bare =
        native == &PyBaseObject_Type || native == &PyDict_Type || native == &PyODict_Type || native == &PyList_Type;
    if (!bare) throw Break{BreakId::reconstruct, std::string("a ") + object->type->tp_name};
    return add({StepKind::NewObject, -1, -1, std::move(type)});
  }

  int32_t emit_object(ObjectValue* object) {
    if (object->type == partial_type()) {
      Step step{StepKind::Partial};
      for (auto& attribute : object->attributes) step.items.push_back(emit(attribute.value));
      return add(std::move(step));
    }
    int32_t made = emit_bare(object);
    known_[object] = made;
    if (object->own) {
      if (known_.count(object->own)) throw Break{BreakId::reconstruct, "an object and its __dict__"};
      for (auto& [name, attribute] : mapping_items(in_, object->own)) {
        int32_t value = emit(attribute);
        add({StepKind::SetAttribute, made, value, static_cast<ConstantValue*>(name)->object});
      }
    }
    if (auto* dict = as<DictValue>(object->base)) {
      Step step{StepKind::FillDict, made};
      step.items = dict_items(dict);
      add(std::move(step));
    } else if (auto* list = as_sequence(object->base); list && list->kind == Kind::List) {
      Step step{StepKind::FillList, made};
      for (size_t i = 0; i < list->items.size(); ++i) step.items.push_back(emit(in_.item(list, i)));
      add(std::move(step));
    }
    return made;
  }

  int32_t emit_function(FunctionValue* function) {
    Step step{StepKind::Function, -1, -1, Ref::borrow(reinterpret_cast<PyObject*>(function->code))};
    step.items.push_back(emit_slot(function->globals_source));
    step.items.push_back(function->defaults ? emit(function->defaults) : -1);
    step.items.push_back(function->kwdefaults ? emit(function->kwdefaults) : -1);
    for (CellValue* cell : function->closure) step.items.push_back(emit(cell));
    int32_t made = add(std::move(step));
    known_[function] = made;
    static PyObject* const annotations = PyUnicode_InternFromString("__annotations__");
    if (function->annotations) in_.get_attr(function, annotations);  // becomes a field
    for (auto& [name, field] : function->fields) {
      int32_t value = emit(field);
      add({StepKind::SetAttribute, made, value, Ref::steal(PyUnicode_InternFromString(name.c_str()))});
    }
    if (function->own)
      for (auto& [name, attribute] : mapping_items(in_, function->own)) {
        int32_t value = emit(attribute);
        add({StepKind::SetAttribute, made, value, static_cast<ConstantValue*>(name)->object});
      }
    return made;
  }

  void emit_effect(const Effect& effect) {
    int32_t target = emit(effect.target);
    auto name = [&] { return static_cast<ConstantValue*>(effect.key)->object; };
    switch (effect.kind) {
      case EffectKind::SetAttr: {
        int32_t value = emit(effect.value);
        add({StepKind::SetAttribute, target, value, name()});
        return;
      }
      case EffectKind::DelAttr:
        add({StepKind::SetAttribute, target, -1, name()});
        return;
      case EffectKind::SetGlobal: {
        int32_t value = emit(effect.value);
        add({StepKind::SetItem, target, value, name()});
        return;
      }
      case EffectKind::SetCell: {
        int32_t value = emit(effect.value);
        add({StepKind::SetCell, target, value});
        return;
      }
      case EffectKind::ListReplace: {
        auto* list = as_sequence(effect.target);
        Step step{StepKind::FillList, target};
        for (size_t i = 0; i < list->items.size(); ++i) step.items.push_back(emit(in_.item(list, i)));
        add(std::move(step));
        return;
      }
      case EffectKind::DictReplace: {
        auto* dict = as<DictValue>(effect.target);
        Step step{StepKind::FillDict, target};
        step.items = dict_items(dict);
        add(std::move(step));
        return;
      }
      case EffectKind::CallMethod: {
        Step step{StepKind::CallMethod, target, -1, name()};
        for (Value* argument : as_sequence(effect.value)->items) step.items.push_back(emit(argument));
        add(std::move(step));
        return;
      }
      case EffectKind::DelGlobal:
        add({StepKind::SetItem, target, -1, name()});
        return;
    }
  }

  Interpreter& in_;
  Assembly out_;
  std::unordered_map<Value*, int32_t> known_;
};

}  // namespace

Assembly assemble(Interpreter& in, Value* result) { return Assembler(in).run(result); }

}  // namespace stator::capture
