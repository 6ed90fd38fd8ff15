#include "capture/interpreter/state/known_types.h"

#include <algorithm>
#include <cstring>
#include <string>
#include <unordered_map>
#include <vector>

#include "capture/pycompat/objects.h"
#include "capture/values/class_lookups.h"

namespace stator::capture {

PyObject* known_object(const char* path) {
  static std::unordered_map<std::string, PyObject*> known;
  auto found = known.find(path);
  if (found != known.end()) return found->second;
  // The longest importable prefix is the module; the rest are attributes.
  std::string text(path);
  for (size_t cut = text.rfind('.'); cut != std::string::npos;
       cut = cut ? text.rfind('.', cut - 1) : std::string::npos) {
    Ref module_name = Ref::steal(PyUnicode_FromString(text.substr(0, cut).c_str()));
    Ref object = Ref::borrow(PyImport_GetModule(module_name.get()));
    if (object) Py_DECREF(object.get());  // PyImport_GetModule returns a new reference; sys.modules owns one
    PyErr_Clear();
    if (!object && cut == text.find('.')) {
      object = Ref::steal(PyImport_Import(module_name.get()));
      PyErr_Clear();
    }
    if (!object) continue;
    for (size_t at = cut + 1; object && at <= text.size();) {
      size_t dot = text.find('.', at);
      if (dot == std::string::npos) dot = text.size();
      std::string name = text.substr(at, dot - at);
      if (PyModule_Check(object.get())) {
        // Do not use getattr: it would make modules load parts of themselves on demand.
        object = Ref::borrow(PyDict_GetItemString(PyModule_GetDict(object.get()), name.c_str()));
      } else if (PyType_Check(object.get())) {
        Ref key = Ref::steal(PyUnicode_FromString(name.c_str()));
        PyObject* raw = _PyType_Lookup(object.as<PyTypeObject>(), key.get());
        // The interpreter meets methods as descriptors.
        object = raw && !PyObject_TypeCheck(raw, &PyStaticMethod_Type)
                     ? Ref::borrow(raw)
                     : Ref::steal(PyObject_GetAttrString(object.get(), name.c_str()));
      } else {
        object = Ref::steal(PyObject_GetAttrString(object.get(), name.c_str()));
      }
      PyErr_Clear();
      at = dot + 1;
    }
    if (!object) continue;
    // The import may have run code that looked it up: there is one pointer for each path.
    const auto [kept, is_first] = known.try_emplace(path, object.get());
    if (is_first) object.release();
    return kept->second;
  }
  return nullptr;
}

PyObject* known_operator(const char* name) {
  static std::unordered_map<std::string, PyObject*> known;
  PyObject*& operation = known[name];
  if (!operation) {
    // torch.ops makes its members on first access.
    Ref object = Ref::borrow(known_object("torch.ops"));
    for (const char* part : {"aten", name, "default"})
      object = object ? Ref::steal(PyObject_GetAttrString(object.get(), part)) : Ref();
    PyErr_Clear();
    if (!operation) operation = object.release();
  }
  return operation;
}

static PyTypeObject* known_type(const char* path) { return reinterpret_cast<PyTypeObject*>(known_object(path)); }

PyTypeObject* ordered_dict_type() { return &PyODict_Type; }
PyTypeObject* default_dict_type() {
  static PyTypeObject* t = known_type("collections.defaultdict");
  return t;
}
PyTypeObject* deque_type() {
  static PyTypeObject* t = known_type("collections.deque");
  return t;
}
PyTypeObject* namespace_type() {
  static PyTypeObject* t = known_type("types.SimpleNamespace");
  return t;
}
PyTypeObject* partial_type() {
  static PyTypeObject* t = known_type("functools.partial");
  return t;
}
PyTypeObject* lru_cache_type() {
  static PyTypeObject* t = known_type("functools._lru_cache_wrapper");
  return t;
}
PyTypeObject* script_function_type() {
  static PyTypeObject* t = known_type("torch._C.ScriptFunction");
  return t;
}
PyTypeObject* enum_meta_type() {
  static PyTypeObject* t = known_type("enum.EnumMeta");
  return t;
}
PyTypeObject* module_class() {
  static PyTypeObject* t = known_type("torch.nn.Module");
  return t;
}
PyTypeObject* size_type() {
  static PyTypeObject* t = known_type("torch.Size");
  return t;
}

static PyTypeObject* transparent_type = nullptr;
void set_transparent_type(PyTypeObject* type) { transparent_type = type; }
bool is_transparent(PyTypeObject* type) { return type == transparent_type; }

/// Whether instances behave like tuples in all operations of the language.
static bool behaves_as_tuple(PyTypeObject* type) {
  static constexpr const char* kAsked[] = {
      "__add__",      "__radd__",      "__iadd__",    "__mul__",          "__rmul__",    "__imul__",     "__len__",
      "__getitem__",  "__contains__",  "__iter__",    "__reversed__",     "__eq__",      "__ne__",       "__lt__",
      "__le__",       "__gt__",        "__ge__",      "__hash__",         "__bool__",    "__call__",     "__getattr__",
      "__neg__",      "__pos__",       "__invert__",  "__getattribute__", "__abs__",     "__index__",    "__int__",
      "__float__",    "__sub__",       "__rsub__",    "__isub__",         "__truediv__", "__rtruediv__", "__itruediv__",
      "__floordiv__", "__rfloordiv__", "__mod__",     "__rmod__",         "__divmod__",  "__rdivmod__",  "__pow__",
      "__rpow__",     "__matmul__",    "__rmatmul__", "__imatmul__",      "__and__",     "__rand__",     "__iand__",
      "__or__",       "__ror__",       "__ior__",     "__xor__",          "__rxor__",    "__ixor__",     "__lshift__",
      "__rlshift__",  "__rshift__",    "__rrshift__", "__setattr__",      "__delattr__", "__enter__",    "__del__",
  };
  static const std::vector<PyObject*> names = [] {
    std::vector<PyObject*> made;
    for (const char* name : kAsked) made.push_back(PyUnicode_InternFromString(name));
    return made;
  }();
  return std::all_of(names.begin(), names.end(),
                     [&](PyObject* name) { return look_up(type, name) == look_up(&PyTuple_Type, name); });
}

bool is_named_tuple(PyTypeObject* type) {
  if (type == &PyTuple_Type || !PyType_IsSubtype(type, &PyTuple_Type)) return false;
  if (type->tp_dictoffset != 0 || !behaves_as_tuple(type)) return false;
  static PyObject* fields = PyUnicode_InternFromString("_fields");
  static PyObject* structseq = PyUnicode_InternFromString("n_sequence_fields");
  return look_up(type, fields) || look_up(type, structseq);
}

static PyTypeObject* tuple_field_type() {
  static PyTypeObject* t = known_type("_collections._tuplegetter");
  return t;
}

bool is_module_instance(PyObject* object) { return PyObject_TypeCheck(object, module_class()); }

bool has_open_instances(PyTypeObject* type) {
  if (type == partial_type() || type == namespace_type()) return true;
  const destructor of_python_classes = module_class()->tp_dealloc;
  if (type->tp_dealloc != of_python_classes) return false;
  const PyTypeObject* below = type;
  while (below->tp_base && below->tp_dealloc == of_python_classes) below = below->tp_base;
  const PyTypeObject* const open[] = {&PyBaseObject_Type, &PyDict_Type,  &PyList_Type,       &PyTuple_Type,
                                      &PySet_Type,        &PyODict_Type, default_dict_type()};
  return std::find(std::begin(open), std::end(open), below) != std::end(open);
}

bool is_value_type(PyTypeObject* type) {
  struct Row {
    const char *name, *module, *attribute;
  };
  static constexpr Row rows[] = {
      {"re.Pattern", "re", "Pattern"},
      {"re.Match", "re", "Match"},
      {"decimal.Decimal", "decimal", "Decimal"},
      {"datetime.date", "datetime", "date"},
      {"datetime.datetime", "datetime", "datetime"},
      {"datetime.timedelta", "datetime", "timedelta"},
      {"datetime.time", "datetime", "time"},
      {"numpy.dtype", "numpy", "dtype"},
  };
  for (const Row& row : rows) {
    if (std::strcmp(type->tp_name, row.name) != 0) continue;
    // Do not import the module: if it is not imported, its classes have no instances.
    PyObject* module = PyDict_GetItemString(PyImport_GetModuleDict(), row.module);
    PyObject* known =
        module && PyModule_Check(module) ? PyDict_GetItemString(PyModule_GetDict(module), row.attribute) : nullptr;
    return known == reinterpret_cast<PyObject*>(type);
  }
  return false;
}

bool is_guarded_by_identity(PyObject* object) {
  PyTypeObject* type = Py_TYPE(object);
  if (is_value_type(type)) return true;
  if (PyType_Check(object) || PyModule_Check(object) || PyCFunction_Check(object)) return true;
  if (pycompat::is_method_wrapper(object)) return true;
  static PyTypeObject* const kinds[] = {
      &PyMethodDescr_Type,    &PyWrapperDescr_Type, &PyGetSetDescr_Type, &PyMemberDescr_Type,  &PyClassMethodDescr_Type,
      &PyInstanceMethod_Type, &PyCode_Type,         &PyProperty_Type,    &PyStaticMethod_Type, &PyClassMethod_Type};
  for (PyTypeObject* kind : kinds)
    if (type == kind) return true;
  static PyTypeObject* const generic_alias = known_type("types.GenericAlias");
  static PyTypeObject* const union_type = known_type("types.UnionType");
  static PyTypeObject* const typing_alias = known_type("typing._BaseGenericAlias");
  static PyTypeObject* const type_var = known_type("typing.TypeVar");
  static PyTypeObject* const special_form = known_type("typing._SpecialForm");
  static PyTypeObject* const op_overload = known_type("torch._ops.OpOverload");
  static PyTypeObject* const op_packet = known_type("torch._ops.OpOverloadPacket");
  static PyTypeObject* const generator = known_type("torch._C.Generator");
  if (PyType_IsSubtype(type, generic_alias) || type == union_type || PyType_IsSubtype(type, typing_alias) ||
      type == type_var || type == special_form || type == op_overload || type == op_packet || type == generator ||
      type == lru_cache_type() || type == tuple_field_type())
    return true;
  return PyType_IsSubtype(Py_TYPE(type), enum_meta_type());
}

}  // namespace stator::capture
