#include "capture/guards/class_content.h"

#include <algorithm>

#include "capture/guards/literals.h"
#include "capture/pycompat/class_slots.h"
#include "capture/pycompat/facts.h"
#include "capture/pycompat/text.h"

namespace stator::capture {
namespace {

bool is_descriptor(PyObject* object) { return Py_TYPE(object)->tp_descr_get || Py_TYPE(object)->tp_descr_set; }

/// Whether it is `__x__`: CPython looks such names up by itself.
bool is_special(PyObject* name) {
  const Py_ssize_t length = PyUnicode_GET_LENGTH(name);
  auto is_underscore = [&](Py_ssize_t at) { return PyUnicode_READ_CHAR(name, at) == '_'; };
  return length > 4 && is_underscore(0) && is_underscore(1) && is_underscore(length - 2) && is_underscore(length - 1);
}

bool can_be_watched(PyObject* object) { return PyType_SUPPORTS_WEAKREFS(Py_TYPE(object)); }

bool is_property(const PyTypeObject* kind) { return kind == &PyProperty_Type; }
bool is_wrapper(const PyTypeObject* kind) { return kind == &PyStaticMethod_Type || kind == &PyClassMethod_Type; }

/// Reads the functions of a property, static method or class method; false for anything else. New references.
bool read_functions(PyObject* object, Ref (&into)[3]) {
  static PyObject* const names[] = {PyUnicode_InternFromString("fget"), PyUnicode_InternFromString("fset"),
                                    PyUnicode_InternFromString("fdel"), PyUnicode_InternFromString("__func__")};
  const PyTypeObject* kind = Py_TYPE(object);
  if (is_property(kind))
    for (int i = 0; i < 3; ++i) into[i] = Ref::steal(PyObject_GenericGetAttr(object, names[i]));
  else if (is_wrapper(kind))
    into[0] = Ref::steal(PyObject_GenericGetAttr(object, names[3]));
  else
    return false;
  PyErr_Clear();
  return true;
}

/// What a descriptor of a C field, slot or method consists of: parts of the class that defines it. Null for others.
const void* definition_of(PyObject* object) {
  const PyTypeObject* kind = Py_TYPE(object);
  if (kind == &PyMemberDescr_Type) return reinterpret_cast<PyMemberDescrObject*>(object)->d_member;
  if (kind == &PyGetSetDescr_Type) return reinterpret_cast<PyGetSetDescrObject*>(object)->d_getset;
  if (kind == &PyMethodDescr_Type || kind == &PyClassMethodDescr_Type)
    return reinterpret_cast<PyMethodDescrObject*>(object)->d_method;
  if (kind == &PyWrapperDescr_Type) return reinterpret_cast<PyWrapperDescrObject*>(object)->d_base;
  return nullptr;
}

}  // namespace

ClassNames::ClassNames(PyTypeObject* type, std::shared_ptr<const ClassLookups> lookups)
    : type_(type), lookups_(std::move(lookups)) {
  Py_ssize_t position = 0;
  PyObject *key, *object;
  std::vector<std::pair<PyObject*, PyObject*>> counted;
  counted.reserve(static_cast<size_t>(PyDict_GET_SIZE(type->tp_dict)));
  while (PyDict_Next(type->tp_dict, &position, &key, &object))
    if (PyUnicode_CheckExact(key) && counts(key)) counted.emplace_back(key, object);
  items_.reserve(counted.size());
  for (auto [name, found] : counted) {
    Ref held = interned(name);
    Item& item = *items_.insert(held.get(), Item()).first;
    item.name = std::move(held);
    expect(found, item);
  }
  tag_ = stator_type_assign_version(type);
  dict_tag_ = stator_dict_tag(type->tp_dict);
}

bool ClassNames::was_asked(PyObject* name) const {
  return lookups_->contains(name) || lookups_->is_looked_through(type_);
}

bool ClassNames::counts(PyObject* name) const { return is_special(name) || was_asked(name); }

void ClassNames::expect(PyObject* object, Item& item) const {
  PyObject* name = item.name.get();
  item.parts[0] = object;
  const bool uses_object = lookups_->uses_object(name);
  const bool has_source = lookups_->has_source(type_, name);
  Ref functions[3];
  if (PyFunction_Check(object) && !was_asked(name)) {
    item.expect = Expect::Code;
  } else if (!is_descriptor(object) && has_source && !uses_object) {
    item.expect = Expect::Plain;
  } else if (is_literal(object)) {
    item.expect = Expect::Literal;
    item.held[0] = Ref::borrow(object);
  } else if (read_functions(object, functions)) {
    item.expect = Expect::Parts;
    for (int i = 0; i < 3; ++i) {
      item.parts[i] = functions[i].get();
      item.held[i] = std::move(functions[i]);
    }
  } else if (const void* definition = definition_of(object)) {
    item.expect = Expect::Parts;
    item.parts[0] = definition;
    item.parts[1] = reinterpret_cast<PyDescrObject*>(object)->d_type;
    item.held[0] = Ref::borrow(reinterpret_cast<PyObject*>(reinterpret_cast<PyDescrObject*>(object)->d_type));
  } else if (can_be_watched(object) || is_descriptor(object)) {
    item.held[0] = Ref::borrow(object);
  } else {
    // To own a container could keep the class alive that owns it.
    item.expect = uses_object ? Expect::Unknown : Expect::Plain;
  }
  if (item.expect == Expect::Parts) item.kind = Py_TYPE(object);
}

bool ClassNames::is_as(const Item& item, PyObject* object) const {
  switch (item.expect) {
    case Expect::Object:
      return object == item.parts[0];
    case Expect::Literal:
      return literal_equal(object, item.held[0].get());
    case Expect::Code:
      return PyFunction_Check(object);
    case Expect::Plain:
      return !is_descriptor(object);
    case Expect::Unknown:
      return false;
    case Expect::Parts:
      break;
  }
  if (Py_TYPE(object) != item.kind) return false;
  Ref functions[3];
  if (read_functions(object, functions))
    return std::equal(std::begin(functions), std::end(functions), std::begin(item.parts),
                      [](const Ref& function, const void* part) { return function.get() == part; });
  return definition_of(object) == item.parts[0] && reinterpret_cast<PyDescrObject*>(object)->d_type == item.parts[1];
}

/// The first name that is not as expected; borrowed, null if all are.
PyObject* ClassNames::first_change() const {
  size_t seen = 0;
  Py_ssize_t position = 0;
  PyObject *key, *object;
  while (PyDict_Next(type_->tp_dict, &position, &key, &object)) {
    if (!PyUnicode_CheckExact(key)) continue;
    const Item* found = items_.find(PyUnicode_CHECK_INTERNED(key) ? key : interned(key).get());
    if (!found) {
      if (counts(key)) return key;
      continue;
    }
    if (!is_as(*found, object)) return key;
    ++seen;
  }
  if (seen == items_.size()) return nullptr;
  PyObject *any = nullptr, *deleted = nullptr;
  items_.for_each([&](const void*, const Item& item) {
    any = item.name.get();
    if (!stator_dict_get_str(type_->tp_dict, any)) deleted = any;
  });
  return deleted ? deleted : any;
}

std::string ClassNames::difference() const {
  PyObject* name = first_change();
  return name ? std::string(type_->tp_name) + "." + text_of(name) : "";
}

bool ClassNames::hold() {
  if (const unsigned tag = stator_type_version(type_); tag && tag == tag_) return true;
  const uint64_t dict_tag = stator_dict_tag(type_->tp_dict);
  if (!(dict_tag && dict_tag == dict_tag_) && first_change()) return false;
  dict_tag_ = dict_tag;
  tag_ = stator_type_assign_version(type_);
  return true;
}

void ClassNames::release(const Watch& watch) {
  if (std::exchange(released_, true)) return;
  items_.for_each([&](const void*, Item& item) {
    if (item.expect == Expect::Literal) return;
    for (Ref& object : item.held)
      if (object && watch(object.get())) object = Ref();
  });
}

ClassContent::ClassContent(PyTypeObject* type, unsigned tag, std::vector<std::shared_ptr<ClassNames>> names)
    : type_(type), tag_(tag), is_known_(stator_type_assign_version(type) == tag), names_(std::move(names)) {
  auto list = [](PyObject* tuple, std::vector<PyObject*>& into) {
    into.reserve(static_cast<size_t>(PyTuple_GET_SIZE(tuple)));
    for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(tuple); ++i) into.push_back(PyTuple_GET_ITEM(tuple, i));
  };
  list(type->tp_mro, mro_);
  list(type->tp_bases, bases_);
  held_.reserve(mro_.size());
  for (PyObject* base : mro_) held_.push_back(Ref::borrow(base));
  name_ = Ref::borrow(reinterpret_cast<PyHeapTypeObject*>(type)->ht_name);
  qualname_ = Ref::borrow(reinterpret_cast<PyHeapTypeObject*>(type)->ht_qualname);
  slots_.reserve(80);  // about as many as there are
  pycompat::each_slot(type, [&](uintptr_t word) { return slots_.push_back(word), true; });
}

unsigned ClassContent::present_tag() const { return stator_type_version(type_); }

/// The tag changed: if the content did not, the new tag is accepted from now on.
bool ClassContent::compare_again() {
  if (!is_known_ || (failed_tag_ && present_tag() == failed_tag_)) return false;
  const bool holds = compare();
  const unsigned tag = stator_type_assign_version(type_);
  (holds ? tag_ : failed_tag_) = tag;
  return holds;
}

bool ClassContent::has_same_bases() const {
  auto is_same = [](PyObject* tuple, const std::vector<PyObject*>& wanted) {
    return tuple && std::equal(wanted.begin(), wanted.end(), reinterpret_cast<PyTupleObject*>(tuple)->ob_item,
                               reinterpret_cast<PyTupleObject*>(tuple)->ob_item + PyTuple_GET_SIZE(tuple));
  };
  return is_same(type_->tp_mro, mro_) && is_same(type_->tp_bases, bases_);
}

bool ClassContent::compare() {
  const auto* heap = reinterpret_cast<PyHeapTypeObject*>(type_);
  if (!has_same_bases() || !literal_equal(heap->ht_name, name_.get())) return false;
  if (!literal_equal(heap->ht_qualname, qualname_.get())) return false;
  if (!std::all_of(names_.begin(), names_.end(), [](auto& names) { return names->hold(); })) return false;
  auto wanted = slots_.begin();
  return pycompat::each_slot(type_, [&](uintptr_t word) { return word == *wanted++; });
}

std::string ClassContent::difference() const {
  if (!has_same_bases()) return "other bases";
  for (const auto& names : names_)
    if (std::string found = names->difference(); !found.empty()) return "another " + found;
  return "a class that was changed";
}

void ClassContent::release(const Watch& watch) {
  for (auto& names : names_) names->release(watch);
  std::erase_if(held_, [&](const Ref& base) { return watch(base.get()); });
}

std::shared_ptr<ClassContent> ClassContents::of(PyTypeObject* type, unsigned tag) {
  std::vector<std::shared_ptr<ClassNames>> names;
  for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(type->tp_mro); ++i) {
    auto* base = reinterpret_cast<PyTypeObject*>(PyTuple_GET_ITEM(type->tp_mro, i));
    if (!PyType_Check(base) || !is_changeable(base)) continue;
    auto& known = names_[base];
    if (!known) known = std::make_shared<ClassNames>(base, lookups_);
    names.push_back(known);
  }
  return std::make_shared<ClassContent>(type, tag, std::move(names));
}

}  // namespace stator::capture
