// Guards against aliases: sources that gave different objects at capture and may give one object in a later call.
#include <algorithm>

#include "capture/guards/distinct.h"
#include "capture/interpreter/iteration/external_iterators.h"
#include "capture/interpreter/protocol/interpreter.h"

namespace stator::capture {
namespace {

/// One external object that the program examined or changed.
struct Seen {
  Source* source;
  bool changed;
  bool by_dict = false;  // as the owner of its `__dict__`
};

/// Whether the source gives the same object in every call.
bool is_fixed(const Source* source) {
  if (source->kind == SourceKind::Pinned) return true;
  return std::any_of(source->facts.begin(), source->facts.end(),
                     [](const Fact& fact) { return fact.kind == FactKind::Identity; });
}

/// Whether the program read instance attributes of the object.
bool has_attribute_guards(const Source* source) {
  auto is_own = [](const Source* child) {
    return child->kind == SourceKind::InstanceDict || child->kind == SourceKind::Attribute;
  };
  auto is_missing = [](const Fact& fact) {
    return fact.kind == FactKind::NoAttribute || fact.kind == FactKind::NoAttributes;
  };
  return std::any_of(source->children.begin(), source->children.end(), is_own) ||
         std::any_of(source->facts.begin(), source->facts.end(), is_missing);
}

/// Whether it is the dict of the function's `**kwargs`: each call makes a new one, which nothing else refers to.
bool is_made_by_call(const Interpreter& in, const Source* source) {
  const PyCodeObject* code = in.start.code();
  const bool has_args = code->co_flags & CO_VARARGS;
  return !in.start.is_resumed() && source->kind == SourceKind::Argument && (code->co_flags & CO_VARKEYWORDS) &&
         source->index == code->co_argcount + code->co_kwonlyargcount + has_args;
}

/// A group of objects that may be the same object in a later call. Objects of different groups never are.
class Groups {
 public:
  void add(const Value* value, Source* source, bool changed) {
    any_ = any_ || changed;
    PyObject* object = source->object.get();
    if (value->kind == Kind::Tensor) tensors_.push_back({source, changed});
    if (PyDict_Check(object)) with_dict_.push_back({source, changed});
    const bool by_attributes =
        changed || has_attribute_guards(source) || (value->kind == Kind::Object && !PyDict_Check(object));
    if (by_attributes && may_have_dict(object)) with_dict_.push_back({source, changed, /*by_dict=*/true});
    // An instance with a `__dict__` is represented by the dict; items of a list or set are separate.
    const bool is_covered = PyDict_Check(object) || (value->kind == Kind::Object && may_have_dict(object));
    if (value->kind == Kind::Tensor || (is_covered && !PyList_Check(object) && !PyAnySet_Check(object))) return;
    by_type_[PyList_Check(object) ? &PyList_Type : Py_TYPE(object)].push_back({source, changed});
  }
  void add_dict(Source* source) { with_dict_.push_back({source, false}); }
  /// A list or dict that an iterator iterates over.
  void add_iterated(Source* source, PyTypeObject* type) {
    if (type == &PyDict_Type)
      add_dict(source);
    else
      by_type_[type].push_back({source, false});
  }
  bool has_changes() const { return any_; }

  void emit(SourceTree& sources, const UserLine& line) const {
    if (!any_) return;
    emit(tensors_, sources, line);
    emit(with_dict_, sources, line);
    for (auto& [type, all] : by_type_) emit(all, sources, line);
  }

 private:
  static bool may_have_dict(PyObject* object) {
    PyObject* dict;
    return !PyDict_CheckExact(object) && stator_instance_dict(object, &dict) != kStatorDictNone;
  }

  static void emit(const std::vector<Seen>& all, SourceTree& sources, const UserLine& line) {
    auto key_of = [&](const Seen& one) {
      PyObject* object = one.source->object.get();
      return one.by_dict ? represented_by(object) : object;
    };
    std::unordered_set<PyObject*> changed;
    auto group = std::make_shared<std::vector<Source*>>();
    std::string by_dict;
    bool fixed = true;
    auto join = [&](const Seen& one) {
      group->push_back(one.source);
      by_dict.push_back(one.by_dict);
      fixed = fixed && is_fixed(one.source) && !one.by_dict;
    };
    size_t changes = 0;
    for (const Seen& one : all) {
      if (!one.changed) continue;
      if (PyObject* key = key_of(one); key && !changed.insert(key).second) continue;
      join(one);
      ++changes;
    }
    // Sources that gave one object at capture are already guarded to give one.
    for (const Seen& one : all)
      if (PyObject* key = key_of(one); !one.changed && !(key && changed.contains(key))) join(one);
    if (changes == 0 || group->size() < 2 || fixed) return;
    for (Source* source : *group) source->loaded = true;
    Fact fact{FactKind::Distinct, Ref(), Ref(), static_cast<int64_t>(changes), line};
    if (by_dict.find('\1') != std::string::npos)
      fact.extra = Ref::steal(PyBytes_FromStringAndSize(by_dict.data(), static_cast<Py_ssize_t>(by_dict.size())));
    fact.group = group;
    sources.add_fact(group->front(), std::move(fact));
  }

  bool any_ = false;
  std::vector<Seen> tensors_, with_dict_;
  std::unordered_map<PyTypeObject*, std::vector<Seen>> by_type_;
};

/// Dicts that are read without a DictValue: globals, and the attributes of objects guarded by identity.
void add_namespaces(const Interpreter& in, Source* source, Groups& groups) {
  PyObject* object = source->object.get();
  const Value* owner =
      source->kind == SourceKind::InstanceDict ? in.objects.find(source->parent->object.get()) : nullptr;
  const bool is_own = source->kind == SourceKind::InstanceDict && (!owner || owner->kind == Kind::Constant);
  if ((is_own || source->kind == SourceKind::Pinned) && object && PyDict_CheckExact(object) &&
      !in.objects.contains(object))
    groups.add_dict(source);
  for (Source* child : source->children) add_namespaces(in, child, groups);
}

}  // namespace

void Interpreter::guard_aliases() {
  std::unordered_set<const Value*> changed;
  std::unordered_set<const Source*> changed_sources;  // an instance and its built-in part are two values
  for (const Effect& effect : effects) {
    changed.insert(effect.target);
    if (effect.target && effect.target->source) changed_sources.insert(effect.target->source);
    // A call that the plan makes at its end must find its tensor as the program left it.
    auto* made = effect.kind == EffectKind::Make ? as<OpaqueValue>(effect.target) : nullptr;
    if (made && made->grad_fn) changed.insert(made->arguments[0]);
  }
  const bool knows_data = std::any_of(torch.inputs.begin(), torch.inputs.end(), [](const TensorValue* input) {
    return std::any_of(input->source->facts.begin(), input->source->facts.end(),
                       [](const Fact& fact) { return fact.kind == FactKind::Item; });
  });
  const std::vector<InputWrite> writes = torch.tracer.input_writes();
  for (size_t i = 0; i < torch.inputs.size(); ++i)
    if (writes[i] >= InputWrite::Facts || (knows_data && writes[i] == InputWrite::Data))
      changed.insert(torch.inputs[i]);

  std::vector<Value*> seen;
  objects.for_each([&](Value* value) {
    if (value->source && value->kind != Kind::Constant && !prototypes.owns(value->source) &&
        !is_made_by_call(*this, value->source))
      seen.push_back(value);
  });
  // Use program order: the order of the map depends on addresses.
  std::sort(seen.begin(), seen.end(), [](Value* a, Value* b) { return a->source->number < b->source->number; });
  Groups groups;
  for (Value* value : seen) {
    bool is_changed = changed.contains(value) || changed_sources.contains(value->source);
    auto* iterator = value->kind == Kind::Iterator ? dynamic_cast<ExternalIterator*>(value) : nullptr;
    if (iterator) {
      is_changed = iterator->taken > 0 || iterator->ended;
      for (Source* child : value->source->children)
        if (child->kind == SourceKind::Iterated) groups.add_iterated(child, iterated_class(iterator->form));
    }
    groups.add(value, value->source, is_changed);
  }
  if (groups.has_changes())
    for (Source* root : guards.sources().roots()) add_namespaces(*this, root, groups);
  groups.emit(guards.sources(), frames.user_line());
  guard_memory(writes);
}

/// The reference executor runs the nodes in program order, so that data is always right there; but a write that
/// autograd follows changes the history of each view. A Python backend may compute first and write later, so that every
/// write counts.
void Interpreter::guard_memory(const std::vector<InputWrite>& writes) {
  const InputWrite least = options.for_python_backend ? InputWrite::Data : InputWrite::Followed;
  auto group = std::make_shared<std::vector<Source*>>();
  for (size_t i = 0; i < torch.inputs.size(); ++i)
    if (writes[i] >= least) group->push_back(torch.inputs[i]->source);
  const size_t written = group->size();
  for (size_t i = 0; i < torch.inputs.size(); ++i)
    if (writes[i] < least && !is_number_input(*torch.inputs[i])) group->push_back(torch.inputs[i]->source);
  if (written == 0 || group->size() < 2) return;
  std::vector<PyObject*> objects;
  for (Source* source : *group) {
    source->loaded = true;
    objects.push_back(source->object.get());
  }
  Fact fact{FactKind::Memory, memory_layout(objects, written), Ref(), static_cast<int64_t>(written),
            frames.user_line()};
  torch.has_hidden_aliases = shares_beyond_storages(fact.object.get());
  fact.group = group;
  guards.sources().add_fact(group->front(), std::move(fact));
}

}  // namespace stator::capture
