#include "compile/guard_callbacks.h"

#include <unordered_set>

#include "capture/guards/describe.h"
#include "capture/guards/filter.h"
#include "capture/interpreter/state/known_types.h"

namespace stator {
using namespace capture;

namespace {

/// The class of the innermost torch.nn.Module on the path to a source, the object at the source included; null: none.
PyTypeObject* module_on_path(const Source& source) {
  for (const Source* at = &source; at; at = at->parent)
    if (at->object && PyObject_TypeCheck(at->object.get(), module_class())) return Py_TYPE(at->object.get());
  return nullptr;
}

Ref row_of(const Source& source, const Fact& fact) {
  PyObject* value = source.object ? source.object.get() : Py_None;
  PyObject* global = is_global(source) ? Py_True : Py_False;
  const char* kind = name_of(fact.kind);
  PyTypeObject* module = module_on_path(source);
  return Ref::steal(Py_BuildValue("(ssOOsO)", source.describe().c_str(), kind, value, global,
                                  describe_fact(source, fact).c_str(),
                                  module ? reinterpret_cast<PyObject*>(module) : Py_None));
}

}  // namespace

Ref GuardCallbacks::rows_of(const SourceTree& tree) {
  Ref rows = Ref::steal(PyList_New(0));
  for (auto [source, fact] : facts_of(tree)) {
    Ref row = row_of(*source, *fact);
    if (!rows || !row || PyList_Append(rows.get(), row.get()) < 0) return Ref();
  }
  return rows;
}

bool GuardCallbacks::apply_filter(const SourceTree& tree) const {
  if (!filter) return true;
  Ref rows = rows_of(tree);
  Ref answer = rows ? Ref::steal(PyObject_CallOneArg(filter.get(), rows.get())) : Ref();
  Ref flags = answer ? Ref::steal(PySequence_Tuple(answer.get())) : Ref();
  if (!flags) return false;
  auto facts = facts_of(tree);
  if (PyTuple_GET_SIZE(flags.get()) != static_cast<Py_ssize_t>(facts.size())) {
    PyErr_SetString(PyExc_ValueError, "guard_filter_fn gave another number of answers than there are guards");
    return false;
  }
  std::unordered_set<const Fact*> unwanted;
  for (size_t i = 0; i < facts.size(); ++i) {
    int truth = PyObject_IsTrue(PyTuple_GET_ITEM(flags.get(), static_cast<Py_ssize_t>(i)));
    if (truth < 0) return false;
    if (!truth) unwanted.insert(facts[i].second);
  }
  drop_facts(tree, [&](const Fact* fact) { return unwanted.contains(fact); });
  return true;
}

bool GuardCallbacks::tell_failures(const std::vector<std::string>& reasons, PyCodeObject* code) const {
  if (!failed) return true;
  for (const std::string& reason : reasons) {
    Ref told = Ref::steal(PyObject_CallFunction(failed.get(), "sO", reason.c_str(), code));
    if (!told) return false;
  }
  return true;
}

}  // namespace stator
