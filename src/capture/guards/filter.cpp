#include "capture/guards/filter.h"

namespace stator::capture {
namespace {

void collect(Source* source, std::vector<std::pair<Source*, Fact*>>& into) {
  for (Fact& fact : source->facts) into.emplace_back(source, &fact);
  for (Source* child : source->children) collect(child, into);
}

/// What becomes of a guard that the user rejects but whose source is still read: column `unwanted` of guard_kinds.def.
enum class Unwanted : uint8_t {
  Drop,
  Keep,        // reading the object, or what is reached from it, relies on the fact
  KeepClass,   // only the class of the object is guarded instead
  KeepOnPath,  // Keep if other sources are read from the object, else KeepClass
};
constexpr Unwanted kUnwanted[] = {
#define STATOR_GUARD(name, stage, traits, unwanted, check, words, describe, saw) Unwanted::unwanted,
#include "capture/values/guard_kinds.def"
#undef STATOR_GUARD
};

Unwanted outcome_for(const Fact& fact, const Source& source) {
  bool is_path = !source.children.empty();
  if (!is_path && !source.loaded) return Unwanted::Drop;
  if (!source.object) return Unwanted::Keep;
  Unwanted outcome = kUnwanted[static_cast<size_t>(fact.kind)];
  if (outcome != Unwanted::KeepOnPath) return outcome;
  return is_path ? Unwanted::Keep : Unwanted::KeepClass;
}

void drop(Source* source, const std::function<bool(const Fact*)>& is_unwanted) {
  std::pmr::vector<Fact> kept(source->facts.get_allocator());
  for (Fact& fact : source->facts) {
    Unwanted outcome = is_unwanted(&fact) ? outcome_for(fact, *source) : Unwanted::Keep;
    if (outcome == Unwanted::Drop) continue;
    if (outcome == Unwanted::KeepClass) {
      Fact weaker{};
      weaker.kind = FactKind::TypeIs;
      weaker.object = Ref::borrow(reinterpret_cast<PyObject*>(Py_TYPE(source->object.get())));
      weaker.line = fact.line;
      fact = std::move(weaker);
    }
    kept.push_back(std::move(fact));
  }
  source->facts = std::move(kept);
  for (Source* child : source->children) drop(child, is_unwanted);
}

}  // namespace

std::vector<std::pair<Source*, Fact*>> facts_of(const SourceTree& tree) {
  std::vector<std::pair<Source*, Fact*>> facts;
  for (Source* root : tree.roots()) collect(root, facts);
  return facts;
}

void drop_facts(const SourceTree& tree, const std::function<bool(const Fact*)>& is_unwanted) {
  for (Source* root : tree.roots()) drop(root, is_unwanted);
}

bool is_relied_on(FactKind kind) { return kUnwanted[static_cast<size_t>(kind)] != Unwanted::Drop; }

bool is_from_argument(const Source& source) {
  const Source* at = &source;
  while (at->parent) at = at->parent;
  return at->kind == SourceKind::Argument;
}

bool is_global(const Source& source) {
  const Source* at = &source;
  while (at->parent) at = at->parent;
  return at != &source && at->kind == SourceKind::Pinned && at->object && PyDict_CheckExact(at->object.get());
}

}  // namespace stator::capture
