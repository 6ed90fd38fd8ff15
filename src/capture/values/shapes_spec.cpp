#include "capture/values/shapes_spec.h"

#include "capture/pycompat/objects.h"
#include "capture/pycompat/text.h"

namespace stator::capture {
namespace {

bool read_texts(PyObject* spec, const char* name, std::unordered_set<std::string>& texts) {
  const Ref given = Ref::steal(PyObject_GetAttrString(spec, name));
  if (!given) return false;
  if (!PyAnySet_Check(given.get())) return PyErr_SetString(PyExc_TypeError, "not a set"), false;
  pycompat::SetCursor cursor(given.get());
  while (PyObject* text = cursor.next()) texts.insert(text_of(text));
  return true;
}

/// Whether the path begins at an argument. A global or closed-over variable may have the same name as one.
bool is_of_argument(const Source& source) {
  const Source* root = &source;
  while (root->parent) root = root->parent;
  return root->kind == SourceKind::Argument;
}

}  // namespace

std::shared_ptr<const ShapesSpec> ShapesSpec::of(PyObject* spec, PyObject* code) {
  auto made = std::make_shared<ShapesSpec>();
  made->object_ = Ref::borrow(spec);
  made->code_ = Ref::borrow(code);
  if (!read_texts(spec, "ints", made->ints_) || !read_texts(spec, "constants", made->constants_)) return nullptr;
  const Ref tensors = Ref::steal(PyObject_GetAttrString(spec, "tensors"));
  if (!tensors) return nullptr;
  if (!PyDict_Check(tensors.get())) return PyErr_SetString(PyExc_TypeError, "not a dict"), nullptr;
  Py_ssize_t position = 0;
  PyObject *key, *value;
  while (PyDict_Next(tensors.get(), &position, &key, &value)) {
    long long dims;
    unsigned long long varying;
    if (!PyArg_ParseTuple(value, "LK", &dims, &varying)) return nullptr;
    made->tensors_[text_of(key)] = {dims, varying};
  }
  return made;
}

bool ShapesSpec::has_tensor(const Source& source) const {
  return !tensors_.empty() && is_of_argument(source) && tensors_.contains(source.describe());
}

uint64_t ShapesSpec::dimensions(const Source& source, int64_t dims) const {
  if (tensors_.empty() || !is_of_argument(source)) return 0;
  const auto found = tensors_.find(source.describe());
  return found != tensors_.end() && found->second.dims == dims ? found->second.varying : 0;
}

bool ShapesSpec::has_varying_int(const Source& source) const {
  return !ints_.empty() && is_of_argument(source) && ints_.contains(source.describe());
}

bool ShapesSpec::has_constant_int(const Source& source) const {
  return !constants_.empty() && is_of_argument(source) && constants_.contains(source.describe());
}

}  // namespace stator::capture
