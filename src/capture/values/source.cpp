#include "capture/values/source.h"

#include <algorithm>
#include <string_view>

#include "capture/pycompat/evaluation.h"
#include "capture/pycompat/text.h"

namespace stator::capture {

static bool same_key(PyObject* a, PyObject* b) {
  if (a == b) return true;
  if (!a || !b || Py_TYPE(a) != Py_TYPE(b)) return false;
  if (PyUnicode_CheckExact(a))
    return !(PyUnicode_CHECK_INTERNED(a) && PyUnicode_CHECK_INTERNED(b)) && PyUnicode_Compare(a, b) == 0;
  if (PyLong_CheckExact(a)) return PyObject_RichCompareBool(a, b, Py_EQ) == 1;
  return false;
}

Source* SourceTree::make(SourceKind kind, Source* parent, int32_t index, PyObject* key, PyObject* object) {
  Source* made = &arena_.emplace_back(&memory_);
  made->kind = kind;
  made->parent = parent;
  made->index = index;
  made->key = Ref::borrow(key);
  made->object = Ref::borrow(object);
  made->number = static_cast<uint32_t>(arena_.size() - 1);
  made->step = steps_ ? *steps_ : 0;
  (parent ? parent->children : roots_).push_back(made);
  return made;
}

Source* SourceTree::argument(int slot, PyObject* object) {
  for (Source* root : roots_)
    if (root->kind == SourceKind::Argument && root->index == slot) return root;
  return make(SourceKind::Argument, nullptr, slot, nullptr, object);
}

Source* SourceTree::function_mode(int32_t index, PyObject* object) {
  return make(SourceKind::FunctionMode, nullptr, index, nullptr, object);
}

Source* SourceTree::function(PyObject* object) {
  for (Source* root : roots_)
    if (root->kind == SourceKind::Function) return root;
  return make(SourceKind::Function, nullptr, 0, nullptr, object);
}

Source* SourceTree::pinned(PyObject* object, const char* text) {
  auto [found, fresh] = pinned_.try_emplace(object, nullptr);
  if (fresh) {
    Ref name = Ref::steal(PyUnicode_FromString(text));
    found->second = make(SourceKind::Pinned, nullptr, 0, name.get(), object);
  }
  return found->second;
}

static uint64_t child_hash(SourceKind kind, int32_t index, PyObject* key) {
  Py_hash_t hash = key ? PyObject_Hash(key) : 0;
  return (static_cast<uint64_t>(hash) * 31 + static_cast<uint64_t>(index)) * 31 + static_cast<uint64_t>(kind);
}

Source* SourceTree::child(Source* parent, SourceKind kind, int32_t index, PyObject* key, PyObject* object) {
  auto is_wanted = [&](const Source* child) {
    return child->kind == kind && child->index == index && same_key(child->key.get(), key);
  };
  constexpr size_t kFewChildren = 8;
  if (parent->children.size() < kFewChildren) {
    for (Source* child : parent->children)
      if (is_wanted(child)) return child;
    return make(kind, parent, index, key, object);
  }
  auto& by_hash = child_index_[parent];
  if (by_hash.empty())
    for (Source* child : parent->children)
      by_hash.emplace(child_hash(child->kind, child->index, child->key.get()), child);
  const uint64_t hash = child_hash(kind, index, key);
  for (auto [at, end] = by_hash.equal_range(hash); at != end; ++at)
    if (is_wanted(at->second)) return at->second;
  Source* made = make(kind, parent, index, key, object);
  by_hash.emplace(hash, made);
  return made;
}

bool SourceTree::has_fact(const Source& source, FactKind kind, PyObject* object, int64_t number) {
  return std::any_of(source.facts.begin(), source.facts.end(), [&](const Fact& known) {
    return known.kind == kind && known.number == number && same_key(known.object.get(), object) && !known.extra &&
           !known.other && !known.group && !known.shapes;
  });
}

void SourceTree::add_fact(Source* source, Fact&& fact) {
  for (const Fact& known : source->facts)
    if (known.kind == fact.kind && known.number == fact.number && known.other == fact.other &&
        known.shapes == fact.shapes &&
        (known.group == fact.group || (known.group && fact.group && *known.group == *fact.group)) &&
        known.extra.get() == fact.extra.get() && same_key(known.object.get(), fact.object.get()))
      return;
  fact.step = steps_ ? *steps_ : 0;
  append_fact(source) = std::move(fact);
}

void SourceTree::drop_implied() {
  for (Source& source : arena_) {
    if (source.facts.size() < 2) continue;
    auto has_tensor = [&](bool of_break) {
      return std::ranges::any_of(
          source.facts, [&](const Fact& fact) { return fact.kind == FactKind::Tensor && fact.of_break == of_break; });
    };
    const bool always = has_tensor(false), at_break = always || has_tensor(true);
    std::erase_if(source.facts, [&](const Fact& fact) {
      return fact.kind == FactKind::TypeIs && (fact.of_break ? at_break : always);
    });
  }
}

Fact& SourceTree::append_fact(Source* source) {
  if (source->facts.empty()) source->facts.reserve(2);
  Fact& made = source->facts.emplace_back();
  made.step = steps_ ? *steps_ : 0;
  return made;
}

Source* SourceTree::counterpart(const Source& theirs, Source* parent) {
  PyObject* object = theirs.object.get();
  const size_t count = arena_.size();
  auto find_root = [&]() -> Source* {
    for (Source* root : roots_)
      if (root->kind == theirs.kind && root->index == theirs.index) return root;
    return make(theirs.kind, nullptr, theirs.index, theirs.key.get(), object);
  };
  auto find_pinned = [&] {
    Source*& known = pinned_[object];
    return known ? known : known = make(SourceKind::Pinned, nullptr, 0, theirs.key.get(), object);
  };
  Source* mine = parent ? child(parent, theirs.kind, theirs.index, theirs.key.get(), object)
                 : theirs.kind == SourceKind::Pinned ? find_pinned()
                                                     : find_root();
  if (arena_.size() > count) {
    mine->of_break = true;
    mine->recurring = theirs.recurring;
    mine->loaded = theirs.loaded;
  }
  return mine;
}

void SourceTree::add_of_break(const SourceTree& other, uint64_t last_step) {
  std::vector<std::pair<const Source*, Source*>> pairs;
  std::unordered_map<const Source*, Source*> counterparts;
  auto add = [&](const Source* theirs, Source* parent) {
    if (theirs->step <= last_step) pairs.emplace_back(theirs, counterparts[theirs] = counterpart(*theirs, parent));
  };
  for (const Source* root : other.roots()) add(root, nullptr);
  for (size_t i = 0; i < pairs.size(); ++i) {
    auto [theirs, mine] = pairs[i];
    for (const Source* child : theirs->children) add(child, mine);
  }
  auto find = [&](const Source* theirs) {
    auto found = counterparts.find(theirs);
    return found == counterparts.end() ? nullptr : found->second;
  };
  for (auto& [theirs, mine] : pairs)
    for (Fact fact : theirs->facts) {
      if (fact.step > last_step || (fact.other && !(fact.other = find(fact.other)))) continue;
      if (fact.group) {
        std::vector<Source*> group;
        for (const Source* source : *fact.group) group.push_back(find(source));
        if (std::find(group.begin(), group.end(), nullptr) != group.end()) continue;
        fact.group = std::make_shared<const std::vector<Source*>>(std::move(group));
      }
      fact.of_break = true;
      add_fact(mine, std::move(fact));
    }
}

static void append_object(PyObject* object, bool quoted, std::string& text) {
  auto append = [&text](PyObject* shown) {
    if (!shown) PyErr_Clear();
    text += text_of(shown);
  };
  if (PyUnicode_CheckExact(object) && !quoted) return append(object);
  // An instance of a Python class would run the program's __repr__ or __str__.
  if (Py_TYPE(object)->tp_flags & Py_TPFLAGS_HEAPTYPE)
    return append(Ref::steal(PyUnicode_FromFormat("<%s object at %p>", Py_TYPE(object)->tp_name, object)).get());
  NoSignals no_signals;  // repr of a long text checks for signals, whose handlers are code of the program
  append(Ref::steal(quoted ? PyObject_Repr(object) : PyObject_Str(object)).get());
}

/// Whether it is an attribute named `_modules`, `_parameters` or `_buffers`.
static bool is_member_table(const Source& source) {
  static PyObject* const names[] = {PyUnicode_InternFromString("_modules"), PyUnicode_InternFromString("_parameters"),
                                    PyUnicode_InternFromString("_buffers")};
  if (source.kind != SourceKind::DictItem || source.parent->kind != SourceKind::InstanceDict) return false;
  return std::any_of(std::begin(names), std::end(names),
                     [&](PyObject* name) { return same_key(source.key.get(), name); });
}

/// Appends the text of an item of an nn.Module's table: it reads as an attribute of the module, or as its item if the
/// name is a number. False for any other source.
static bool append_member(const Source& item, std::string& text) {
  PyObject* key = item.key.get();
  if (!key || !PyUnicode_Check(key) || !is_member_table(*item.parent)) return false;
  const bool is_index = PyUnicode_GET_LENGTH(key) > 0 && Py_UNICODE_ISDIGIT(PyUnicode_READ_CHAR(key, 0));
  item.parent->parent->append_text(text);
  text += is_index ? '[' : '.';
  append_object(key, false, text);
  if (is_index) text += ']';
  return true;
}

static void append_key(const Source& source, bool quoted, std::string& text) {
  if (source.key)
    append_object(source.key.get(), quoted, text);
  else
    text += source.key_text;
}

std::string Source::shown_key(bool quoted) const {
  std::string text;
  append_key(*this, quoted, text);
  return text;
}

/// Columns of source_kinds.def.
namespace {

enum class Missing : uint8_t { Never, Maybe, UnlessKeys, UnlessLength };
enum class PerCall : uint8_t { Yes, No, AsParent, InContainer };
struct SourceRow {
  Missing missing;
  PerCall per_call;
  std::string_view text;
};
constexpr SourceRow kSources[] = {
#define STATOR_SOURCE(name, missing, per_call, load, words, text) {Missing::missing, PerCall::per_call, text},
#include "capture/values/source_kinds.def"
#undef STATOR_SOURCE
};

/// Whether the braces of a row hold names that `fill_in` knows.
constexpr bool is_valid_text(std::string_view text) {
  for (size_t open = text.find('{'); open != text.npos; open = text.find('{')) {
    size_t close = text.find('}');
    if (close == text.npos) return false;
    std::string_view name = text.substr(open + 1, close - open - 1);
    if (name != "parent" && name != "index" && name != "key" && name != "key!r") return false;
    text.remove_prefix(close + 1);
  }
  return true;
}
static_assert(std::all_of(std::begin(kSources), std::end(kSources),
                          [](const SourceRow& row) { return is_valid_text(row.text); }));

const SourceRow& row_of(const Source& source) { return kSources[static_cast<size_t>(source.kind)]; }

bool has_fact(const Source& source, FactKind kind) {
  return std::any_of(source.facts.begin(), source.facts.end(), [&](const Fact& fact) { return fact.kind == kind; });
}

/// Appends the text of a row with the names in braces replaced.
void fill_in(std::string_view text, const Source& source, std::string& filled) {
  while (!text.empty()) {
    size_t open = std::min(text.find('{'), text.size());
    filled += text.substr(0, open);
    text.remove_prefix(open);
    if (text.empty()) break;
    size_t close = text.find('}');
    std::string_view name = text.substr(1, close - 1);
    if (name == "parent") source.parent->append_text(filled);
    if (name == "index") filled += std::to_string(source.index);
    if (name == "key") append_key(source, false, filled);
    if (name == "key!r") append_key(source, true, filled);
    text.remove_prefix(close + 1);
  }
}

}  // namespace

bool may_be_missing(const Source& source) {
  switch (row_of(source).missing) {
    case Missing::Never:
      return false;
    case Missing::Maybe:
      return true;
    case Missing::UnlessKeys:
      return !has_fact(*source.parent, FactKind::Keys);
    case Missing::UnlessLength:
      return !has_fact(*source.parent, FactKind::Length);
  }
  return true;
}

bool is_per_call(const Source& source) {
  switch (row_of(source).per_call) {
    case PerCall::Yes:
      return true;
    case PerCall::No:
      return false;
    case PerCall::AsParent:
      return is_per_call(*source.parent);
    case PerCall::InContainer:
      return source.parent->kind != SourceKind::InstanceDict && source.parent->kind != SourceKind::ClassDict &&
             source.parent->kind != SourceKind::Pinned;
  }
  return true;
}

bool is_from_pinned(const Source& source) {
  const Source* at = &source;
  while (at->parent) at = at->parent;
  return at->kind == SourceKind::Pinned;
}

std::string Source::describe() const {
  std::string text;
  text.reserve(96);  // enough for most paths
  append_text(text);
  return text;
}

void Source::append_text(std::string& text) const {
  // Variables and attributes read as the program writes them.
  const bool is_variable = (kind == SourceKind::Argument && key) ||
                           (kind == SourceKind::Cell && parent->kind == SourceKind::Function) ||
                           (kind == SourceKind::DictItem && parent->kind == SourceKind::Pinned);
  const bool is_attribute =
      kind == SourceKind::DictItem && (parent->kind == SourceKind::InstanceDict ||
                                       parent->kind == SourceKind::ClassDict || parent->kind == SourceKind::ThreadDict);
  if (is_attribute) {
    parent->append_text(text);
    text += '.';
  }
  if (is_variable || is_attribute)
    append_key(*this, false, text);
  else if (kind != SourceKind::DictItem || !append_member(*this, text))
    fill_in(row_of(*this).text, *this, text);
}

}  // namespace stator::capture
