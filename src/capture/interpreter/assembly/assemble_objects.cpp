// Instances and classes that a plan makes.
#include "capture/interpreter/assembly/assembler.h"
#include "capture/interpreter/protocol/classes.h"
#include "capture/interpreter/protocol/exceptions.h"
#include "capture/interpreter/protocol/mappings.h"
#include "capture/interpreter/state/known_types.h"
#include "capture/interpreter/state/reach.h"

namespace stator::capture {
namespace {

/// Whether an item of the instance's `__dict__` can't be set as an attribute, since the class decides about that name.
bool is_hidden(PyTypeObject* type, PyObject* name) {
  PyObject* on_class = look_up_attribute(type, name);
  return on_class && Py_TYPE(on_class)->tp_descr_set && Py_TYPE(on_class) != &PyMemberDescr_Type;
}

}  // namespace

void Assembler::refuse_part() { throw Break{BreakId::reconstruct, "a part of a class that the program made"}; }

int32_t Assembler::emit_part(PyObject* part) {
  static PyObject* const get = known_object("builtins.getattr");
  static PyObject* const call = known_object("_operator.call");
  static PyObject* const members_name = PyUnicode_InternFromString("_member_map_");
  static PyObject *const name_field = PyUnicode_InternFromString("_name_"), *const value_field =
                                                                                PyUnicode_InternFromString("_value_");
  PyTypeObject* type = Py_TYPE(part);
  Prototype* made = in_.prototypes.find(reinterpret_cast<PyObject*>(type));
  if (!made || !PyType_IsSubtype(Py_TYPE(type), enum_meta_type())) refuse_part();
  const Ref name = Ref::steal(PyObject_GetAttr(part, name_field)),
            value = Ref::steal(PyObject_GetAttr(part, value_field));
  PyErr_Clear();
  PyObject* members = look_up(type, members_name);
  const bool is_member = name && PyUnicode_Check(name.get()) && members && PyDict_Check(members) &&
                         PyDict_GetItemWithError(members, name.get()) == part;
  // Another value is a combination of flags, which has no name in the class.
  if (!is_member && !(value && PyLong_CheckExact(value.get()))) refuse_part();
  Step step{StepKind::Call, 0, -1, Ref::borrow(is_member ? get : call)};
  step.items = {emit(in_.constant(made->object)), emit(in_.constant(is_member ? name : value))};
  return add(std::move(step));
}

int32_t Assembler::emit_call(const MadeBy& by, std::vector<int32_t> first) {
  Step step{StepKind::Call, 0, -1, by.callable};
  step.items = std::move(first);
  emit_all(by.arguments, step.items);
  if (!by.keywords.empty()) step.extra = Ref::steal(PyTuple_New(static_cast<Py_ssize_t>(by.keywords.size())));
  for (size_t i = 0; i < by.keywords.size(); ++i) {
    PyTuple_SET_ITEM(step.extra.get(), static_cast<Py_ssize_t>(i), Ref(by.keywords[i].first).release());
    step.items.push_back(emit(by.keywords[i].second));
  }
  return add(std::move(step));
}

int32_t Assembler::emit_class(const Prototype& prototype) {
  Step names{StepKind::Dict, -1, -1, Ref::borrow(reinterpret_cast<PyObject*>(&PyDict_Type))};
  for (auto& [key, value] : prototype.names) {
    names.items.push_back(emit(key));
    names.items.push_back(emit(value));
  }
  Step step{StepKind::Class, -1, -1, prototype.made_by.callable};
  emit_all(prototype.made_by.arguments, step.items);
  step.items.push_back(add(std::move(names)));
  return add(std::move(step));
}

int32_t Assembler::emit_prototype(const Prototype& prototype) {
  auto [found, fresh] = made_.try_emplace(&prototype, -1);
  if (!fresh && found->second < 0)
    throw StopEarlier{prototype.step, BreakId::reconstruct, "a class that the program made, and that holds itself"};
  if (!fresh) return found->second;
  ++open_classes_;
  int32_t made = prototype.is_statement ? emit_class(prototype) : emit_call(prototype.made_by, {});
  made_[&prototype] = made;
  --open_classes_;
  if (!prototype.changes.empty())
    later_.emplace_back([this, &prototype, made] {
      for (const MadeBy& change : prototype.changes) emit_call(change, {made});
    });
  return made;
}

void Assembler::set_class(Step& step, PyTypeObject* type) {
  auto* object = reinterpret_cast<PyObject*>(type);
  if (Prototype* prototype = in_.prototypes.find(object))
    step.b = emit_prototype(*prototype);
  else
    step.object = Ref::borrow(object);
}

int32_t Assembler::emit_bare(ObjectValue* object) {
  auto type = Ref::borrow(reinterpret_cast<PyObject*>(object->type));
  if (object->step) throw StopEarlier{object->step, BreakId::reconstruct, "a block that changes a thread's state"};
  if (is_made_weak(object)) {
    const bool is_proxy = object->type != &_PyWeakref_RefType;
    Step step{StepKind::Call, 0, -1, Ref::borrow(known_object(is_proxy ? "_weakref.proxy" : "_weakref.ref"))};
    step.items = {emit(object->base)};
    if (object->cause) step.items.push_back(emit(object->cause));  // the callback
    return add(std::move(step));
  }
  PyTypeObject* native = native_base(object->type);
  static auto* const base_exception = reinterpret_cast<PyTypeObject*>(PyExc_BaseException);
  bool is_exception = is_exception_class(object->type);
  // The exception and its traceback must be the program's own: the real raise makes them.
  if (is_exception && (object->raised || object->cause || object->context))
    throw StopEarlier{in_.frames.raise_step(object)};
  if (is_exception || native == &PyTuple_Type) {
    // Some exceptions have fields that their constructor sets.
    bool has_fields = is_exception && native->tp_init != base_exception->tp_init;
    if (has_fields && object->type->tp_init != native->tp_init)
      throw Break{BreakId::reconstruct, std::string("an exception with fields of its own: ") + object->type->tp_name};
    Step step{has_fields ? StepKind::Call : is_exception ? StepKind::NewObject : StepKind::NamedTuple};
    set_class(step, object->type);
    if (has_fields && !step.object)
      throw Break{BreakId::reconstruct, "an exception with fields, of a class that the program made"};
    auto* items = as_sequence(object->base);
    for (size_t i = 0; i < items->items.size(); ++i) step.items.push_back(emit(in_.item(items, i)));
    return add(std::move(step));
  }
  if (native == deque_type() && object->type == native) {
    Step step{StepKind::Call, -1, -1, std::move(type)};
    step.items = {emit(object->base), emit(object->attributes[0].value)};
    return add(std::move(step));
  }
  static auto* const generator = reinterpret_cast<PyTypeObject*>(known_object("_random.Random"));
  if (native == generator) {
    Ref state = Ref::steal(PyObject_CallMethod(in_.constant_of(object->base), "getstate", nullptr));
    if (!state) throw Break{BreakId::reconstruct, take_error_text()};
    Step step{StepKind::Call, 0, -1, Ref::borrow(known_object("stator.rebuilt.generator"))};
    step.items = {emit(in_.constant(std::move(state)))};
    return add(std::move(step));
  }
  if (native == &PyDictProxy_Type) {
    Step step{StepKind::Call, -1, -1, std::move(type)};
    step.items = {emit(object->base)};
    return add(std::move(step));
  }
  if (native == &PyFrozenSet_Type) {
    Step step{StepKind::NewObject};
    set_class(step, object->type);
    step.items = {emit(object->base)};
    return add(std::move(step));
  }
  bool bare = native == &PyBaseObject_Type || native == &PySet_Type || native == &PyDict_Type ||
              native == &PyODict_Type || native == &PyList_Type || native == namespace_type();
  if (!bare) throw Break{BreakId::reconstruct, std::string("a ") + object->type->tp_name};
  Step step{StepKind::NewObject};
  set_class(step, object->type);
  return add(std::move(step));
}

int32_t Assembler::emit_dict_of(int32_t made) {
  static PyObject* const read = known_object("builtins.object.__getattribute__");
  static PyObject* const name = PyUnicode_InternFromString("__dict__");
  Step step{StepKind::Call, -1, -1, Ref::borrow(read)};
  step.items = {made, add({StepKind::Constant, -1, -1, Ref::borrow(name)})};
  return add(std::move(step));
}

Ref Assembler::attribute_name(Value* key) {
  auto* name = as<ConstantValue>(key);
  if (!name || !PyUnicode_Check(name->object.get()))
    throw Break{BreakId::reconstruct, "an object with an attribute whose name is not a known str"};
  return name->object;
}

int32_t Assembler::emit_object(ObjectValue* object) {
  if (object->type == partial_type()) {
    Step step{StepKind::Partial};
    for (auto& attribute : object->attributes) step.items.push_back(emit(attribute.value));
    return add(std::move(step));
  }
  int32_t made = emit_bare(object);
  known_[object] = made;
  if (out_.steps[made].kind == StepKind::Call && !is_exception_class(object->type) && !object->own) return made;
  when_classes_are_there([this, object, made] { fill_object(object, made); });
  return made;
}

void Assembler::fill_object(ObjectValue* object, int32_t made) {
  if (object->own) {
    if (known_.count(object->own)) throw Break{BreakId::reconstruct, "an object and its __dict__"};
    int32_t own = -1;
    for (auto& [key, attribute] : mapping_items(in_, object->own)) {
      int32_t value = emit(attribute);
      Ref name = attribute_name(key);
      if (!is_hidden(object->type, name.get())) {
        add({StepKind::SetAttribute, made, value, std::move(name)});
        continue;
      }
      if (own < 0) own = emit_dict_of(made);
      add({StepKind::SetItem, own, value, std::move(name)});
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
  } else if (auto* set = as<SetValue>(object->base); set && set->type == &PySet_Type) {
    add(call_on_set(made, "update", {emit(set)}));
  }
}

}  // namespace stator::capture
