// Making instances.
#include "capture/interpreter/classes/classes.h"

#include "capture/interpreter/classes/made_classes.h"
#include "capture/interpreter/containers/sets.h"
#include "capture/interpreter/protocol/arguments.h"
#include "capture/interpreter/protocol/classes.h"
#include "capture/interpreter/protocol/exceptions.h"
#include "capture/interpreter/protocol/models.h"
#include "capture/interpreter/protocol/special_methods.h"
#include "capture/interpreter/state/known_types.h"

namespace stator::capture {

/// The member that a call of an enum class gives; null if code of the program would have to find it.
static Ref enum_member(PyTypeObject* type, PyObject* caller, PyObject* value) {
  static PyObject* const names[] = {PyUnicode_InternFromString("__call__"), PyUnicode_InternFromString("_missing_"),
                                    PyUnicode_InternFromString("_value2member_map_")};
  static PyObject* const missing[] = {known_object("enum.Enum"), known_object("enum.Flag")};
  if (caller != look_up(enum_meta_type(), names[0])) return {};
  PyObject* found = look_up(type, names[1]);
  auto is_of = [&](PyObject* cls) { return found == look_up(reinterpret_cast<PyTypeObject*>(cls), names[1]); };
  if (!std::any_of(std::begin(missing), std::end(missing), is_of)) {
    PyObject* members = look_up(type, names[2]);
    PyObject* member = members && PyDict_Check(members) ? PyDict_GetItemWithError(members, value) : nullptr;
    PyErr_Clear();
    return Ref::borrow(member);
  }
  return Ref::steal(PyObject_CallOneArg(reinterpret_cast<PyObject*>(type), value));
}

/// `Enum("C", "A B")` and the like: makes an enum class. Null for other calls, and for arguments that are not literals.
static Value* made_enum(Interpreter& in, PyTypeObject* type, PyObject* caller, CallArgs args) {
  static PyObject* const module_name = PyUnicode_InternFromString("module");
  static PyObject* const members_name = PyUnicode_InternFromString("_member_map_");
  static PyObject* const makers[] = {known_object("enum.Enum"), known_object("enum.IntEnum"), known_object("enum.Flag"),
                                     known_object("enum.IntFlag"), known_object("enum.StrEnum")};
  static PyObject* const meta_call = look_up(enum_meta_type(), PyUnicode_InternFromString("__call__"));
  auto* maker = reinterpret_cast<PyObject*>(type);
  if (caller != meta_call || std::find(std::begin(makers), std::end(makers), maker) == std::end(makers) ||
      args.count() < 2 || !literal_args(in, args, true).positional)
    return nullptr;
  if (!args.keyword("module")) {
    // Otherwise `Enum` takes it from the frame that calls.
    PyObject* module = PyDict_GetItemString(in.frames.current()->globals, "__name__");
    if (!module) return nullptr;
    args.keywords.emplace_back(Ref::borrow(module_name), in.constant(module));
  }
  Value* made = make_by_call(in, Ref::borrow(maker), args);
  auto* made_type = reinterpret_cast<PyTypeObject*>(in.constant_of(made));
  PyObject* members = look_up(made_type, members_name);
  PyObject *name, *member;
  for (Py_ssize_t position = 0; PyDict_Next(members, &position, &name, &member);)
    in.prototypes.own(Ref::borrow(member));
  return made;
}

Value* Interpreter::instantiate(PyTypeObject* type, CallArgs args, CallMode mode) {
  if (is_value_type(type)) return call_literal(*this, reinterpret_cast<PyObject*>(type), args);
  guards.add_class(type);
  if (Py_TYPE(type)->tp_call != PyType_Type.tp_call) {
    static PyObject* const call_name = PyUnicode_InternFromString("__call__");
    PyObject* caller = look_up(Py_TYPE(type), call_name);
    if (PyType_IsSubtype(Py_TYPE(type), enum_meta_type()) && args.count() == 1 && !args.positional.empty()) {
      Ref literal = literal_of(args.positional[0]);
      Ref member = literal ? enum_member(type, caller, literal.get()) : Ref();
      if (member) return constant(std::move(member));
      if (PyErr_Occurred()) raise_current(*this);
    }
    if (Value* made = made_enum(*this, type, caller, args)) return made;
    if (caller && PyType_Check(caller)) {
      // The metaclass's `__call__` is another class, as for a TypedDict: that class is called.
      guards.add_class(Py_TYPE(type));
      return call(constant(caller), std::move(args));
    }
    if (!caller || !PyFunction_Check(caller) || PyType_IsSubtype(Py_TYPE(type), enum_meta_type()))
      throw Break{BreakId::unknown_call, std::string("a class with its own metaclass call: ") + type->tp_name};
    return call(type_method(*this, constant(reinterpret_cast<PyObject*>(type)), call_name), std::move(args));
  }
  return make_instance(*this, type, std::move(args), mode);
}

/// An instance of a struct sequence (torch.return_types, os.stat_result, ...) from all its fields; null for other
/// calls.
static Value* struct_sequence(Interpreter& in, PyTypeObject* type, const CallArgs& args) {
  static PyObject* const names[] = {PyUnicode_InternFromString("n_sequence_fields"),
                                    PyUnicode_InternFromString("n_fields")};
  auto* fields = as_sequence(at_or_null(args, 0));
  if (!fields || args.count() != 1 || !is_named_tuple(type)) return nullptr;
  for (PyObject* name : names) {
    PyObject* count = look_up(type, name);
    if (!count || !PyLong_Check(count) || PyLong_AsSize_t(count) != fields->items.size()) return nullptr;
  }
  SequenceValue* made = in.tuple(in.unpack(fields));
  made->type = type;
  return made;
}

Value* make_instance(Interpreter& in, PyTypeObject* type, CallArgs args, CallMode mode) {
  static PyObject* const new_name = PyUnicode_InternFromString("__new__");
  static PyObject* const init_name = PyUnicode_InternFromString("__init__");
  if (!type->tp_new) in.raise(PyExc_TypeError, std::string("cannot create '") + type->tp_name + "' instances");
  static PyObject* const object_init = known_object("builtins.object.__init__");
  Value* made = nullptr;
  Ref maker = Ref::borrow(look_up(type, new_name));
  if (maker && Py_TYPE(maker.get()) == &PyStaticMethod_Type)
    maker = Ref::steal(PyObject_GetAttrString(maker.get(), "__func__"));
  bool own_maker = maker && PyFunction_Check(maker.get());
  if (own_maker || model_of(maker.get())) {
    Value* function =
        own_maker ? in.wrap(maker.get(), in.guards.sources().pinned(maker.get(), "__new__")) : in.constant(maker);
    CallArgs with_class = args;
    with_class.positional.insert(with_class.positional.begin(), in.constant(reinterpret_cast<PyObject*>(type)));
    made = in.call(function, std::move(with_class));
    if (!PyType_IsSubtype(in.type_of(made), type)) return made;
    // It may be an instance of a subclass, whose __init__ is called then.
    if (made->kind == Kind::Object) in.guards.add_class(type = in.type_of(made));
  } else if (is_exception_class(type)) {
    made = new_exception(in, type, args);
  } else if (Value* structure = struct_sequence(in, type, args)) {
    return structure;
  } else {
    made = new_instance(in, type);
  }
  PyObject* init = look_up(type, init_name);
  if (!init || init == object_init) {
    if (args.count() && !own_maker && native_base(type) == &PyBaseObject_Type)
      in.raise(PyExc_TypeError, std::string(type->tp_name) + "() takes no arguments");
    return made;
  }
  Value* bound = in.bind_descriptor(init, type, made, init_name);
  // The new object is on the stack already while its __init__ runs; what that returns is dropped.
  in.frames.current()->push(made);
  mode.continuation = mode.continuation == Continuation::Push ? Continuation::Discard : Continuation::Opaque;
  Value* nothing = in.call(bound, std::move(args), mode);
  in.frames.current()->pop();
  if (!in.is_same(nothing, in.none()))
    in.raise(PyExc_TypeError, std::string("__init__() should return None, not '") + in.type_of(nothing)->tp_name + "'");
  return made;
}

PyTypeObject* native_base(PyTypeObject* type) {
  // A class written in Python inherits tp_new from its base, or has the function that calls its __new__.
  static const newfunc calls_new =
      reinterpret_cast<PyTypeObject*>(known_object("torch.nn.parameter.Parameter"))->tp_new;
  while ((type->tp_flags & Py_TPFLAGS_HEAPTYPE) && type->tp_base &&
         (type->tp_new == calls_new || type->tp_new == type->tp_base->tp_new))
    type = type->tp_base;
  return type;
}

Value* new_instance(Interpreter& in, PyTypeObject* type) {
  // The finalizer must run where the program drops the object, so the real object must exist.
  static PyObject* const finalizer = PyUnicode_InternFromString("__del__");
  if (PyObject* found = look_up(type, finalizer); found && PyFunction_Check(found))
    throw Break{BreakId::unknown_call, std::string("a class with a __del__: ") + type->tp_name};
  PyTypeObject* native = native_base(type);
  auto over = [&](Value* base) {
    if (type == native) return base;
    auto* object = in.arena.make<ObjectValue>(type);
    object->base = base;
    return static_cast<Value*>(object);
  };
  if (type->tp_flags & Py_TPFLAGS_IS_ABSTRACT) {
    // Raises the TypeError that names the abstract methods.
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
