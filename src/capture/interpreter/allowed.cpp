#include "capture/interpreter/allowed.h"

namespace stator::capture {

namespace {

/// Where it is kept which callables were allowed, as a set of their addresses.
struct AllowedRow {
  const char *module, *table, *set;  // no set: the table is one
};
constexpr AllowedRow kRows[] = {
    {"stator.allowed", "addresses", nullptr},
    {"torch._dynamo.trace_rules", "_allowed_callable_ids", "function_ids"},
    {"torch._dynamo.trace_rules", "_nonstrict_trace_callable_ids", "function_ids"},
};

}  // namespace

bool is_allowed_in_graph(PyObject* callable) {
  Ref id = Ref::steal(PyLong_FromVoidPtr(callable));
  bool is_allowed = false;
  for (const AllowedRow& row : kRows) {
    // Not imported for this: where it is not, nobody has said so.
    PyObject* module = PyDict_GetItemString(PyImport_GetModuleDict(), row.module);
    Ref table = module ? Ref::steal(PyObject_GetAttrString(module, row.table)) : Ref();
    Ref ids = table && row.set ? Ref::steal(PyObject_GetAttrString(table.get(), row.set)) : std::move(table);
    is_allowed = is_allowed || (ids && PySet_Check(ids.get()) && PySet_Contains(ids.get(), id.get()) == 1);
  }
  PyErr_Clear();
  return is_allowed;
}

}  // namespace stator::capture
