// Containers, iterators and functions that a plan makes.
#include "capture/interpreter/assembly/assembler.h"
#include "capture/interpreter/containers/dicts.h"
#include "capture/interpreter/containers/keys.h"
#include "capture/interpreter/protocol/mappings.h"
#include "capture/interpreter/state/known_types.h"

namespace stator::capture {

int32_t Assembler::emit_sequence(SequenceValue* sequence) {
  bool is_list = sequence->kind == Kind::List,
       is_plain = sequence->type == &PyTuple_Type || sequence->type == &PyList_Type;
  Step step{is_list ? StepKind::List : is_plain ? StepKind::Tuple : StepKind::NamedTuple};
  if (!is_plain) set_class(step, sequence->type);
  if (is_list && cyclic_.count(sequence)) {
    int32_t made = known_[sequence] = add(std::move(step));
    Step filling{StepKind::FillList, made};
    for (size_t i = 0; i < sequence->items.size(); ++i) filling.items.push_back(emit(in_.item(sequence, i)));
    add(std::move(filling));
    return made;
  }
  for (size_t i = 0; i < sequence->items.size(); ++i) step.items.push_back(emit(in_.item(sequence, i)));
  return add(std::move(step));
}

int32_t Assembler::emit_dict(DictValue* dict) {
  Step step{StepKind::Dict, -1, -1, Ref::borrow(reinterpret_cast<PyObject*>(dict->type))};
  if (dict->type == default_dict_type()) step.a = emit(default_factory(in_, dict));
  if (!cyclic_.count(dict)) {
    step.items = dict_items(dict);
    const int32_t made = known_[dict] = add(std::move(step));
    set_own(made, dict->own);
    return made;
  }
  int32_t made = known_[dict] = add(std::move(step));
  set_own(made, dict->own);
  Step filling{StepKind::FillDict, made};
  filling.items = dict_items(dict);
  add(std::move(filling));
  return made;
}

void Assembler::set_own(int32_t owner, const DictValue* attributes) {
  if (!attributes) return;
  for (auto& [key, value] : attributes->entries)
    add({StepKind::SetAttribute, owner, emit(value), Ref::borrow(in_.constant_of(key))});
}

std::vector<int32_t> Assembler::dict_items(DictValue* dict) {
  std::vector<int32_t> items;
  for (auto& [key, value] : items_to_put(in_, dict)) {
    items.push_back(emit(key));
    items.push_back(emit(value));
  }
  return items;
}

int32_t Assembler::emit_set(SetValue* set) {
  Step step{StepKind::Set, set->type == &PyFrozenSet_Type};
  if (set->table) {
    refuse_rehash(in_, set->table);
    for (auto& entry : set->table->entries)
      if (entry.key) step.items.push_back(emit(entry.key));
    return add(std::move(step));
  }
  // The order of a set depends on its history; a copy must have the same order.
  step.object = Ref::steal(PyFrozenSet_New(set->elements.get()));
  Ref copy = Ref::steal(PySet_New(step.object.get()));
  Ref wanted = Ref::steal(PySequence_List(set->elements.get())), made = Ref::steal(PySequence_List(copy.get()));
  for (Py_ssize_t i = 0; i < PyList_GET_SIZE(wanted.get()); ++i)
    if (PyList_GET_ITEM(wanted.get(), i) != PyList_GET_ITEM(made.get(), i))
      throw Break{BreakId::reconstruct, "a set whose order cannot be rebuilt"};
  return add(std::move(step));
}

Step Assembler::call_on_set(int32_t set, const char* method, std::vector<int32_t> arguments) {
  Step step{StepKind::Call, 0, -1,
            Ref::steal(PyObject_GetAttrString(reinterpret_cast<PyObject*>(&PySet_Type), method))};
  step.items = {set};
  step.items.insert(step.items.end(), arguments.begin(), arguments.end());
  return step;
}

int32_t Assembler::emit_iterator(IteratorValue* iterator) {
  Rebuild how = iterator->rebuild(in_);
  if (!how.callable) throw Break{BreakId::reconstruct, std::string("a ") + iterator->type()->tp_name};
  Step step{StepKind::Call, static_cast<int32_t>(how.taken), -1, Ref::borrow(how.callable)};
  emit_all(how.args, step.items);
  if (!how.keywords.empty()) {
    step.extra = Ref::steal(PyTuple_New(how.keywords.size()));
    for (size_t i = 0; i < how.keywords.size(); ++i) {
      PyTuple_SET_ITEM(step.extra.get(), i, PyUnicode_InternFromString(how.keywords[i].first));
      step.items.push_back(emit(how.keywords[i].second));
    }
  }
  return add(std::move(step));
}

int32_t Assembler::emit_generator(GeneratorValue* generator) {
  Frame& frame = *generator->frame;
  if (generator->finished) throw Break{BreakId::reconstruct, "a generator that has ended"};
  if (frame.handled) throw StopEarlier{in_.frames.raise_step(frame.handled)};
  Step step{StepKind::Generator};
  step.items.push_back(emit(frame.function));
  if (generator->started) {
    FrameState state = frame_state_of(frame);
    step.a = static_cast<int32_t>(state.slots.size());
    step.b = state.unit;
    step.items.insert(step.items.end(), state.slots.begin(), state.slots.end());
    step.items.insert(step.items.end(), state.stack.begin(), state.stack.end());
    return add(std::move(step));
  }
  // The plan calls the generator function again, with the arguments as they were bound.
  const pycompat::Code& code = *frame.code;
  SequenceValue* args = in_.tuple({frame.locals.begin(), frame.locals.begin() + code.argcount});
  size_t rest = code.argcount + code.kwonlyargcount;
  if (code.has_varargs())
    for (Value* item : in_.unpack(frame.locals[rest++])) args->items.push_back(item);
  DictValue* keywords = in_.dict();
  for (int i = 0; i < code.kwonlyargcount; ++i) {
    PyObject* name = PyTuple_GET_ITEM(code.localsplus_names, code.argcount + i);
    in_.dict_set(keywords, in_.constant(name), frame.locals[code.argcount + i]);
  }
  if (code.has_varkeywords())
    for (auto& [key, value] : mapping_items(in_, frame.locals[rest])) in_.dict_set(keywords, key, value);
  step.items.push_back(emit(args));
  step.items.push_back(emit(keywords));
  return add(std::move(step));
}

int32_t Assembler::emit_function(FunctionValue* function) {
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
      add({StepKind::SetAttribute, made, value, attribute_name(name)});
    }
  return made;
}

int32_t Assembler::emit_cell(CellValue* cell) {
  int32_t made = add({StepKind::NewCell});
  known_[cell] = made;
  if (cell->contents) {
    when_classes_are_there([this, cell, made] {
      int32_t contents = emit(cell->contents);
      add({StepKind::SetCell, made, contents});
    });
  }
  return made;
}

}  // namespace stator::capture
