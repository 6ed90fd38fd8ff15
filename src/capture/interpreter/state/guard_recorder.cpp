#include "capture/interpreter/state/guard_recorder.h"

#include "capture/guards/check.h"
#include "capture/guards/literals.h"
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
  if (!(type->tp_flags & Py_TPFLAGS_HEAPTYPE) || (type->tp_flags & Py_TPFLAGS_IMMUTABLETYPE)) return;
  if (!guarded_classes_.insert(type).second) return;
  // A lookup assigns a version to a class that has none.
  static PyObject* probe = PyUnicode_InternFromString("__stator__");
  if (stator_type_version(type) == 0) _PyType_Lookup(type, probe);
  if (stator_type_version(type) == 0)
    throw Break{BreakId::internal, std::string("class without a version: ") + type->tp_name};
  Source* source = sources_->pinned(reinterpret_cast<PyObject*>(type), type->tp_name);
  add(source, FactKind::TypeVersion, reinterpret_cast<PyObject*>(type), stator_type_version(type));
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
