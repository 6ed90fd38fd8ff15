// Classes: making instances, isinstance and friends.
#include "capture/guards/literals.h"
#include "capture/interpreter/handlers.h"
#include "capture/interpreter/known_types.h"

namespace stator::capture {
namespace {

bool is_exception_class(PyTypeObject* type) {
  return PyType_IsSubtype(type, reinterpret_cast<PyTypeObject*>(PyExc_BaseException));
}

/// A real exception made of literals: it is only ever raised, matched and read.
Value* make_exception(Interpreter& in, PyTypeObject* type, const CallArgs& args) {
  static PyObject* const init = PyUnicode_InternFromString("__init__");
  static PyObject* const make = PyUnicode_InternFromString("__new__");
  for (PyObject* name : {init, make})
    if (PyObject* found = _PyType_Lookup(type, name); found && PyFunction_Check(found))
      throw Break{BreakId::raises, std::string("an exception class with its own constructor: ") + type->tp_name};
  Ref arguments = Ref::steal(PyTuple_New(args.positional.size()));
  for (size_t i = 0; i < args.positional.size(); ++i) {
    Ref literal = in.literal_of(args.positional[i]);
    if (!literal) throw Break{BreakId::raises, "an exception that holds something else than literals"};
    PyTuple_SET_ITEM(arguments.get(), i, literal.release());
  }
  if (!args.keywords.empty()) throw Break{BreakId::raises, "an exception made with keywords"};
  Ref made = Ref::steal(PyObject_Call(reinterpret_cast<PyObject*>(type), arguments.get(), nullptr));
  if (!made) throw Break{BreakId::raises, take_error_text()};
  return in.constant(std::move(made));
}

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

}  // namespace

bool Interpreter::is_instance(Value* value, Value* classes) {
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
    static PyObject* const union_type = known_object("types.UnionType");
    if (reinterpret_cast<PyObject*>(Py_TYPE(cls)) == union_type) {
      Ref parts = Ref::steal(PyObject_GetAttrString(cls, "__args__"));
      return is_instance(value, constant(std::move(parts)));
    }
    throw Break{BreakId::unknown_call, "isinstance with something that is no class"};
  }
  auto* wanted = reinterpret_cast<PyTypeObject*>(cls);
  if (type == wanted || PyType_IsSubtype(type, wanted)) return true;
  static PyTypeObject* const tensor_meta = reinterpret_cast<PyTypeObject*>(known_object("torch._C._TensorMeta"));
  if (has_plain_check(wanted) || Py_TYPE(wanted) == tensor_meta) return false;
  if (value->kind == Kind::Tensor && wanted == TorchTracer::parameter_type()) return false;
  // Abstract base classes answer from their registry, which has a counter.
  static PyObject* const abc_check = known_object("abc.ABCMeta.__instancecheck__");
  static PyObject* const check_name = PyUnicode_InternFromString("__instancecheck__");
  if (_PyType_Lookup(Py_TYPE(wanted), check_name) == abc_check) {
    int answer = PyObject_IsSubclass(reinterpret_cast<PyObject*>(type), cls);
    if (answer < 0) throw Break{BreakId::raises, take_error_text()};
    guard_class(type);
    guard(sources_->pinned(cls, wanted->tp_name), FactKind::AbcToken, nullptr, abc_token());
    return answer;
  }
  if (Value* answer = metaclass_check(*this, wanted, "__instancecheck__", value)) return truth(answer);
  throw Break{BreakId::unknown_call, std::string("isinstance with ") + wanted->tp_name};
}

bool exception_matches(Interpreter& in, Value* exception, Value* classes) {
  PyTypeObject* type = in.type_of(exception);
  Ref wanted = in.literal_of(classes);
  if (!wanted) throw Break{BreakId::unknown_call, "except with a class that is not known"};
  return PyErr_GivenExceptionMatches(reinterpret_cast<PyObject*>(type), wanted.get());
}

Value* Interpreter::instantiate(PyTypeObject* type, CallArgs args) {
  static PyObject* const new_name = PyUnicode_InternFromString("__new__");
  static PyObject* const init_name = PyUnicode_InternFromString("__init__");
  static PyObject* const object_init = known_object("builtins.object.__init__");
  if (is_exception_class(type)) return make_exception(*this, type, args);
  guard_class(type);
  if (Py_TYPE(type)->tp_call != PyType_Type.tp_call) {
    if (PyType_IsSubtype(Py_TYPE(type), enum_meta_type()) && args.positional.size() == 1) {
      Ref literal = literal_of(args.positional[0]);
      Ref member = literal ? Ref::steal(PyObject_CallOneArg(reinterpret_cast<PyObject*>(type), literal.get())) : Ref();
      PyErr_Clear();
      if (member) return constant(std::move(member));
    }
    throw Break{BreakId::unknown_call, std::string("a class with its own metaclass call: ") + type->tp_name};
  }
  Value* made = nullptr;
  PyObject* maker = _PyType_Lookup(type, new_name);
  PyObject* maker_function = maker && Py_TYPE(maker) == &PyStaticMethod_Type
                                 ? Ref::steal(PyObject_GetAttrString(maker, "__func__")).get()
                                 : maker;
  if (maker_function && PyFunction_Check(maker_function)) {
    CallArgs with_class = args;
    with_class.positional.insert(with_class.positional.begin(), constant(reinterpret_cast<PyObject*>(type)));
    made = call(wrap(maker_function, sources_->pinned(maker_function, "__new__")), std::move(with_class));
    if (!PyType_IsSubtype(type_of(made), type)) return made;
  } else {
    made = new_instance(*this, type);
  }
  PyObject* init = _PyType_Lookup(type, init_name);
  if (!init || init == object_init) {
    if (args.count() && !(maker_function && PyFunction_Check(maker_function)))
      raise(PyExc_TypeError, std::string(type->tp_name) + "() takes no arguments");
    return made;
  }
  call(bind_descriptor(init, type, made, init_name), std::move(args));
  return made;
}

Value* new_instance(Interpreter& in, PyTypeObject* type) {
  if (type->tp_new == PyBaseObject_Type.tp_new) return in.arena.make<ObjectValue>(type);
  if (PyType_IsSubtype(type, &PyDict_Type) && (type->tp_flags & Py_TPFLAGS_HEAPTYPE)) {
    auto* object = in.arena.make<ObjectValue>(type);
    object->base = in.arena.make<DictValue>(PyType_IsSubtype(type, &PyODict_Type) ? &PyODict_Type : &PyDict_Type);
    return object;
  }
  if (PyType_IsSubtype(type, &PyList_Type) && (type->tp_flags & Py_TPFLAGS_HEAPTYPE)) {
    auto* object = in.arena.make<ObjectValue>(type);
    object->base = in.list({});
    return object;
  }
  // Heap classes over object whose slot was inherited through Python-level bases.
  if (type->tp_flags & Py_TPFLAGS_HEAPTYPE) {
    PyTypeObject* base = type;
    while (base && (base->tp_flags & Py_TPFLAGS_HEAPTYPE)) base = base->tp_base;
    if (base == &PyBaseObject_Type) return in.arena.make<ObjectValue>(type);
  }
  throw Break{BreakId::unknown_call, std::string("an instance is made: ") + type->tp_name};
}

}  // namespace stator::capture
