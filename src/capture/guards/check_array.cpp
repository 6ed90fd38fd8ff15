#include "capture/guards/check_array.h"

#include <algorithm>

#include "capture/guards/describe.h"
#include "capture/guards/elements.h"
#include "capture/guards/literals.h"
#include "capture/guards/tensor_expectation.h"
#include "capture/pycompat/facts.h"
#include "core/base/check.h"

namespace stator::capture {
namespace {

/// Fast accept: an unchanged tag means that every key and value pointer is as it was when the checks up to `count`
/// last held, and the slots they filled are still right.
int dict_unchanged(Check& c, CheckRun& run) {
  uint64_t tag = stator_dict_tag(run.slots[c.slot]);
  if (tag == c.number && tag != 0) return c.count;
  // The checks may fail half-way with some slots filled from this dict: then no tag stands for the slots any more.
  c.number = 0;
  return 1;
}

int rearm_dict(Check& c, CheckRun& run) {
  (&c - c.count)->number = stator_dict_tag(run.slots[c.slot]);
  return 1;
}

/// The instance's identity is guarded, so the place of its __dict__ is known; the dict itself can be exchanged.
int load_placed_dict(Check& c, CheckRun& run) {
  if (*reinterpret_cast<PyObject**>(c.number) == run.slots[c.slot]) return 1;
  return load_row(SourceKind::InstanceDict)(c, run);
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

/// Facts that cannot change while the same object stands there: also the class of what is no instance of a Python
/// class.
bool is_invariant_here(const Fact& fact) {
  if (fact.kind == FactKind::TypeIs) return has_constant_instances(fact.object.as<PyTypeObject>());
  return is_invariant(fact.kind);
}

bool is_dict_content(const Fact& fact) {
  return fact.kind == FactKind::Keys || fact.kind == FactKind::Absent || fact.kind == FactKind::Length;
}

}  // namespace

struct CheckArray::Builder {
  CheckArray& array;

  explicit Builder(CheckArray& a) : array(a) {}

  static bool has_fact(const Source* s, FactKind kind) {
    return std::any_of(s->facts.begin(), s->facts.end(), [&](const Fact& fact) { return fact.kind == kind; });
  }

  /// Whether a later call may find nothing there at all. That something was found is a fact, whatever it is.
  static bool may_be_missing(const Source* s) {
    switch (s->kind) {
      case SourceKind::Attribute:
      case SourceKind::CellContents:
      case SourceKind::Gradient:
      case SourceKind::Cached:
        return true;
      case SourceKind::DictItem:
        return !has_fact(s->parent, FactKind::Keys);
      case SourceKind::Item:
        return !has_fact(s->parent, FactKind::Length);
      default:
        return false;
    }
  }

  bool is_needed(const Source* s) {
    if (s->loaded || !s->facts.empty() || may_be_missing(s)) return true;
    for (Source* child : s->children)
      if (is_needed(child)) return true;
    return false;
  }

  void number_slots(Source* s) {
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
  }

  Check& add(CheckFn fn, CheckGroup group, Source* s) {
    Check check;
    check.fn = fn;
    check.group = group;
    check.slot = s->slot;
    array.checks_.push_back(check);
    return array.checks_.back();
  }

  void emit_load(Source* s) {
    if (s->kind == SourceKind::Pinned) return;
    Check& check = add(load_row(s->kind), CheckGroup::Load, s);
    check.kind = static_cast<uint8_t>(s->kind);
    check.from = s->parent ? s->parent->slot : 0;
    check.count = s->index;
    check.object = s->key.get();
    if (s->key && s->kind != SourceKind::Cached) check.number = static_cast<uint64_t>(PyObject_Hash(s->key.get()));
    if (s->kind == SourceKind::InstanceDict && has_known_identity(s->parent)) {
      if (PyObject** place = _PyObject_GetDictPtr(s->parent->object.get())) {
        check.fn = load_placed_dict;
        check.number = reinterpret_cast<uint64_t>(place);
      }
    }
  }

  void emit_fact(Source* s, Fact& fact) {
    if (fact.kind == FactKind::Keys || fact.kind == FactKind::Elements)
      fact.object = watched_elements(array, fact.object.get());
    Check& check = add(fact_row(fact.kind).check, CheckGroup::Fact, s);
    check.kind = static_cast<uint8_t>(fact.kind);
    check.fact = static_cast<int32_t>(array.facts_.size());
    array.facts_.push_back({s, &fact, fact.object.get()});
    check.object = fact.object.get();
    check.extra = fact.extra.get();
    check.number = static_cast<uint64_t>(fact.number);
    if (fact.kind == FactKind::Absent) check.number = static_cast<uint64_t>(PyObject_Hash(fact.object.get()));
    if (fact.kind == FactKind::Tensor) check.number = reinterpret_cast<uint64_t>(fact.tensor.get());
    if (fact.group) {
      auto group = std::make_unique<DistinctSlots>();
      group->changed = static_cast<size_t>(fact.number);
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

  void emit_static(Source* s) {
    emit_load(s);
    for (Fact& fact : s->facts)
      if (is_invariant_here(fact)) emit_fact(s, fact);
  }

  void emit_dynamic(Source* s) {
    bool tagged = s->object && PyDict_CheckExact(s->object.get());
    for (Fact& fact : s->facts)
      if (!is_invariant_here(fact) && !fact.other && !fact.group && !(tagged && is_dict_content(fact)))
        emit_fact(s, fact);
    if (tagged) {
      size_t head = array.checks_.size();
      add(dict_unchanged, CheckGroup::DictHead, s);
      if (s->kind == SourceKind::InstanceDict) add(check_exact_dict, CheckGroup::DictExact, s);
      for (Fact& fact : s->facts)
        if (is_dict_content(fact)) emit_fact(s, fact);
      for (Source* child : s->children)
        if (child->slot >= 0 && child->kind == SourceKind::DictItem) emit_static(child);
      size_t tail = array.checks_.size();
      add(rearm_dict, CheckGroup::DictTail, s).count = static_cast<int32_t>(tail - head);
      array.checks_[head].count = static_cast<int32_t>(tail - head + 1);
      for (Source* child : s->children)
        if (child->slot >= 0 && child->kind == SourceKind::DictItem) emit_dynamic(child);
    }
    for (Source* child : s->children) {
      if (child->slot < 0 || (tagged && child->kind == SourceKind::DictItem)) continue;
      emit_static(child);
      emit_dynamic(child);
    }
  }

  void emit_relations(Source* s) {
    for (Fact& fact : s->facts)
      if (fact.other || fact.group) emit_fact(s, fact);
    for (Source* child : s->children)
      if (child->slot >= 0) emit_relations(child);
  }

  /// Literals stay strong; what can be watched is watched; the rest (no weak references, no cycles) stays strong.
  void watch(Ref& object) {
    if (!object || is_literal(object.get())) return;
    // The class keeps the descriptors of its fields; that it is unchanged is guarded too.
    auto* owner = reinterpret_cast<PyObject*>(class_of_field(object.get()));
    if (array.watch(owner ? owner : object.get())) object = Ref();
  }

  void release(Source* s) {
    for (Fact& fact : s->facts) {
      watch(fact.object);
      watch(fact.extra);
    }
    if (s->kind == SourceKind::Pinned) {
      // Its life follows from an identity that is watched elsewhere, or it is watched here.
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
  watches_.push_back(std::move(weak));
  return true;
}

CheckArray::CheckArray(std::unique_ptr<SourceTree> tree, std::shared_ptr<const GlobalState> globals)
    : tree_(std::move(tree)), globals_(std::move(globals)) {
  Ref flag = Ref::steal(PyCapsule_New(new std::shared_ptr<bool>(dead_), nullptr, free_flag));
  on_death_ = Ref::steal(PyCFunction_New(&on_death_def, flag.get()));
  Builder build(*this);
  // What lives by a class's word comes after that word: pinned classes are the first of the pinned.
  auto rank = [](const Source* root) {
    if (root->kind != SourceKind::Pinned) return 0;
    return root->object && PyType_Check(root->object.get()) ? 1 : 2;
  };
  std::vector<Source*> roots;
  for (int wanted : {0, 1, 2})
    for (Source* root : tree_->roots())
      if (rank(root) == wanted && build.is_needed(root)) roots.push_back(root);
  for (Source* root : roots) build.number_slots(root);
  fresh_.resize(slots_.size());
  for (Source* root : roots) {
    build.emit_static(root);
    build.emit_dynamic(root);
  }
  for (Source* root : roots) build.emit_relations(root);
  for (Source* root : tree_->roots()) build.release(root);
}

bool CheckArray::run(const GuardInput& input) {
  if (*dead_ || !globals_->matches()) return false;
  if (words_.is_armed()) {
    switch (words_.run(input)) {
      case WordPass::Answer::Holds:
        ++uses_;
        ++guard_counts().by_words;
        current_ = words_.slots();
        return true;
      case WordPass::Answer::Fails:
        return false;
      case WordPass::Answer::Unsure:
        break;
    }
  }
  if (!run_fully(input)) return false;
  consider_words(input);
  return true;
}

bool CheckArray::run(const RawCall& call, PyObject* function) {
  if (*dead_ || !words_.is_armed() || !words_.begin(call) || !globals_->matches()) return false;
  if (words_.finish(call, function) != WordPass::Answer::Holds) return false;
  ++uses_;
  ++guard_counts().by_words;
  current_ = words_.slots();
  return true;
}

bool CheckArray::run_fully(const GuardInput& input) {
  ++guard_counts().in_full;
  CheckRun run{input, slots_.data(), fresh_.data()};
  if (!run_checks(checks_.data(), checks_.data() + checks_.size(), run)) return false;
  current_ = slots_.data();
  return true;
}

/// Recording costs a few full passes: where words do not last, it is done ever more seldom.
void CheckArray::consider_words(const GuardInput& input) {
  constexpr uint32_t kWorthwhile = 8, kLongestPause = 64;
  if (words_.is_armed()) {
    words_.disarm();
    last_pause_ = uses_ >= kWorthwhile ? 1 : std::min(2 * last_pause_, kLongestPause);
    pause_ = last_pause_ - 1;
  }
  if (pause_ > 0) {
    --pause_;
    return;
  }
  words_.record(checks_, slot_info_, slots_.data(), input);
  uses_ = 0;
}

bool CheckArray::same_identities(const GuardInput& input) const {
  if (*dead_) return false;
  for (const Asserted& asserted : facts_)
    if (asserted.fact->kind == FactKind::Identity && asserted.source->kind == SourceKind::Argument &&
        input.arguments[asserted.source->index] != asserted.object)
      return false;
  return true;
}

static std::string at_line(const UserLine& line) {
  if (!line.file) return "";
  const char* file = PyUnicode_AsUTF8(line.file.get());
  return std::string("  (needed at ") + (file ? file : "?") + ":" + std::to_string(line.line) + ")";
}

CheckArray::Miss CheckArray::miss(const GuardInput& input) {
  if (*dead_) return {"an object that the guards refer to is gone"};
  if (!globals_->matches()) return {globals_->mismatch()};
  CheckRun run{input, slots_.data(), fresh_.data()};
  for (size_t i = 0; i < checks_.size();) {
    Check& check = checks_[i];
    int step = check.fn(check, run);
    if (step) {
      i += step;
      continue;
    }
    if (check.fact >= 0) {
      auto& [source, fact, object] = facts_[check.fact];
      const FactRow& row = fact_row(fact->kind);
      Fact shown = *fact;
      shown.object = Ref::borrow(object);
      PyObject* saw = slots_[check.slot];
      return {describe_fact(*source, shown) + "; saw " + row.saw(shown, saw) + at_line(fact->line), source, fact, saw};
    }
    return {"something that was read in the capture is no longer there"};
  }
  return {"the guards hold"};
}

bool CheckArray::misses(const GuardInput& input, std::vector<Miss>& into) {
  if (*dead_ || !globals_->matches()) return false;
  CheckRun run{input, slots_.data(), fresh_.data()};
  for (size_t i = 0; i < checks_.size();) {
    Check& check = checks_[i];
    // A tail would vouch for the block above it, of which something may have failed.
    int step = check.group == CheckGroup::DictTail ? 1 : check.fn(check, run);
    if (!step) {
      if (check.fact < 0) return false;
      const Asserted& asserted = facts_[check.fact];
      FactKind kind = asserted.fact->kind;
      if (kind != FactKind::Equals && kind != FactKind::Length) return false;
      into.push_back({{}, asserted.source, asserted.fact, slots_[check.slot]});
    }
    i += std::max(step, 1);
  }
  return true;
}

std::vector<std::string> CheckArray::describe() const {
  std::vector<std::string> lines;
  for (auto& [source, fact, object] : facts_) {
    Fact shown = *fact;
    if (!*dead_) shown.object = Ref::borrow(object);
    lines.push_back(describe_fact(*source, shown) + at_line(fact->line));
  }
  return lines;
}

}  // namespace stator::capture
