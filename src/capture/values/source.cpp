#include "capture/values/source.h"

#include "capture/pycompat/evaluation.h"

namespace stator::capture {

static bool same_key(PyObject* a, PyObject* b) {
  if (a == b) return true;
  if (!a || !b || Py_TYPE(a) != Py_TYPE(b)) return false;
  if (PyUnicode_CheckExact(a)) return PyUnicode_Compare(a, b) == 0;
  if (PyLong_CheckExact(a)) return PyObject_RichCompareBool(a, b, Py_EQ) == 1;
  return false;
}

Source* SourceTree::make(SourceKind kind, Source* parent, int32_t index, PyObject* key, PyObject* object) {
  arena_.push_back(Source{kind, parent, index, Ref::borrow(key), {}, Ref::borrow(object), {}, {}});
  Source* made = &arena_.back();
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

Source* SourceTree::pinned(PyObject* object, const char* what) {
  auto [found, fresh] = pinned_.try_emplace(object, nullptr);
  if (fresh) {
    Ref name = Ref::steal(PyUnicode_FromString(what));
    found->second = make(SourceKind::Pinned, nullptr, 0, name.get(), object);
  }
  return found->second;
}

Source* SourceTree::child(Source* parent, SourceKind kind, int32_t index, PyObject* key, PyObject* object) {
  if (parent->children.size() < 8) {
    for (Source* child : parent->children)
      if (child->kind == kind && child->index == index && same_key(child->key.get(), key)) return child;
    return make(kind, parent, index, key, object);
  }
  auto& index_map = wide_[parent];
  Py_hash_t hash = key ? PyObject_Hash(key) : 0;
  uint64_t code = (static_cast<uint64_t>(hash) * 31 + static_cast<uint64_t>(index)) * 31 + static_cast<uint64_t>(kind);
  if (index_map.empty())
    for (Source* child : parent->children) {
      Py_hash_t h = child->key ? PyObject_Hash(child->key.get()) : 0;
      index_map.emplace((static_cast<uint64_t>(h) * 31 + static_cast<uint64_t>(child->index)) * 31 +
                            static_cast<uint64_t>(child->kind),
                        child);
    }
  auto [first, last] = index_map.equal_range(code);
  for (; first != last; ++first) {
    Source* child = first->second;
    if (child->kind == kind && child->index == index && same_key(child->key.get(), key)) return child;
  }
  Source* made = make(kind, parent, index, key, object);
  index_map.emplace(code, made);
  return made;
}

void SourceTree::add_fact(Source* source, Fact fact) {
  for (const Fact& known : source->facts)
    if (known.kind == fact.kind && known.number == fact.number && known.other == fact.other &&
        known.extra.get() == fact.extra.get() &&
        (known.object.get() == fact.object.get() || same_key(known.object.get(), fact.object.get())))
      return;
  source->facts.push_back(std::move(fact));
}

static std::string text_of(PyObject* object, bool quoted) {
  // The text of an instance of a class written in Python is code of the program's.
  if (Py_TYPE(object)->tp_flags & Py_TPFLAGS_HEAPTYPE) {
    Ref plain = Ref::steal(PyUnicode_FromFormat("<%s object at %p>", Py_TYPE(object)->tp_name, object));
    return plain ? PyUnicode_AsUTF8(plain.get()) : "?";
  }
  NoSignals quiet;  // their handlers run while text is made
  Ref text = Ref::steal(quoted ? PyObject_Repr(object) : PyObject_Str(object));
  const char* chars = text ? PyUnicode_AsUTF8(text.get()) : nullptr;
  if (!chars) PyErr_Clear();
  return chars ? chars : "?";
}

static bool is_item_named(const Source* source, const char* name) {
  return source && source->kind == SourceKind::DictItem && source->key && PyUnicode_Check(source->key.get()) &&
         PyUnicode_CompareWithASCIIString(source->key.get(), name) == 0;
}

/// What a module keeps in a table of its own reads as its attribute, or as its item where the name is a number.
static std::string describe_member(const Source* item) {
  const Source* table = item->parent;
  for (const char* name : {"_modules", "_parameters", "_buffers"}) {
    if (!is_item_named(table, name) || table->parent->kind != SourceKind::InstanceDict) continue;
    if (!item->key || !PyUnicode_Check(item->key.get())) return "";
    bool is_number =
        PyUnicode_GET_LENGTH(item->key.get()) > 0 && Py_UNICODE_ISDIGIT(PyUnicode_READ_CHAR(item->key.get(), 0));
    std::string key = text_of(item->key.get(), false);
    return table->parent->describe() + (is_number ? "[" + key + "]" : "." + key);
  }
  return "";
}

std::string Source::shown_key(bool quoted) const { return key ? text_of(key.get(), quoted) : key_text; }

std::string Source::describe() const {
  switch (kind) {
    case SourceKind::Argument:
      return key ? shown_key(false) : "argument " + std::to_string(index);
    case SourceKind::Function:
      return "<function>";
    case SourceKind::Pinned:
      return shown_key(false);
    case SourceKind::InstanceDict:
      return parent->describe();
    case SourceKind::DictItem:
      if (parent->kind == SourceKind::InstanceDict || parent->kind == SourceKind::ThreadDict)
        return parent->describe() + "." + shown_key(false);
      if (parent->kind == SourceKind::Pinned) return shown_key(false);
      if (std::string member = describe_member(this); !member.empty()) return member;
      return parent->describe() + "[" + shown_key(true) + "]";
    case SourceKind::Attribute:
      return parent->describe() + "." + shown_key(false);
    case SourceKind::Item:
      return parent->describe() + "[" + std::to_string(index) + "]";
    case SourceKind::Cell:
      if (parent->kind == SourceKind::Function) return shown_key(false);
      return parent->describe() + ".__closure__[" + shown_key(true) + "]";
    case SourceKind::CellContents:
      return parent->describe();
    case SourceKind::Default:
      return parent->describe() + ".__defaults__[" + std::to_string(index) + "]";
    case SourceKind::KwDefault:
      return parent->describe() + ".__kwdefaults__[" + shown_key(true) + "]";
    case SourceKind::BoundFunction:
      return parent->describe() + ".__func__";
    case SourceKind::BoundSelf:
      return parent->describe() + ".__self__";
    case SourceKind::Type:
      return "type(" + parent->describe() + ")";
    case SourceKind::Gradient:
      return parent->describe() + ".grad";
    case SourceKind::Referent:
      return parent->describe() + "()";
    case SourceKind::Upcoming:
      return parent->describe() + ".next[" + std::to_string(index) + "]";
    case SourceKind::UpcomingKey:
      return parent->describe() + ".next_key[" + std::to_string(index) + "]";
    case SourceKind::Counter:
      return parent->describe() + ".count[" + std::to_string(index) + "]";
    case SourceKind::Asked:
      return parent->describe() + ".iterator[" + std::to_string(index) + "]";
    case SourceKind::Iterated:
      return parent->describe() + ".iterated";
    case SourceKind::FunctionMode:
      return "<torch-function mode " + std::to_string(index) + ">";
    case SourceKind::Proxied:
    case SourceKind::ThreadDict:
      return parent->describe();
    case SourceKind::Cached:
      return parent->describe() + ".cached[" + shown_key(true) + "]";
  }
  return "?";
}

}  // namespace stator::capture
