#include "capture/values/source_patterns.h"

#include <charconv>

#include "capture/pycompat/evaluation.h"

namespace stator::capture {
namespace {

/// Torch's name of a source: the argument or global at its root is written as an item.
std::string torch_name(const Source& source, const std::string& name) {
  const Source* root = &source;
  while (root->parent) root = root->parent;
  const std::string first =
      root->kind == SourceKind::Argument ? root->describe() : name.substr(0, name.find_first_of(".["));
  if (!name.starts_with(first)) return name;
  return (root->kind == SourceKind::Argument ? "L['" : "G['") + first + "']" + name.substr(first.size());
}

}  // namespace

SourcePatterns::SourcePatterns(const std::string& list) {
  Ref module = Ref::steal(PyImport_ImportModule("re"));
  for (size_t first = 0; module && first < list.size();) {
    const size_t end = std::min(list.find(',', first), list.size());
    std::string text = list.substr(first, end - first);
    first = end + 1;
    std::erase(text, ' ');
    if (text.empty()) continue;
    int dim = -1;
    if (const size_t colon = text.rfind(':'); colon != std::string::npos && colon > 0) {
      const char* last = text.data() + text.size();
      int number = 0;
      if (auto [at, error] = std::from_chars(text.data() + colon + 1, last, number);
          error == std::errc() && at == last) {
        dim = number;
        text.resize(colon);
      }
    }
    const Ref compiled = Ref::steal(PyObject_CallMethod(module.get(), "compile", "s", text.c_str()));
    Ref match = compiled ? Ref::steal(PyObject_GetAttrString(compiled.get(), "match")) : Ref();
    if (match) rows_.push_back({std::move(text), std::move(match), dim});
  }
}

uint64_t SourcePatterns::dimensions(const Source& source) const {
  if (rows_.empty()) return 0;
  NoSignals no_signals;
  const std::string name = source.describe(), other = torch_name(source, name);
  uint64_t dims = 0;
  for (const Row& row : rows_) {
    auto fits = [&](const std::string& text) {
      const Ref found =
          text == row.text ? Ref() : Ref::steal(PyObject_CallFunction(row.match.get(), "s", text.c_str()));
      if (PyErr_Occurred()) PyErr_Clear();
      return text == row.text || (found && found.get() != Py_None);
    };
    if (fits(name) || fits(other)) dims |= row.dim < 0 ? ~uint64_t{0} : row.dim < 64 ? uint64_t{1} << row.dim : 0;
  }
  return dims;
}

}  // namespace stator::capture
