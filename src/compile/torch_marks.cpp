#include "compile/torch_marks.h"

#include <iterator>
#include <unordered_set>

#include "capture/cache/code_cache.h"
#include "compile/watched_dict.h"

namespace stator {
using namespace capture;

namespace {

using Callables = std::unordered_set<const void*>;

/// One of the tables of torch._dynamo.trace_rules. Its attribute `function_ids` is a set of the addresses of marked
/// callables, which torch makes when it first needs it. `function_names` has those that torch marked itself.
struct Table {
  const char* name;
  WatchedDict attributes = {};
  PyObject* set = nullptr;  // owned
  Py_ssize_t size = 0;      // of the set
  Callables known = {};

  bool is_unchanged() const {
    return (!attributes.get() || attributes.is_unchanged()) && (!set || PySet_GET_SIZE(set) == size);
  }

  /// Adds the addresses that are new to `fresh`.
  void look(PyObject* module, Callables& fresh) {
    const Ref table = Ref::steal(PyObject_GetAttrString(module, name));
    const Ref dict = table ? Ref::steal(PyObject_GetAttrString(table.get(), "__dict__")) : Ref();
    PyErr_Clear();
    if (dict.get() != attributes.get()) attributes.watch(dict && PyDict_Check(dict.get()) ? dict.get() : nullptr);
    PyObject* all = attributes.get() ? PyDict_GetItemString(attributes.get(), "function_ids") : nullptr;
    PyObject* own = attributes.get() ? PyDict_GetItemString(attributes.get(), "function_names") : nullptr;
    Py_XSETREF(set, all && PySet_Check(all) ? Py_NewRef(all) : nullptr);
    size = set ? PySet_GET_SIZE(set) : 0;
    attributes.remember();
    Callables now;
    const Ref items = set ? Ref::steal(PySequence_Fast(set, "")) : Ref();
    for (Py_ssize_t i = 0; items && i < PySequence_Fast_GET_SIZE(items.get()); ++i) {
      PyObject* id = PySequence_Fast_GET_ITEM(items.get(), i);
      const void* address = PyLong_AsVoidPtr(id);
      now.insert(address);
      const bool is_torchs = own && PyDict_Check(own) && PyDict_GetItemWithError(own, id);
      if (!is_torchs && !known.contains(address)) fresh.insert(address);
    }
    PyErr_Clear();
    known = std::move(now);
  }
};

struct Tables {
  WatchedDict modules;
  bool is_loaded = false;  // the module that has the tables
  Table tables[3] = {{"_allowed_callable_ids"}, {"_nonstrict_trace_callable_ids"}, {"_disallowed_callable_ids"}};
};
Tables& all_tables() {
  static auto* made = new Tables;
  return *made;
}

}  // namespace

bool may_have_new_marks() {
  const Tables& all = all_tables();
  if (!all.is_loaded) return !all.modules.is_unchanged();
  for (const Table& table : all.tables)
    if (!table.is_unchanged()) return true;
  return false;
}

void note_new_marks() {
  static PyObject* const name = PyUnicode_InternFromString("torch._dynamo.trace_rules");
  Tables& all = all_tables();
  if (!all.modules.get()) all.modules.watch(PyImport_GetModuleDict());
  PyObject* module = stator_dict_get_str(all.modules.get(), name);
  all.modules.remember();
  all.is_loaded = module != nullptr;
  if (!module) return;
  Callables fresh;
  for (Table& table : all.tables) table.look(module, fresh);
  if (!fresh.empty()) drop_marked(fresh);
}

}  // namespace stator
