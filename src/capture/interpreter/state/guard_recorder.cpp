#include "capture/interpreter/state/guard_recorder.h"

#include <algorithm>
#include <map>
#include <unordered_set>

#include "capture/guards/check.h"
#include "capture/guards/class_content.h"
#include "capture/guards/literals.h"
#include "capture/interpreter/state/known_types.h"
#include "capture/pycompat/facts.h"

namespace stator::capture {

GuardRecorder::GuardRecorder(const FrameStack& frames, Prototypes& prototypes)
    : frames_(frames), prototypes_(prototypes), sources_(std::make_unique<SourceTree>(frames.steps())) {}

/// Drops the object and the facts of a source and of all sources below it.
static void empty(Source* source) {
  source->object = Ref();
  source->facts.clear();
  for (Source* child : source->children) empty(child);
}

void GuardRecorder::complete(uint64_t last_step) {
  sources_->stop_clock();
  std::erase_if(different_, [&](const Different& pair) { return pair.step > last_step; });
  emit_differences();
  sources_->drop_roots([&](Source* root) {
    const bool is_own = prototypes_.owns(root);
    if (is_own) empty(root);
    return is_own;
  });
  guard_lookups();
}

void GuardRecorder::add_break(GuardRecorder& broke, uint64_t last_step) {
  complete();
  broke.complete(last_step);
  for (ForBreak& later : broke.for_break_)
    if (later.step <= last_step) broke.sources_->add_fact(later.source, std::move(later.fact));
  sources_->add_of_break(*broke.sources_, last_step);
  lookups_->add_names(*broke.lookups_);
}

std::unique_ptr<SourceTree> GuardRecorder::take_sources() {
  complete();
  sources_->drop_implied();
  ClassContents contents(lookups_);
  for (Source* root : sources_->roots())
    for (Fact& fact : root->facts)
      if (fact.kind == FactKind::ClassContent)
        fact.content = contents.of(fact.object.as<PyTypeObject>(), static_cast<unsigned>(fact.number));
  return std::move(sources_);
}

/// What the guard on a function's code compares: the number of defaults, which decides how a call binds. A tuple of
/// literals is kept itself, so that the same tuple is accepted at once; of others only the length, since owning them
/// would keep the program's objects alive. The values are guarded where they are read.
static Ref expected_defaults(PyObject* defaults) {
  if (!defaults) return {};
  return is_literal(defaults) ? Ref::borrow(defaults) : Ref::steal(PyLong_FromSsize_t(PyTuple_GET_SIZE(defaults)));
}

void GuardRecorder::add(Source* source, FactKind kind, PyObject* object, int64_t number) {
  // Other guards imply the identity of a pinned source's object, and so its class, unless the class can be assigned.
  if (source->kind == SourceKind::Pinned) {
    if (kind == FactKind::Identity || kind == FactKind::Equals) return;
    if (kind == FactKind::TypeIs && has_constant_instances(reinterpret_cast<PyTypeObject*>(object))) return;
  }
  if (kind == FactKind::Code) {
    Fact fact{kind, Ref::borrow(object), Ref(), number, frames_.user_line()};
    fact.extra = expected_defaults(PyFunction_GET_DEFAULTS(source->object.get()));
    sources_->add_fact(source, std::move(fact));
  } else if (!SourceTree::has_fact(*source, kind, object, number)) {
    Fact& fact = sources_->append_fact(source);
    fact.kind = kind;
    fact.object = Ref::borrow(object);
    fact.number = number;
    fact.line = frames_.user_line();
  }
}

void GuardRecorder::add_at_end(Source* source, Fact fact) {
  sources_->stop_clock();
  sources_->add_fact(source, std::move(fact));
}

/// Guards each class on which a name was looked up, unless it is guarded already.
void GuardRecorder::guard_lookups() {
  for (const ClassLookups::Class& asked : lookups_->take_classes()) {
    auto* type = asked.type.as<PyTypeObject>();
    if (!needs_guard(type)) continue;
    Source* source = sources_->pinned(asked.type.get(), type->tp_name);
    sources_->add_fact(source, Fact{FactKind::ClassContent, asked.type, Ref(), asked.tag, UserLine()});
  }
}

bool GuardRecorder::needs_guard(PyTypeObject* type) {
  // The bases of a prototype were guarded when it was made.
  auto* object = reinterpret_cast<PyObject*>(type);
  if (!is_changeable(type) || guarded_classes_.find(type)) return false;
  if (prototypes_.find(object) || prototypes_.owns(object)) return false;
  guarded_classes_.insert(type, true);
  // The tables of an enumeration's members change with the names of the class.
  if (PyType_IsSubtype(Py_TYPE(type), enum_meta_type())) lookups_->add_all(type);
  return true;
}

void GuardRecorder::add_class(PyTypeObject* type) {
  if (!needs_guard(type)) return;
  Source* source = sources_->pinned(reinterpret_cast<PyObject*>(type), type->tp_name);
  add(source, FactKind::ClassContent, reinterpret_cast<PyObject*>(type), stator_type_assign_version(type));
}

Source* GuardRecorder::class_item(PyTypeObject* owner, PyObject* name, PyObject* object) {
  if (!is_changeable(owner) || prototypes_.find(reinterpret_cast<PyObject*>(owner))) return nullptr;
  lookups_->add_source(owner, name);
  Source* source = sources_->pinned(reinterpret_cast<PyObject*>(owner), owner->tp_name);
  Source* names = sources_->child(source, SourceKind::ClassDict, 0, nullptr, owner->tp_dict);
  Source* item = sources_->child(names, SourceKind::DictItem, 0, name, object);
  // If the object's class can change, it is guarded: with `__get__` the attribute would be a descriptor.
  if (is_changeable(Py_TYPE(object))) add_type(item, Py_TYPE(object));
  return item;
}

void GuardRecorder::add_for_break(Source* source, Fact fact) {
  fact.line = frames_.user_line();
  for_break_.push_back({source, std::move(fact), *frames_.steps()});
}

void GuardRecorder::add_same(Source* a, Source* b, bool same) {
  if (a == b) return;
  // A later call cannot read parts of a prototype: the other object is guarded by identity instead.
  const bool is_own = prototypes_.owns(a);
  if (is_own || prototypes_.owns(b)) {
    Source* other = is_own ? b : a;
    if (prototypes_.owns(other)) return;
    if (!same && prototypes_.owns((is_own ? a : b)->object.get())) return;
    return add(other, FactKind::Identity, other->object.get());
  }
  a->loaded = b->loaded = true;
  if (same)
    sources_->add_fact(a, Fact{FactKind::SameAs, Ref(), Ref(), 0, frames_.user_line(), b});
  else
    different_.push_back({a, b, frames_.user_line(), *frames_.steps()});
}

/// A program that puts n objects into a set compares each with each: the pairs become groups. Where most pairs of a
/// connected group were compared, all of its sources must be distinct, which is one fact. Otherwise there is one fact
/// for each source, in the order of how many it was compared with.
void GuardRecorder::emit_differences() {
  using Others = std::map<Source*, UserLine, decltype([](Source* a, Source* b) { return a->number < b->number; })>;
  std::map<Source*, Others, Others::key_compare> compared;
  for (const Different& pair : different_) {
    compared[pair.a].emplace(pair.b, pair.line);
    compared[pair.b].emplace(pair.a, pair.line);
  }
  auto emit = [&](std::vector<Source*> group, size_t distinct, const UserLine& line) {
    Fact fact{FactKind::Distinct, Ref(), Ref(), static_cast<int64_t>(distinct), line};
    Source* first = group.front();
    fact.group = std::make_shared<const std::vector<Source*>>(std::move(group));
    sources_->add_fact(first, std::move(fact));
  };
  while (!compared.empty()) {
    std::vector<Source*> group{compared.begin()->first};
    std::unordered_set<Source*> reached{group.front()};
    size_t pairs = 0;
    for (size_t i = 0; i < group.size(); ++i) {
      pairs += compared[group[i]].size();
      for (auto& [other, line] : compared[group[i]])
        if (reached.insert(other).second) group.push_back(other);
    }
    const UserLine line = compared.begin()->second.begin()->second;
    if (const size_t count = group.size(); count > 2 && 2 * pairs >= count * (count - 1)) {
      for (Source* source : group) compared.erase(source);
      emit(std::move(group), count, line);
      continue;
    }
    std::stable_sort(group.begin(), group.end(),
                     [&](Source* a, Source* b) { return compared[a].size() > compared[b].size(); });
    for (Source* source : group) {
      const Others others = std::move(compared[source]);
      compared.erase(source);
      std::vector<Source*> star{source};
      for (auto& [other, unused] : others) {
        star.push_back(other);
        compared[other].erase(source);
      }
      if (star.size() == 2)
        sources_->add_fact(source, Fact{FactKind::NotSameAs, Ref(), Ref(), 0, others.begin()->second, star[1]});
      else if (star.size() > 2)
        emit(std::move(star), 1, others.begin()->second);
    }
  }
  different_.clear();
}

}  // namespace stator::capture
