#include "capture/pycompat/text.h"

namespace stator {

static std::string encoded(PyObject* object, const char* how, std::string_view otherwise) {
  if (!object || !PyUnicode_Check(object)) return std::string(otherwise);
  if (PyUnicode_IS_READY(object) && PyUnicode_IS_COMPACT_ASCII(object))
    return {static_cast<const char*>(PyUnicode_DATA(object)), static_cast<size_t>(PyUnicode_GET_LENGTH(object))};
  LaterError kept;
  kept.take();
  Ref bytes = Ref::steal(PyUnicode_AsEncodedString(object, "utf-8", how));
  if (!bytes) {  // there is no memory
    PyErr_Clear();
    return std::string(otherwise);
  }
  return {PyBytes_AS_STRING(bytes.get()), static_cast<size_t>(PyBytes_GET_SIZE(bytes.get()))};
}

std::string text_of(PyObject* object, std::string_view otherwise) {
  return encoded(object, "backslashreplace", otherwise);
}

std::string exact_text_of(PyObject* str) { return encoded(str, "surrogatepass", "?"); }

Ref exact_str(std::string_view text) {
  const auto size = static_cast<Py_ssize_t>(text.size());
  LaterError kept;
  kept.take();
  if (Ref made = Ref::steal(PyUnicode_DecodeUTF8(text.data(), size, "surrogatepass"))) return made;
  PyErr_Clear();
  return Ref::steal(PyUnicode_DecodeUTF8(text.data(), size, "replace"));
}

}  // namespace stator
