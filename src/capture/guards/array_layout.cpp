#include "capture/guards/array_layout.h"

#include <string>
#include <string_view>

namespace stator::capture {
namespace {

bool read_layout(PyObject* array, std::string& into) {
  Py_buffer view;
  if (PyObject_GetBuffer(array, &view, PyBUF_STRIDES | PyBUF_FORMAT | PyBUF_WRITABLE) < 0) {
    PyErr_Clear();
    return false;
  }
  into.assign(view.format ? view.format : "B");
  into.push_back('\0');
  auto add = [&](const Py_ssize_t* numbers) {
    into.append(reinterpret_cast<const char*>(numbers), sizeof(Py_ssize_t) * static_cast<size_t>(view.ndim));
  };
  if (view.ndim > 0) {
    add(view.shape);
    add(view.strides);
  }
  PyBuffer_Release(&view);
  return true;
}

}  // namespace

Ref array_layout(PyObject* array) {
  std::string text;
  if (!read_layout(array, text)) return {};
  return Ref::steal(PyBytes_FromStringAndSize(text.data(), static_cast<Py_ssize_t>(text.size())));
}

MemoryRange array_memory(PyObject* array) {
  Py_buffer view;
  if (PyObject_GetBuffer(array, &view, PyBUF_STRIDES) < 0) {
    PyErr_Clear();
    return {};
  }
  const auto data = reinterpret_cast<uintptr_t>(view.buf);
  MemoryRange range{data, data + static_cast<uintptr_t>(view.itemsize), data, array};
  for (int i = 0; i < view.ndim; ++i) {
    const Py_ssize_t reach = view.shape[i] > 0 ? (view.shape[i] - 1) * view.strides[i] : 0;
    (reach < 0 ? range.begin : range.end) += static_cast<uintptr_t>(reach);
    if (view.shape[i] == 0) range = {};
    if (view.shape[i] == 0) break;
  }
  PyBuffer_Release(&view);
  return range;
}

bool has_layout(PyObject* array, PyObject* layout) {
  std::string text;
  return read_layout(array, text) &&
         text == std::string_view(PyBytes_AS_STRING(layout), static_cast<size_t>(PyBytes_GET_SIZE(layout)));
}

}  // namespace stator::capture
