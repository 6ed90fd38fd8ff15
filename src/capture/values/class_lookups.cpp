#include "capture/values/class_lookups.h"

#include "capture/pycompat/facts.h"

namespace stator::capture {
namespace {

thread_local ClassLookups* current = nullptr;

PyObject* recorded(PyTypeObject* type, PyObject* name, ClassLookups::Use use) {
  PyObject* found = _PyType_Lookup(type, name);
  if (!current) return found;
  current->add(type, name, use);
  if (found) current->add_class(Py_TYPE(found));
  return found;
}

}  // namespace

ClassLookups::Scope::Scope(ClassLookups& lookups) : outer_(current) { current = &lookups; }
ClassLookups::Scope::~Scope() { current = outer_; }

Ref interned(PyObject* name) {
  if (PyUnicode_CHECK_INTERNED(name)) return Ref::borrow(name);
  PyObject* text = PyUnicode_CheckExact(name) ? Py_NewRef(name) : PyUnicode_FromObject(name);
  PyUnicode_InternInPlace(&text);
  return Ref::steal(text);
}

void ClassLookups::add(PyObject* name, Use use) {
  const Name* known = names_.find(name);
  if (known && (known->uses_object || use != Use::Object)) return;
  Ref key = interned(name);
  Name& added = *names_.insert(key.get(), Name()).first;
  added.held = std::move(key);
  if (use == Use::Object) added.uses_object = true;
}

void ClassLookups::add(PyTypeObject* type, PyObject* name, Use use) {
  const uintptr_t mixed = (reinterpret_cast<uintptr_t>(type) >> 4) ^ (reinterpret_cast<uintptr_t>(name) >> 4);
  Lookup& recent = recent_[mixed % recent_.size()];
  if (recent.type == type && recent.name == name && (recent.use == use || recent.use == Use::Object)) return;
  add(name, use);
  add_class(type);
  // Only where the address of neither can be used again: changeable classes are owned, static ones live forever.
  if (PyUnicode_CHECK_INTERNED(name) && (is_changeable(type) || !(type->tp_flags & Py_TPFLAGS_HEAPTYPE)))
    recent = {type, name, use};
}

void ClassLookups::add_class(PyTypeObject* type) {
  if (type == last_class_ || !is_changeable(type)) return;
  last_class_ = type;
  if (!known_classes_.insert(type, true).second) return;
  classes_.push_back({Ref::borrow(reinterpret_cast<PyObject*>(type)), stator_type_assign_version(type)});
}

void ClassLookups::add_source(PyTypeObject* owner, PyObject* name) {
  add(name, Use::Presence);
  sources_[owner].insert(interned(name).get());
}

const ClassLookups::Name* ClassLookups::find(PyObject* name) const {
  return names_.find(PyUnicode_CHECK_INTERNED(name) ? name : interned(name).get());
}

void ClassLookups::add_names(const ClassLookups& other) {
  other.names_.for_each(
      [&](const void*, const Name& name) { add(name.held.get(), name.uses_object ? Use::Object : Use::Presence); });
  for (auto& [owner, names] : other.sources_) sources_[owner].insert(names.begin(), names.end());
  looked_through_.insert(other.looked_through_.begin(), other.looked_through_.end());
}

bool ClassLookups::contains(PyObject* name) const { return find(name) != nullptr; }

bool ClassLookups::uses_object(PyObject* name) const {
  const Name* found = find(name);
  return found && found->uses_object;
}

bool ClassLookups::has_source(PyTypeObject* owner, PyObject* name) const {
  auto found = sources_.find(owner);
  return found != sources_.end() && found->second.contains(interned(name).get());
}

PyObject* look_up(PyTypeObject* type, PyObject* name) { return recorded(type, name, ClassLookups::Use::Object); }

PyObject* look_up_attribute(PyTypeObject* type, PyObject* name) {
  return recorded(type, name, ClassLookups::Use::Presence);
}

PyObject* look_up_own(PyTypeObject* type, PyObject* name) {
  if (current) current->add(name, ClassLookups::Use::Presence);
  if (type->tp_dict) return PyDict_GetItemWithError(type->tp_dict, name);
  // Static built-in classes may have no `tp_dict`.
  Ref dict = Ref::steal(PyObject_GetAttrString(reinterpret_cast<PyObject*>(type), "__dict__"));
  Ref found = dict ? Ref::steal(PyObject_GetItem(dict.get(), name)) : Ref();
  PyErr_Clear();
  return found.get();
}

}  // namespace stator::capture
