#include "capture/cache/seen_arguments.h"

#include <c10/core/Layout.h>

#include <algorithm>

#include "capture/pycompat/text.h"
#include "capture/tensors/tensor_object.h"

namespace stator::capture {
namespace {

// Beyond these limits nothing is noted: what changes there is symbolic one capture later.
constexpr int kMaxLevel = 4;
constexpr size_t kMaxSources = 512;
constexpr Py_ssize_t kMaxItems = 512;  // of one container

std::string text_of_key(PyObject* key) {
  const Ref text = PyUnicode_CheckExact(key) || PyLong_CheckExact(key) ? Ref::steal(PyObject_Repr(key)) : Ref();
  if (!text) PyErr_Clear();
  return text_of(text.get(), "");
}

std::string text_of_number(double number) {
  const Ref value = Ref::steal(PyFloat_FromDouble(number));
  const Ref text = value ? Ref::steal(PyObject_Repr(value.get())) : Ref();
  if (!text) PyErr_Clear();
  return text_of(text.get());
}

std::string item_source(std::string container, const std::string& key) {
  container.append("[").append(key).append("]");
  return container;
}

}  // namespace

SeenArguments::SeenArguments(const pycompat::Code& code, PyObject* const* slots) {
  const int count = code.parameter_slots();
  for (int i = 0; i < count; ++i)
    if (slots[i]) look_at(text_of(PyTuple_GET_ITEM(code.localsplus_names, i)), slots[i], 0);
}

void SeenArguments::look_at(const std::string& source, PyObject* object, int level) {
  if (level > kMaxLevel || sizes_.size() + ints_.size() + floats_.size() >= kMaxSources) return;
  if (is_tensor_object(object)) {
    const at::Tensor& tensor = tensor_of(object);
    const bool is_plain = tensor.defined() && tensor.layout() == c10::kStrided && !tensor.is_nested() &&
                          !tensor.unsafeGetTensorImpl()->has_symbolic_sizes_strides();
    if (is_plain) sizes_[source] = tensor.sizes().vec();
  } else if (PyLong_CheckExact(object)) {
    int overflow = 0;
    const long long number = PyLong_AsLongLongAndOverflow(object, &overflow);
    if (overflow == 0) ints_[source] = number;
  } else if (PyFloat_CheckExact(object)) {
    floats_[source] = PyFloat_AS_DOUBLE(object);
  } else if (PyList_CheckExact(object) || PyTuple_CheckExact(object)) {
    for (Py_ssize_t i = 0; i < std::min(PySequence_Fast_GET_SIZE(object), kMaxItems); ++i)
      look_at(item_source(source, std::to_string(i)), PySequence_Fast_GET_ITEM(object, i), level + 1);
  } else if (PyDict_CheckExact(object)) {
    Py_ssize_t position = 0;
    PyObject *key, *value;
    while (position < kMaxItems && PyDict_Next(object, &position, &key, &value))
      if (const std::string text = text_of_key(key); !text.empty())
        look_at(item_source(source, text), value, level + 1);
  }
}

void SeenArguments::add_changes(const SeenArguments& later, Varying& sources, std::vector<std::string>& texts) const {
  auto tell = [&](const std::string& source, const std::string& before, const std::string& now) {
    texts.push_back(source + ": " + before + ", now " + now);
  };
  for (const auto& [source, sizes] : later.sizes_) {
    const auto before = sizes_.find(source);
    if (before == sizes_.end() || before->second.size() != sizes.size()) continue;
    for (size_t dim = 0; dim < sizes.size() && dim < 64; ++dim) {
      // Sizes 0 and 1 decide how tensors broadcast, so that they are captured apart.
      if (sizes[dim] < 2 || before->second[dim] == sizes[dim]) continue;
      sources.sizes.add(source, uint64_t{1} << dim);
      tell(size_text(source, static_cast<int64_t>(dim)), std::to_string(before->second[dim]),
           std::to_string(sizes[dim]));
    }
  }
  for (const auto& [source, number] : later.ints_)
    if (const auto before = ints_.find(source); before != ints_.end() && before->second != number) {
      sources.ints.insert(source);
      tell(source, std::to_string(before->second), std::to_string(number));
    }
  for (const auto& [source, number] : later.floats_)
    if (const auto before = floats_.find(source); before != floats_.end() && before->second != number) {
      sources.floats.insert(source);
      tell(source, text_of_number(before->second), text_of_number(number));
    }
}

}  // namespace stator::capture
