#include "capture/guards/filter.h"

namespace stator::capture {
namespace {

void collect(Source* source, std::vector<std::pair<Source*, Fact*>>& into) {
  for (Fact& fact : source->facts) into.emplace_back(source, &fact);
  for (Source* child : source->children) collect(child, into);
}

/// What becomes of a fact that is not wanted, where its value is still read.
enum class Unwanted : uint8_t {
  Goes,
  Stays,    // reading relies on it
  Weakens,  // to the class of the value
};

Unwanted fate_of(const Fact& fact, const Source& source) {
  bool is_path = !source.children.empty();
  if (!is_path && !source.loaded) return Unwanted::Goes;
  if (!source.object) return Unwanted::Stays;
  switch (fact.kind) {
    case FactKind::Identity:
      return is_path ? Unwanted::Stays : Unwanted::Weakens;
    case FactKind::Equals:
    case FactKind::Tensor:
    case FactKind::ArrayLayout:
      return Unwanted::Weakens;
    case FactKind::TypeIs:
    case FactKind::TypeVersion:
    case FactKind::Length:
    case FactKind::Keys:
    case FactKind::Elements:
    case FactKind::Code:
    case FactKind::Exhausted:
      return Unwanted::Stays;
    default:
      return Unwanted::Goes;
  }
}

void drop(Source* source, const std::function<bool(const Fact*)>& is_unwanted) {
  std::vector<Fact> kept;
  for (Fact& fact : source->facts) {
    Unwanted fate = is_unwanted(&fact) ? fate_of(fact, *source) : Unwanted::Stays;
    if (fate == Unwanted::Goes) continue;
    if (fate == Unwanted::Weakens) {
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

bool is_global(const Source& source) {
  const Source* at = &source;
  while (at->parent) at = at->parent;
  return at != &source && at->kind == SourceKind::Pinned && at->object && PyDict_CheckExact(at->object.get());
}

}  // namespace stator::capture
