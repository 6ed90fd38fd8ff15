// Classes: making instances, isinstance and friends.
#include "capture/interpreter/classes/classes.h"
#include "capture/guards/literals.h"
#include "capture/interpreter/attributes/attributes.h"
#include "capture/interpreter/classes/abstract_classes.h"
#include "capture/interpreter/containers/sets.h"
#include "capture/interpreter/exceptions.h"
#include "capture/interpreter/known_types.h"
#include "capture/interpreter/models/model.h"
#include "capture/interpreter/nesting.h"

namespace stator::capture {
namespace {

/// Calls `__instancecheck__` / `__subclasscheck__` of a metaclass that has one in Python; null if it has none.
Value* metaclass_check(Interpreter& in, PyTypeObject* cls, const char* which, Value* argument) {
  PyTypeObject* meta = Py_TYPE(cls);
  if (meta == &PyType_Type) return nullptr;
  Ref name = Ref::steal(PyUnicode_InternFromString(which));
  PyObject* found = _PyType_Lookup(meta, name.get());
  if (!found || !PyFunction_Check(found)) return nullptr;
  in.guard_class(meta);
  CallArgs args;
  args.positional = {in.constant(reinterpret_cast<PyObject*>(cls)), argument};
  return in.call(in.wrap(found, in.sources().pinned(found, which)), std::move(args));
}

bool has_plain_check(PyTypeObject* cls) {
  static PyObject* const check = PyUnicode_InternFromString("__instancecheck__");
  static PyObject* const plain = known_object("builtins.type.__instancecheck__");
  return _PyType_Lookup(Py_TYPE(cls), check) == plain;
}

/// Whether a metaclass of the program says who is an instance. Those of `typing` and torch agree on subclasses.
bool has_own_check(PyTypeObject* cls) {
  static PyObject* const name = PyUnicode_InternFromString("__instancecheck__");
  PyObject* check = _PyType_Lookup(Py_TYPE(cls), name);
  PyObject* module = check && PyFunction_Check(check) ? PyFunction_GET_MODULE(check) : nullptr;
  const char* text = module && PyUnicode_Check(module) ? PyUnicode_AsUTF8(module) : nullptr;
  if (!text) return module != nullptr;
  const std::string_view from = text;
  return from != "abc" && from != "typing" && from != "torch" && !from.starts_with("torch.");
}

/// `int | str`, which asks each of them as if it were alone.
bool is_union(PyObject* object) {
  static PyObject* const type = known_object("types.UnionType");
  return reinterpret_cast<PyObject*>(Py_TYPE(object)) == type;
}

/// What an object that stands for classes holds: a class or a tuple; null if it is no such object.
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

/// torch.FloatTensor and its like, which name a dtype and a device.
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

/// The class that an instance says it is of, where that is another one than it is; null if it says nothing.
static PyTypeObject* said_class(Interpreter& in, Value* value) {
  static PyObject* const name = PyUnicode_InternFromString("__class__");
  static PyObject* const plain = known_object("builtins.object.__class__");
  PyTypeObject* type = in.type_of(value);
  if (_PyType_Lookup(type, name) == plain) return nullptr;
  if (value->kind != Kind::Object)
    throw Break{BreakId::unknown_call,
                std::string("isinstance of a class with a __class__ of its own: ") + type->tp_name};
  in.guard_class(type);
  Value* said = nullptr;
  try {
    said = in.find_attr(value, name);
  } catch (const Raise& raised) {
    if (!is_exception(in, raised.exception, PyExc_AttributeError)) throw;
  }
  if (!said) return nullptr;
  PyObject* cls = in.constant_of(said);
  if (!cls) throw Break{BreakId::unknown_call, "isinstance of what says that it is of a class that is not known"};
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
  const std::string name = module && PyUnicode_Check(module) ? text_of(module) : "";
  const Ref top = Ref::steal(PyUnicode_FromString(name.substr(0, name.find('.')).c_str()));
  return text_of(top.get()) != "torch" && PySet_Contains(libraries, top.get()) != 1;
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
  PyTypeObject* said = said_class(in, value);
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
  PyObject* check = PyType_Check(of) ? _PyType_Lookup(Py_TYPE(of), name) : nullptr;
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
      throw Break{BreakId::unknown_call, "isinstance with something that is no class"};
    if (is_union(cls)) return is_instance(value, constant(std::move(part)));
    // Those of `typing` ask about the value's class, not about the value.
    guard_class(type);
    return is_subclass(*this, type, part.get());
  }
  auto* wanted = reinterpret_cast<PyTypeObject*>(cls);
  if (is_tensor_kind(wanted)) return is_of_kind(*this, value, cls);
  // Only an instance of the very class is one whatever the metaclass says.
  if (type == wanted) return true;
  if (!has_own_check(wanted) && is_plain_instance(*this, value, wanted)) return true;
  static PyTypeObject* const tensor_meta = reinterpret_cast<PyTypeObject*>(known_object("torch._C._TensorMeta"));
  if (has_plain_check(wanted) || Py_TYPE(wanted) == tensor_meta) return false;
  if (value->kind == Kind::Tensor && wanted == TorchTracer::parameter_type()) return false;
  static PyObject* const abc_check = known_object("abc.ABCMeta.__instancecheck__");
  static PyObject* const check_name = PyUnicode_InternFromString("__instancecheck__");
  if (_PyType_Lookup(Py_TYPE(wanted), check_name) == abc_check) {
    PyTypeObject* said = said_class(*this, value);
    guard_class(type);
    return is_abstract_subclass(*this, type, wanted) || (said && is_abstract_subclass(*this, said, wanted));
  }
  if (Value* answer = metaclass_check(*this, wanted, "__instancecheck__", value)) return truth(answer);
  throw Break{BreakId::unknown_call, std::string("isinstance with ") + wanted->tp_name};
}

/// The member of an enumeration that a call of the class gives; empty where code of the program's would find it.
static Ref enum_member(PyTypeObject* type, PyObject* caller, PyObject* value) {
  static PyObject* const names[] = {PyUnicode_InternFromString("__call__"), PyUnicode_InternFromString("_missing_"),
                                    PyUnicode_InternFromString("_value2member_map_")};
  static PyObject* const missing[] = {known_object("enum.Enum"), known_object("enum.Flag")};
  if (caller != _PyType_Lookup(enum_meta_type(), names[0])) return {};
  PyObject* found = _PyType_Lookup(type, names[1]);
  auto is_of = [&](PyObject* cls) { return found == _PyType_Lookup(reinterpret_cast<PyTypeObject*>(cls), names[1]); };
  if (!std::any_of(std::begin(missing), std::end(missing), is_of)) {
    PyObject* members = _PyType_Lookup(type, names[2]);
    PyObject* member = members && PyDict_Check(members) ? PyDict_GetItemWithError(members, value) : nullptr;
    PyErr_Clear();
    return Ref::borrow(member);
  }
  return Ref::steal(PyObject_CallOneArg(reinterpret_cast<PyObject*>(type), value));
}

Value* Interpreter::instantiate(PyTypeObject* type, CallArgs args) {
  Continuation how = std::exchange(continuation, Continuation::Opaque);
  if (is_value_type(type)) return call_literal(*this, reinterpret_cast<PyObject*>(type), args);
  guard_class(type);
  if (Py_TYPE(type)->tp_call != PyType_Type.tp_call) {
    static PyObject* const call_name = PyUnicode_InternFromString("__call__");
    PyObject* caller = _PyType_Lookup(Py_TYPE(type), call_name);
    if (PyType_IsSubtype(Py_TYPE(type), enum_meta_type()) && args.count() == 1 && !args.positional.empty()) {
      Ref literal = literal_of(args.positional[0]);
      Ref member = literal ? enum_member(type, caller, literal.get()) : Ref();
      if (member) return constant(std::move(member));
      if (PyErr_Occurred()) raise_current(*this);
    }
    if (caller && PyType_Check(caller)) {
      // Another class is called instead, as it is for a TypedDict.
      guard_class(Py_TYPE(type));
      return call(constant(caller), std::move(args));
    }
    if (!caller || !PyFunction_Check(caller) || PyType_IsSubtype(Py_TYPE(type), enum_meta_type()))
      throw Break{BreakId::unknown_call, std::string("a class with its own metaclass call: ") + type->tp_name};
    return call(type_method(*this, constant(reinterpret_cast<PyObject*>(type)), call_name), std::move(args));
  }
  continuation = how;
  return make_instance(*this, type, std::move(args));
}

/// An instance of one of torch's or the system's own named tuples, of all its fields; null for other classes and calls.
static Value* struct_sequence(Interpreter& in, PyTypeObject* type, const CallArgs& args) {
  static PyObject* const names[] = {PyUnicode_InternFromString("n_sequence_fields"),
                                    PyUnicode_InternFromString("n_fields")};
  auto* fields = as_sequence(at_or_null(args, 0));
  if (!fields || args.count() != 1 || !is_named_tuple(type)) return nullptr;
  for (PyObject* name : names) {
    PyObject* count = _PyType_Lookup(type, name);
    if (!count || !PyLong_Check(count) || PyLong_AsSize_t(count) != fields->items.size()) return nullptr;
  }
  SequenceValue* made = in.tuple(in.unpack(fields));
  made->type = type;
  return made;
}

Value* make_instance(Interpreter& in, PyTypeObject* type, CallArgs args) {
  Continuation how = std::exchange(in.continuation, Continuation::Opaque);
  static PyObject* const new_name = PyUnicode_InternFromString("__new__");
  static PyObject* const init_name = PyUnicode_InternFromString("__init__");
  static PyObject* const object_init = known_object("builtins.object.__init__");
  Value* made = nullptr;
  Ref maker = Ref::borrow(_PyType_Lookup(type, new_name));
  if (maker && Py_TYPE(maker.get()) == &PyStaticMethod_Type)
    maker = Ref::steal(PyObject_GetAttrString(maker.get(), "__func__"));
  bool own_maker = maker && PyFunction_Check(maker.get());
  if (own_maker || model_of(maker.get())) {
    Value* function =
        own_maker ? in.wrap(maker.get(), in.sources().pinned(maker.get(), "__new__")) : in.constant(maker);
    CallArgs with_class = args;
    with_class.positional.insert(with_class.positional.begin(), in.constant(reinterpret_cast<PyObject*>(type)));
    made = in.call(function, std::move(with_class));
    if (!PyType_IsSubtype(in.type_of(made), type)) return made;
    // It may be an instance of a subclass, which has the say then.
    if (made->kind == Kind::Object) in.guard_class(type = in.type_of(made));
  } else if (is_exception_class(type)) {
    made = new_exception(in, type, args);
  } else if (Value* structure = struct_sequence(in, type, args)) {
    return structure;
  } else {
    made = new_instance(in, type);
  }
  PyObject* init = _PyType_Lookup(type, init_name);
  if (!init || init == object_init) {
    if (args.count() && !own_maker && native_base(type) == &PyBaseObject_Type)
      in.raise(PyExc_TypeError, std::string(type->tp_name) + "() takes no arguments");
    return made;
  }
  Value* bound = in.bind_descriptor(init, type, made, init_name);
  // The new object is the call's result already while its __init__ runs.
  in.frame->push(made);
  if (how == Continuation::Push) in.continuation = Continuation::Discard;
  Value* nothing = in.call(bound, std::move(args));
  in.frame->pop();
  if (!in.is_same(nothing, in.none()))
    in.raise(PyExc_TypeError, std::string("__init__() should return None, not '") + in.type_of(nothing)->tp_name + "'");
  return made;
}

PyTypeObject* native_base(PyTypeObject* type) {
  // A class written in Python inherits its base's maker, or has the slot that calls __new__.
  static const newfunc calls_new =
      reinterpret_cast<PyTypeObject*>(known_object("torch.nn.parameter.Parameter"))->tp_new;
  while ((type->tp_flags & Py_TPFLAGS_HEAPTYPE) && type->tp_base &&
         (type->tp_new == calls_new || type->tp_new == type->tp_base->tp_new))
    type = type->tp_base;
  return type;
}

Value* new_instance(Interpreter& in, PyTypeObject* type) {
  // The moment when the last reference goes is the program's, so the object must be there.
  static PyObject* const finalizer = PyUnicode_InternFromString("__del__");
  if (PyObject* found = _PyType_Lookup(type, finalizer); found && PyFunction_Check(found))
    throw Break{BreakId::unknown_call, std::string("a class with a __del__: ") + type->tp_name};
  PyTypeObject* native = native_base(type);
  auto over = [&](Value* base) {
    if (type == native) return base;
    auto* object = in.arena.make<ObjectValue>(type);
    object->base = base;
    return static_cast<Value*>(object);
  };
  if (type->tp_flags & Py_TPFLAGS_IS_ABSTRACT) {
    // Fails with the names of the methods that are missing.
    Ref none = Ref::steal(PyTuple_New(0)), made = Ref::steal(PyBaseObject_Type.tp_new(type, none.get(), nullptr));
    if (!made) raise_current(in);
  }
  if (native == &PyBaseObject_Type || native == namespace_type()) return in.arena.make<ObjectValue>(type);
  if (is_exception_class(native)) return make_exception(in, type, {});
  if (native == &PyDict_Type || native == &PyODict_Type || native == default_dict_type())
    return over(in.arena.make<DictValue>(native));
  if (native == &PyList_Type) return over(in.list({}));
  if (native == &PyTuple_Type) return over(in.tuple({}));
  if (native == &PySet_Type || native == &PyFrozenSet_Type) return over(make_set(in, {}, native));
  if (native == &PyProperty_Type && type != native) return in.arena.make<ObjectValue>(type);
  throw Break{BreakId::unknown_call, std::string("an instance is made: ") + type->tp_name};
}

}  // namespace stator::capture
