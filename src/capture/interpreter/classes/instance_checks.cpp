// isinstance and issubclass.
#include "capture/guards/literals.h"
#include "capture/interpreter/classes/abstract_classes.h"
#include "capture/interpreter/classes/classes.h"
#include "capture/interpreter/protocol/arguments.h"
#include "capture/interpreter/protocol/classes.h"
#include "capture/interpreter/protocol/exceptions.h"
#include "capture/interpreter/protocol/special_methods.h"
#include "capture/interpreter/state/known_types.h"
#include "capture/interpreter/state/nesting.h"
#include "capture/pycompat/text.h"

namespace stator::capture {
namespace {

/// Calls `__instancecheck__` / `__subclasscheck__` of a metaclass that has one in Python; null if it has none.
Value* metaclass_check(Interpreter& in, PyTypeObject* cls, const char* which, Value* argument) {
  PyTypeObject* meta = Py_TYPE(cls);
  if (meta == &PyType_Type) return nullptr;
  Ref name = Ref::steal(PyUnicode_InternFromString(which));
  PyObject* found = look_up(meta, name.get());
  if (!found || !PyFunction_Check(found)) return nullptr;
  in.guards.add_class(meta);
  CallArgs args;
  args.positional = {in.constant(reinterpret_cast<PyObject*>(cls)), argument};
  return in.call(in.wrap(found, in.guards.sources().pinned(found, which)), std::move(args));
}

bool has_plain_check(PyTypeObject* cls) {
  static PyObject* const check = PyUnicode_InternFromString("__instancecheck__");
  static PyObject* const plain = known_object("builtins.type.__instancecheck__");
  return look_up(Py_TYPE(cls), check) == plain;
}

/// Whether a metaclass of the program defines `__instancecheck__`. Those of abc, `typing` and torch agree with
/// issubclass.
bool has_own_check(PyTypeObject* cls) {
  static PyObject* const name = PyUnicode_InternFromString("__instancecheck__");
  PyObject* check = look_up(Py_TYPE(cls), name);
  PyObject* module = check && PyFunction_Check(check) ? PyFunction_GET_MODULE(check) : nullptr;
  if (!module) return false;
  const std::string from = text_of(module);
  return from != "abc" && from != "typing" && from != "torch" && !from.starts_with("torch.");
}

/// `int | str`: each member is checked on its own.
bool is_union(PyObject* object) {
  static PyObject* const type = known_object("types.UnionType");
  return reinterpret_cast<PyObject*>(Py_TYPE(object)) == type;
}

/// The class, or tuple of classes, that a typing object represents in isinstance; null for other objects.
Ref class_part(PyObject* object) {
  struct Row {
    PyObject* type;
    const char* part;
  };
  static const Row rows[] = {{known_object("types.UnionType"), "__args__"},
                             {known_object("typing._UnionGenericAlias"), "__args__"},
                             {known_object("typing._SpecialGenericAlias"), "__origin__"},
                             {known_object("typing._CallableType"), "__origin__"},
                             {known_object("typing._TupleType"), "__origin__"}};
  for (const Row& row : rows) {
    if (row.type != reinterpret_cast<PyObject*>(Py_TYPE(object))) continue;
    Ref part = Ref::steal(PyObject_GetAttrString(object, row.part));
    PyErr_Clear();
    return part;
  }
  return {};
}

bool are_classes(PyObject* tuple) {
  for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(tuple); ++i)
    if (!PyType_Check(PyTuple_GET_ITEM(tuple, i))) return false;
  return true;
}

/// torch.FloatTensor and the like, which represent a dtype, a layout and a device.
bool is_tensor_kind(PyTypeObject* type) {
  static PyTypeObject* const metaclass = Py_TYPE(known_object("torch.FloatTensor"));
  return Py_TYPE(type) == metaclass;
}
bool is_of_kind(Interpreter& in, Value* value, PyObject* kind) {
  if (value->kind != Kind::Tensor) return false;
  auto of = [&](const char* name) { return Ref::steal(PyObject_GetAttrString(kind, name)); };
  Ref dtype = of("dtype"), layout = of("layout"), is_cuda = of("is_cuda");
  if (!dtype || !layout || !is_cuda) throw Break{BreakId::torch_error, take_error_text()};
  auto same = [&](const char* name, PyObject* wanted) {
    Ref attribute = Ref::steal(PyUnicode_InternFromString(name));
    return literal_equal(in.constant_of(in.get_attr(value, attribute.get())), wanted);
  };
  return same("dtype", dtype.get()) && same("layout", layout.get()) &&
         same(is_cuda.get() == Py_True ? "is_cuda" : "is_cpu", Py_True);
}

}  // namespace

/// The class that an instance's `__class__` gives, if its class overrides that attribute; null otherwise.
static PyTypeObject* declared_class(Interpreter& in, Value* value) {
  static PyObject* const name = PyUnicode_InternFromString("__class__");
  static PyObject* const plain = known_object("builtins.object.__class__");
  PyTypeObject* type = in.type_of(value);
  if (look_up(type, name) == plain) return nullptr;
  if (value->kind != Kind::Object)
    throw Break{BreakId::unknown_call,
                std::string("isinstance of a class with a __class__ of its own: ") + type->tp_name};
  in.guards.add_class(type);
  Value* said = nullptr;
  try {
    said = in.find_attr(value, name);
  } catch (const Raise& raised) {
    if (!is_exception(in, raised.exception, PyExc_AttributeError)) throw;
  }
  if (!said) return nullptr;
  PyObject* cls = in.constant_of(said);
  if (!cls) throw Break{BreakId::unknown_call, "isinstance of an object whose __class__ is not known"};
  auto* found = reinterpret_cast<PyTypeObject*>(cls);
  return PyType_Check(cls) && found != type ? found : nullptr;
}

bool is_of_program(PyObject* method) {
  static PyObject* const libraries = known_object("sys.stdlib_module_names");
  if (!method) return false;
  Ref inner = Ref::borrow(method);
  if (Py_TYPE(method) == &PyClassMethod_Type) inner = Ref::steal(PyObject_GetAttrString(method, "__func__"));
  if (!PyFunction_Check(inner.get())) return Py_TYPE(inner.get())->tp_flags & Py_TPFLAGS_HEAPTYPE;
  PyObject* module = PyDict_GetItemString(PyFunction_GET_GLOBALS(inner.get()), "__name__");
  const std::string name = module && PyUnicode_Check(module) ? name_text(module) : "";
  const Ref top = Ref::steal(PyUnicode_FromString(name.substr(0, name.find('.')).c_str()));
  return name_text(top.get()) != "torch" && PySet_Contains(libraries, top.get()) != 1;
}

Ref known_classes(Interpreter& in, Value* value) {
  if (PyObject* object = in.constant_of(value)) return Ref::borrow(object);
  auto* tuple = value->kind == Kind::Tuple ? as_sequence(value) : nullptr;
  if (!tuple) return {};
  Ref made = Ref::steal(PyTuple_New(static_cast<Py_ssize_t>(tuple->items.size())));
  for (size_t i = 0; i < tuple->items.size(); ++i) {
    Ref item = known_classes(in, in.item(tuple, i));
    if (!item) return {};
    PyTuple_SET_ITEM(made.get(), static_cast<Py_ssize_t>(i), item.release());
  }
  return made;
}

bool is_plain_instance(Interpreter& in, Value* value, PyTypeObject* cls) {
  PyTypeObject* type = in.type_of(value);
  if (PyType_IsSubtype(type, cls)) return true;
  PyTypeObject* said = declared_class(in, value);
  return said && PyType_IsSubtype(said, cls);
}

bool is_subclass(Interpreter& in, PyTypeObject* cls, PyObject* of) {
  static PyObject* const name = PyUnicode_InternFromString("__subclasscheck__");
  static PyObject* const abc_check = known_object("abc.ABCMeta.__subclasscheck__");
  Nesting nesting;
  if (PyTuple_Check(of)) {
    for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(of); ++i)
      if (is_subclass(in, cls, PyTuple_GET_ITEM(of, i))) return true;
    return false;
  }
  if (!PyType_Check(of)) {
    Ref part = class_part(of);
    if (part && (!is_union(of) || are_classes(part.get()))) return is_subclass(in, cls, part.get());
  }
  PyObject* check = PyType_Check(of) ? look_up(Py_TYPE(of), name) : nullptr;
  if (check == abc_check && check) {
    return is_abstract_subclass(in, cls, reinterpret_cast<PyTypeObject*>(of));
  } else if (check && PyFunction_Check(check)) {
    Value* asked = in.constant(reinterpret_cast<PyObject*>(cls));
    return in.truth(in.call(type_method(in, in.constant(of), name), arguments({asked})));
  }
  int answer = PyObject_IsSubclass(reinterpret_cast<PyObject*>(cls), of);
  if (answer < 0) throw Break{BreakId::raises, take_error_text()};
  return answer;
}

bool Interpreter::is_instance(Value* value, Value* classes) {
  Nesting nesting;
  static constexpr const char* kNoClass = "isinstance() arg 2 must be a type, a tuple of types, or a union";
  if (classes->kind == Kind::List) raise(PyExc_TypeError, kNoClass);
  if (auto* sequence = as_sequence(classes)) {
    for (size_t i = 0; i < sequence->items.size(); ++i)
      if (is_instance(value, item(sequence, i))) return true;
    return false;
  }
  PyObject* cls = constant_of(classes);
  if (!cls) throw Break{BreakId::unknown_call, "isinstance with a class that is not known"};
  if (PyTuple_Check(cls)) {
    for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(cls); ++i)
      if (is_instance(value, constant(PyTuple_GET_ITEM(cls, i)))) return true;
    return false;
  }
  PyTypeObject* type = type_of(value);
  if (!PyType_Check(cls)) {
    Ref part = class_part(cls);
    if (!part && static_cast<ConstantValue*>(classes)->literal) raise(PyExc_TypeError, kNoClass);
    if (!part || (is_union(cls) && !are_classes(part.get())))
      throw Break{BreakId::unknown_call, "isinstance with something that is not a class"};
    if (is_union(cls)) return is_instance(value, constant(std::move(part)));
    // Checks of `typing` use the value's class, not the value.
    guards.add_class(type);
    return is_subclass(*this, type, part.get());
  }
  auto* wanted = reinterpret_cast<PyTypeObject*>(cls);
  if (is_tensor_kind(wanted)) return is_of_kind(*this, value, cls);
  // An instance of exactly this class passes without the metaclass's check.
  if (type == wanted) return true;
  if (!has_own_check(wanted) && is_plain_instance(*this, value, wanted)) return true;
  static PyTypeObject* const tensor_meta = reinterpret_cast<PyTypeObject*>(known_object("torch._C._TensorMeta"));
  if (has_plain_check(wanted) || Py_TYPE(wanted) == tensor_meta) return false;
  if (value->kind == Kind::Tensor && wanted == TorchTracer::parameter_type()) return false;
  static PyObject* const abc_check = known_object("abc.ABCMeta.__instancecheck__");
  static PyObject* const check_name = PyUnicode_InternFromString("__instancecheck__");
  if (look_up(Py_TYPE(wanted), check_name) == abc_check) {
    PyTypeObject* said = declared_class(*this, value);
    guards.add_class(type);
    return is_abstract_subclass(*this, type, wanted) || (said && is_abstract_subclass(*this, said, wanted));
  }
  if (Value* answer = metaclass_check(*this, wanted, "__instancecheck__", value)) return truth(answer);
  throw Break{BreakId::unknown_call, std::string("isinstance with ") + wanted->tp_name};
}

}  // namespace stator::capture
