#include "capture/interpreter/state/guard_recorder.h"

#include "capture/guards/check.h"
#include "capture/guards/class_content.h"
#include "capture/guards/literals.h"
#include "capture/interpreter/state/known_types.h"
#include "capture/pycompat/facts.h"

namespace stator::capture {

GuardRecorder::GuardRecorder(const FrameStack& frames, Prototypes& prototypes)
    : frames_(frames), prototypes_(prototypes), sources_(std::make_unique<SourceTree>()) {}

/// Drops the object and the facts of a source and of all sources below it.
static void empty(Source* source) {
  source->object = Ref();
  source->facts.clear();
  for (Source* child : source->children) empty(child);
}

std::unique_ptr<SourceTree> GuardRecorder::take_sources() {
  sources_->drop_roots([&](Source* root) {
    const bool is_own = prototypes_.owns(root);
    if (is_own) empty(root);
    return is_own;
  });
  ClassContents contents(lookups_);
  for (Source* root : sources_->roots())
    for (Fact& fact : root->facts)
      if (fact.kind == FactKind::ClassContent)
        fact.content = contents.of(fact.object.as<PyTypeObject>(), static_cast<unsigned>(fact.number));
  return std::move(sources_);
}

void GuardRecorder::add(Source* source, FactKind kind, PyObject* object, int64_t number) {
  // Other guards imply the identity of a pinned source's object, and so its class, unless the class can be assigned.
  if (source->kind == SourceKind::Pinned) {
    if (kind == FactKind::Identity || kind == FactKind::Equals) return;
    if (kind == FactKind::TypeIs && has_constant_instances(reinterpret_cast<PyTypeObject*>(object))) return;
  }
  Fact fact{kind, Ref::borrow(object), Ref(), number, frames_.user_line()};
  if (kind == FactKind::Code) fact.extra = Ref::borrow(PyFunction_GET_DEFAULTS(source->object.get()));
  sources_->add_fact(source, std::move(fact));
}

void GuardRecorder::add_at_end(Source* source, FactKind kind, int64_t number) {
  sources_->add_fact(source, Fact{kind, Ref(), Ref(), number, UserLine()});
}

void GuardRecorder::add_class(PyTypeObject* type) {
  // The bases of a prototype were guarded when it was made.
  if (prototypes_.find(reinterpret_cast<PyObject*>(type))) return;
  if (!is_changeable(type)) return;
  if (!guarded_classes_.insert(type).second) return;
  // The tables of an enumeration's members change with the names of the class.
  if (PyType_IsSubtype(Py_TYPE(type), enum_meta_type())) lookups_->add_all(type);
  Source* source = sources_->pinned(reinterpret_cast<PyObject*>(type), type->tp_name);
  add(source, FactKind::ClassContent, reinterpret_cast<PyObject*>(type), stator_type_assign_version(type));
}

Source* GuardRecorder::class_item(PyTypeObject* owner, PyObject* name, PyObject* object) {
  if (!is_changeable(owner) || prototypes_.find(reinterpret_cast<PyObject*>(owner))) return nullptr;
  lookups_->add_source(owner, name);
  Source* source = sources_->pinned(reinterpret_cast<PyObject*>(owner), owner->tp_name);
  Source* names = sources_->child(source, SourceKind::ClassDict, 0, nullptr, owner->tp_dict);
  return sources_->child(names, SourceKind::DictItem, 0, name, object);
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
  Fact fact{same ? FactKind::SameAs : FactKind::NotSameAs, Ref(), Ref(), 0, frames_.user_line(), b};
  a->loaded = b->loaded = true;
  sources_->add_fact(a, std::move(fact));
}

}  // namespace stator::capture
