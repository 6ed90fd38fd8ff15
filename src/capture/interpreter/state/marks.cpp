#include "capture/interpreter/state/marks.h"

#include <algorithm>
#include <span>
#include <string>
#include <string_view>

#include "capture/interpreter/state/known_types.h"
#include "capture/pycompat/text.h"

namespace stator::capture {
namespace {

constexpr const char* kOwn = "stator.marks";
constexpr const char* kRules = "torch._dynamo.trace_rules";

/// A table of the addresses of all callables with a mark.
struct MarkRow {
  const char *module, *table, *set;  // `set` is null if the table itself is the set
};
constexpr MarkRow kAllowed[] = {
    {kOwn, "allowed", nullptr},
    {kRules, "_allowed_callable_ids", "function_ids"},
    {kRules, "_nonstrict_trace_callable_ids", "function_ids"},
};
constexpr MarkRow kDisallowed[] = {
    {kOwn, "disallowed", nullptr},
    {kRules, "_disallowed_callable_ids", "function_ids"},
};

Ref attribute(const Ref& object, const char* name) {
  Ref found = object ? Ref::steal(PyObject_GetAttrString(object.get(), name)) : Ref();
  if (!found) PyErr_Clear();
  return found;
}

/// The module if it is imported, otherwise null: a module that is not imported has set no marks.
Ref loaded(const char* module) { return Ref::borrow(PyDict_GetItemString(PyImport_GetModuleDict(), module)); }

std::vector<Ref> sets_of(std::span<const MarkRow> rows) {
  std::vector<Ref> sets;
  for (const MarkRow& row : rows) {
    Ref found = attribute(loaded(row.module), row.table);
    if (row.set) found = attribute(found, row.set);
    if (found && PySet_Check(found.get()) && PySet_GET_SIZE(found.get()) > 0) sets.push_back(std::move(found));
  }
  return sets;
}

Ref dict_or_null(Ref object) { return object && PyDict_Check(object.get()) ? std::move(object) : Ref(); }

/// Whether looking the callable up in a dict runs no code of the program.
bool has_plain_hash(PyObject* callable) {
  return PyFunction_Check(callable) || PyCFunction_CheckExact(callable) || Py_IS_TYPE(callable, &PyType_Type) ||
         Py_IS_TYPE(callable, &PyMethodDescr_Type);
}

Ref found_in(const Ref& table, PyObject* callable) {
  return table ? Ref::borrow(PyDict_GetItemWithError(table.get(), callable)) : Ref();
}

}  // namespace

Marks::Marks()
    : allowed_(sets_of(kAllowed)),
      disallowed_(sets_of(kDisallowed)),
      own_substitutes_(dict_or_null(attribute(loaded(kOwn), "substitutes"))) {
  Ref handlers = attribute(attribute(loaded("torch._dynamo.variables.functions"), "PolyfilledFunctionVariable"),
                           "_get_polyfill_handlers");
  torch_substitutes_ = dict_or_null(handlers ? Ref::steal(PyObject_CallNoArgs(handlers.get())) : Ref());
  PyErr_Clear();
}

bool Marks::contains(const Sets& sets, PyObject* callable) {
  if (sets.empty()) return false;
  Ref address = Ref::steal(PyLong_FromVoidPtr(callable));
  return std::any_of(sets.begin(), sets.end(),
                     [&](const Ref& set) { return PySet_Contains(set.get(), address.get()) == 1; });
}

bool Marks::is_disallowed(PyObject* callable) const {
  asked_.insert(callable);
  if (!contains(disallowed_, callable)) return false;
  // Torch's `graph_break` and the like are marked too, and have models.
  for (const char* modelled : {"graph_break", "skip_frame", "step_unsupported"})
    if (callable == known_object((std::string("torch._dynamo.decorators.") + modelled).c_str())) return false;
  return true;
}

Ref Marks::substitute_of(PyObject* callable) const {
  if (!has_plain_hash(callable)) return {};
  if (Ref own = found_in(own_substitutes_, callable)) return own;
  Ref substitute = attribute(found_in(torch_substitutes_, callable), "__torch_dynamo_polyfill__");
  Ref module = attribute(substitute, "__module__");
  // Functions that torch itself substitutes have models.
  const bool is_named = module && PyUnicode_Check(module.get());
  return is_named && !text_of(module.get()).starts_with("torch._dynamo.") ? std::move(substitute) : Ref();
}

}  // namespace stator::capture
