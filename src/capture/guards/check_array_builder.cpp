// How a check array is built from a source tree.
#include <algorithm>
#include <unordered_set>

#include "capture/guards/check_array.h"
#include "capture/guards/class_content.h"
#include "capture/guards/elements.h"
#include "capture/guards/kinds.h"
#include "capture/guards/literals.h"
#include "capture/pycompat/facts.h"

namespace stator::capture {
namespace {

/// Head of a dict's block. An unchanged tag means that every key and value pointer is what it was when the block last
/// held, and that the slots which the block filled then are still right.
int dict_unchanged(Check& c, CheckRun& run) {
  uint64_t tag = stator_dict_tag(run.slots[c.slot]);
  if (tag == c.number && tag != 0) return c.count;
  // If a check of the block fails now, some slots are filled from this dict and others are not: forget the old tag.
  c.number = 0;
  return 1;
}

/// Tail of a dict's block: the block held, so the head may accept this tag.
int store_dict_tag(Check& c, CheckRun& run) {
  (&c - c.count)->number = stator_dict_tag(run.slots[c.slot]);
  return 1;
}

/// __dict__ of an instance that is guarded by identity: the address of the field is known. Its contents may still
/// change.
int load_placed_dict(Check& c, CheckRun& run) {
  if (*reinterpret_cast<PyObject**>(c.number) == run.slots[c.slot]) return 1;
  return load_of(SourceKind::InstanceDict)(c, run);
}

int check_exact_dict(Check& c, CheckRun& run) { return PyDict_CheckExact(run.slots[c.slot]); }

bool has_known_identity(const Source* source) {
  if (source->kind == SourceKind::Pinned) return true;
  for (const Fact& fact : source->facts)
    if (fact.kind == FactKind::Identity) return true;
  return false;
}

PyObject* on_death(PyObject* capsule, PyObject*) {
  *static_cast<std::shared_ptr<bool>*>(PyCapsule_GetPointer(capsule, nullptr))->get() = true;
  Py_RETURN_NONE;
}
PyMethodDef on_death_def = {"on_death", on_death, METH_O, nullptr};

void free_flag(PyObject* capsule) {
  delete static_cast<std::shared_ptr<bool>*>(PyCapsule_GetPointer(capsule, nullptr));
}

/// Whether the fact cannot become false while the same object is at the source.
bool is_invariant(const Fact& fact) {
  if (fact.kind == FactKind::TypeIs) return has_constant_instances(fact.object.as<PyTypeObject>());
  return has_trait(fact.kind, kInvariant);
}

bool is_dict_entry(SourceKind kind) {
  return kind == SourceKind::DictItem || kind == SourceKind::DictKey || kind == SourceKind::DictValue;
}
bool is_dict_content(const Fact& fact) { return has_trait(fact.kind, kDictContents); }
bool is_relation(const Fact& fact) { return stage_of(fact.kind) == FactStage::Relation; }

}  // namespace

/// Flattens the source tree into checks: sources before what is read from them, guards of a source by stage.
struct CheckArray::Builder {
  CheckArray& array;

  std::unordered_set<PyObject*> watched;
  std::vector<int32_t> key_arguments;

  explicit Builder(CheckArray& a) : array(a) {}

  /// Marks the sources that facts of others compare with: they need slots even if no fact of their own is left.
  static void mark_compared(const Source* s) {
    for (const Fact& fact : s->facts) {
      if (fact.other) fact.other->compared = true;
      if (fact.group)
        for (Source* other : *fact.group) other->compared = true;
    }
    for (const Source* child : s->children) mark_compared(child);
  }

  /// Whether the source needs a slot: for itself, or for a source that is read from it.
  static bool is_needed(const Source* s) {
    if (s->loaded || !s->facts.empty() || s->compared || may_be_missing(*s)) return true;
    for (Source* child : s->children)
      if (is_needed(child)) return true;
    return false;
  }

  /// Gives slots to the source and to all that is read from it, and puts its facts into the order of their stages.
  void number_slots(Source* s) {
    auto is_earlier = [](const Fact& a, const Fact& b) { return stage_of(a.kind) < stage_of(b.kind); };
    // Most sources have few facts, in order already; sorting would allocate.
    if (!std::is_sorted(s->facts.begin(), s->facts.end(), is_earlier))
      std::stable_sort(s->facts.begin(), s->facts.end(), is_earlier);
    s->slot = static_cast<int32_t>(array.slots_.size());
    array.slots_.push_back(s->object.get());
    SlotInfo info;
    info.pinned = s->kind == SourceKind::Pinned;
    info.fixed = has_known_identity(s);
    info.read = s->loaded;
    array.slot_info_.push_back(info);
    for (Source* child : s->children) {
      if (!is_needed(child)) continue;
      array.slot_info_[s->slot].leaf = false;
      number_slots(child);
    }
    SlotInfo& made = array.slot_info_[s->slot];
    made.recurring = s->recurring && !made.leaf && !made.fixed;
    if (made.recurring && s->kind == SourceKind::Argument) key_arguments.push_back(s->index);
    if (s->recurring) note_instance(*s);
  }

  void note_instance(const Source& s) {
    const Source* cell = s.kind == SourceKind::CellContents ? s.parent : nullptr;
    const bool is_variable = cell && cell->kind == SourceKind::Cell && cell->parent->kind == SourceKind::Function;
    if (s.kind != SourceKind::Argument && !is_variable) return;
    Ref weak = Ref::steal(PyWeakref_NewRef(s.object.get(), nullptr));
    if (!weak) PyErr_Clear();
    array.instances_.push_back({is_variable ? -1 : s.index, is_variable ? cell->index : -1, std::move(weak)});
  }

  Check& add(CheckFn fn, CheckGroup group, Source* s) {
    Check check;
    check.fn = fn;
    check.group = group;
    check.slot = s->slot;
    check.of_break = s->of_break;
    array.checks_.push_back(check);
    return array.checks_.back();
  }

  void emit_load(Source* s) {
    if (s->kind == SourceKind::Pinned) return;
    Check& check = add(load_of(s->kind), CheckGroup::Load, s);
    check.kind = static_cast<uint8_t>(s->kind);
    check.from = s->parent ? s->parent->slot : 0;
    check.count = s->index;
    check.object = s->key.get();
    // A key of an lru_cache has weak references to objects of the program: hashing it would call their __hash__.
    if (s->key && s->kind != SourceKind::Cached) check.number = static_cast<uint64_t>(PyObject_Hash(s->key.get()));
    if (s->kind == SourceKind::InstanceDict && has_known_identity(s->parent)) {
      if (PyObject** place = _PyObject_GetDictPtr(s->parent->object.get())) {
        check.fn = load_placed_dict;
        check.number = reinterpret_cast<uint64_t>(place);
      }
    }
  }

  void emit_fact(Source* s, Fact& fact) {
    array.watching_ = s;
    if (has_trait(fact.kind, kElementTuple)) fact.object = watched_elements(array, fact.object.get());
    Check& check = add(check_of(fact.kind), CheckGroup::Fact, s);
    check.kind = static_cast<uint8_t>(fact.kind);
    check.of_break = fact.of_break;
    array.has_break_ = array.has_break_ || fact.of_break;
    check.fact = static_cast<int32_t>(array.facts_.size());
    array.facts_.push_back({s, &fact, fact.object.get()});
    check.object = fact.object.get();
    check.extra = fact.extra.get();
    check.number = static_cast<uint64_t>(fact.number);
    if (fact.kind == FactKind::Identity && s->kind == SourceKind::Argument)
      array.identities_.emplace_back(s->index, fact.object.get());
    if (fact.kind == FactKind::Absent) check.number = static_cast<uint64_t>(PyObject_Hash(fact.object.get()));
    if (fact.kind == FactKind::Tensor) check.number = reinterpret_cast<uint64_t>(fact.tensor.get());
    if (fact.content) check.number = reinterpret_cast<uint64_t>(fact.content.get());
    if (fact.shapes) {
      auto shapes = std::make_unique<ShapeCheck>(ShapeCheck{fact.shapes.get(), {}});
      for (const Source* source : *fact.group) shapes->slots.push_back(source->slot);
      check.number = reinterpret_cast<uint64_t>(shapes.get());
      array.shape_checks_.push_back(std::move(shapes));
    } else if (fact.group) {
      auto group = std::make_unique<DistinctSlots>();
      group->changed = static_cast<size_t>(fact.number);
      if (fact.extra)
        for (size_t i = 0; i < fact.group->size(); ++i)
          group->by_dict.push_back(PyBytes_AS_STRING(fact.extra.get())[i] != 0);
      for (const Source* source : *fact.group) {
        group->slots.push_back(source->slot);
        array.slot_info_[source->slot].related = true;
      }
      check.number = reinterpret_cast<uint64_t>(group.get());
      array.groups_.push_back(std::move(group));
    }
    if (fact.other) {
      check.from = fact.other->slot;
      array.slot_info_[s->slot].related = array.slot_info_[fact.other->slot].related = true;
    }
  }

  /// The load and the invariant facts. In the block of a dict they need not run again while the dict is unchanged.
  void emit_invariant(Source* s) {
    emit_load(s);
    for (Fact& fact : s->facts)
      if (is_invariant(fact)) emit_fact(s, fact);
  }

  /// The facts that can change inside the same object, and everything read from it. They run in each full pass.
  void emit_changeable(Source* s) {
    bool tagged = s->object && PyDict_CheckExact(s->object.get());
    for (Fact& fact : s->facts)
      if (!is_invariant(fact) && !is_relation(fact) && !(tagged && is_dict_content(fact))) emit_fact(s, fact);
    if (tagged) emit_dict_block(s);
    for (Source* child : s->children) {
      if (child->slot < 0 || (tagged && is_dict_entry(child->kind))) continue;
      emit_invariant(child);
      emit_changeable(child);
    }
  }

  /// The contents of a plain dict, and everything read from its items. See `CheckGroup`.
  void emit_dict_block(Source* s) {
    size_t head = array.checks_.size();
    add(dict_unchanged, CheckGroup::DictHead, s);
    if (s->kind == SourceKind::InstanceDict) add(check_exact_dict, CheckGroup::DictExact, s);
    for (Fact& fact : s->facts)
      if (is_dict_content(fact)) emit_fact(s, fact);
    for (Source* child : s->children)
      if (child->slot >= 0 && is_dict_entry(child->kind)) emit_invariant(child);
    size_t tail = array.checks_.size();
    add(store_dict_tag, CheckGroup::DictTail, s).count = static_cast<int32_t>(tail - head);
    array.checks_[head].count = static_cast<int32_t>(tail - head + 1);
    for (Source* child : s->children)
      if (child->slot >= 0 && is_dict_entry(child->kind)) emit_changeable(child);
  }

  /// After everything is loaded.
  void emit_relations(Source* s) {
    for (Fact& fact : s->facts)
      if (is_relation(fact)) emit_fact(s, fact);
    for (Source* child : s->children)
      if (child->slot >= 0) emit_relations(child);
  }

  /// Drops the reference to an object of the program and watches the object instead. Literals stay owned, and so do
  /// objects without weak references.
  void watch(Ref& object) {
    if (!object || is_literal(object.get())) return;
    // The descriptor of a field cannot be watched. Its class owns it, and the version of that class is guarded.
    auto* owner = reinterpret_cast<PyObject*>(class_of_field(object.get()));
    if (array.watch(owner ? owner : object.get())) object = Ref();
  }

  /// Classes share what they inherit. Static classes live for ever.
  bool watch_once(PyObject* object) {
    if (object == Py_None || (PyType_Check(object) && !is_changeable(reinterpret_cast<PyTypeObject*>(object))))
      return true;
    if (watched.contains(object)) return true;
    if (!array.watch(object)) return false;
    watched.insert(object);
    return true;
  }

  /// Drops the references to the program's objects that the capture needed: an entry must not keep them alive.
  void release(Source* s) {
    array.watching_ = s;
    for (Fact& fact : s->facts) {
      watch(fact.object);
      watch(fact.extra);
      if (fact.content) fact.content->release([&](PyObject* object) { return watch_once(object); });
    }
    if (s->kind == SourceKind::Pinned) {
      // Other guards, or this watch, imply that it is alive.
      watch(s->object);
      if (s->object && !is_literal(s->object.get()) && PyObject_GC_IsTracked(s->object.get()) &&
          !PyDict_CheckExact(s->object.get()))
        return;
    }
    s->object = Ref();
    if (s->key && !is_literal(s->key.get())) {
      s->key_text = s->shown_key(true);
      watch(s->key);
    }
    for (Source* child : s->children) release(child);
  }
};

bool CheckArray::watch(PyObject* object) {
  Ref weak = Ref::steal(PyWeakref_NewRef(object, on_death_.get()));
  if (!weak) {
    PyErr_Clear();
    return false;
  }
  watches_.push_back({std::move(weak), watching_});
  return true;
}

CheckArray::CheckArray(std::unique_ptr<SourceTree> tree, std::shared_ptr<const GlobalState> globals)
    : tree_(std::move(tree)), globals_(std::move(globals)) {
  Ref flag = Ref::steal(PyCapsule_New(new std::shared_ptr<bool>(dead_), nullptr, free_flag));
  on_death_ = Ref::steal(PyCFunction_New(&on_death_def, flag.get()));
  Builder build(*this);
  for (const Source* root : tree_->roots()) build.mark_compared(root);
  // The guards of pinned classes come before guards on pinned objects whose liveness they imply.
  auto rank = [](const Source* root) {
    if (root->kind != SourceKind::Pinned) return 0;
    return root->object && PyType_Check(root->object.get()) ? 1 : 2;
  };
  std::vector<Source*> roots;
  for (int wanted : {0, 1, 2})
    for (Source* root : tree_->roots())
      if (rank(root) == wanted && build.is_needed(root)) roots.push_back(root);
  for (Source* root : roots) build.number_slots(root);
  rows_.set_key_arguments(std::move(build.key_arguments));
  fresh_.resize(slots_.size());
  for (Source* root : roots) {
    build.emit_invariant(root);
    build.emit_changeable(root);
  }
  for (Source* root : roots) build.emit_relations(root);
  for (Source* root : tree_->roots()) build.release(root);
  watching_ = nullptr;
}

}  // namespace stator::capture
