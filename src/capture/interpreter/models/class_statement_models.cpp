// Classes that the program makes: class statements, `type(...)`, `__set_name__` and `__init_subclass__` of a new class,
// decorators that change a class, and descriptors in classes.
#include "capture/guards/literals.h"
#include "capture/interpreter/classes/made_classes.h"
#include "capture/interpreter/classes/surrogates.h"
#include "capture/interpreter/protocol/arguments.h"
#include "capture/interpreter/protocol/classes.h"
#include "capture/interpreter/protocol/exceptions.h"
#include "capture/interpreter/protocol/mappings.h"
#include "capture/interpreter/protocol/models.h"
#include "capture/interpreter/protocol/names.h"
#include "capture/interpreter/state/known_types.h"
#include "capture/pycompat/text.h"

namespace stator::capture {
namespace {

[[noreturn]] void refuse(const char* what) { throw Break{BreakId::unknown_call, what}; }

Ref tuple_of(const std::vector<Ref>& objects) {
  Ref made = Ref::steal(PyTuple_New(static_cast<Py_ssize_t>(objects.size())));
  for (size_t i = 0; i < objects.size(); ++i)
    PyTuple_SET_ITEM(made.get(), static_cast<Py_ssize_t>(i), Ref(objects[i]).release());
  return made;
}

/// The object of a base. `__mro_entries__` is called only on `typing` forms, which run no code of the program.
Ref base_object(Interpreter& in, Value* base) {
  if (PyObject* object = in.constant_of(base)) return Ref::borrow(object);
  auto* function = as<FunctionValue>(base);
  static PyObject* const forms[] = {known_object("typing.NamedTuple"), known_object("typing.TypedDict")};
  for (PyObject* form : forms)
    if (function && function->function.get() == form) {
      in.guards.add(function->source, FactKind::Identity, form);
      return Ref::borrow(form);
    }
  refuse("a class with a base that is not known");
}

/// The bases after `__mro_entries__`, as a tuple.
Ref resolved(Interpreter& in, const std::vector<Ref>& given) {
  static PyObject* const resolve = known_object("types.resolve_bases");
  Ref bases = tuple_of(given);
  Ref made = Ref::steal(PyObject_CallOneArg(resolve, bases.get()));
  if (!made) raise_current(in);
  return made;
}

/// The most derived metaclass, by CPython's rule.
PyTypeObject* most_derived(Interpreter& in, PyTypeObject* metaclass, PyObject* bases) {
  for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(bases); ++i) {
    PyTypeObject* other = Py_TYPE(PyTuple_GET_ITEM(bases, i));
    if (PyType_IsSubtype(metaclass, other)) continue;
    if (!PyType_IsSubtype(other, metaclass))
      in.raise(
          PyExc_TypeError,
          "metaclass conflict: the metaclass of a derived class must be a (non-strict) subclass of the metaclasses "
          "of all its bases");
    metaclass = other;
  }
  return metaclass;
}

/// Metaclasses that run no code of the program: the class is what they make of the namespace.
bool is_own_factory(PyTypeObject* metaclass) {
  static PyObject* const rows[] = {known_object("typing.NamedTupleMeta"), known_object("typing._TypedDictMeta")};
  for (PyObject* row : rows)
    if (row == reinterpret_cast<PyObject*>(metaclass)) return true;
  return false;
}

/// The namespace that the body of a statement fills.
DictValue* prepare(Interpreter& in, PyTypeObject* metaclass, Value* name, Value* bases, const CallArgs& keywords) {
  static PyObject* const method = PyUnicode_InternFromString("__prepare__");
  static PyObject* const plain = look_up(&PyType_Type, method);
  if (look_up(metaclass, method) == plain || is_own_factory(metaclass)) return in.dict();
  CallArgs args = keywords;
  args.positional = {name, bases};
  Value* prepared = in.call(in.get_attr(in.constant(reinterpret_cast<PyObject*>(metaclass)), method), std::move(args));
  auto* names = as<DictValue>(prepared);
  if (!names || names->type != &PyDict_Type || names->external) refuse("a class with a namespace of its own kind");
  return names;
}

Value* build_class(Interpreter& in, CallArgs& args) {
  auto* body = as<FunctionValue>(args.positional[0]);
  if (!body || body->function) refuse("__build_class__ of a function that is not a class body");
  Value* name = args.positional[1];
  CallArgs keywords;
  PyTypeObject* metaclass = nullptr;
  for (auto& [key, value] : args.keywords) {
    if (PyUnicode_CompareWithASCIIString(key.get(), "metaclass") != 0) {
      keywords.keywords.emplace_back(key, value);
      continue;
    }
    PyObject* given = in.constant_of(value);
    if (!given || !PyType_Check(given)) refuse("a metaclass that is not a class");
    metaclass = reinterpret_cast<PyTypeObject*>(given);
  }
  std::vector<Ref> given;
  for (size_t i = 2; i < args.positional.size(); ++i) given.push_back(base_object(in, args.positional[i]));
  Ref real = resolved(in, given);
  SequenceValue* bases = in.tuple({});
  bool is_resolved = PyTuple_GET_SIZE(real.get()) != static_cast<Py_ssize_t>(given.size());
  for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(real.get()); ++i) {
    PyObject* base = PyTuple_GET_ITEM(real.get(), i);
    if (!PyType_Check(base)) throw Break{BreakId::raises, "a base that is not a class"};
    is_resolved = is_resolved || base != given[static_cast<size_t>(i)].get();
    bases->items.push_back(in.constant(base));
  }
  if (!metaclass) metaclass = PyTuple_GET_SIZE(real.get()) ? Py_TYPE(PyTuple_GET_ITEM(real.get(), 0)) : &PyType_Type;
  metaclass = most_derived(in, metaclass, real.get());
  in.guards.add_class(metaclass);
  DictValue* names = prepare(in, metaclass, name, bases, keywords);
  auto* cell = as<CellValue>(in.call_function(body, {}, {.class_names = names}));
  static PyObject* const original = PyUnicode_InternFromString("__orig_bases__");
  if (is_resolved)
    in.dict_set(names, in.constant(original), in.tuple({args.positional.begin() + 2, args.positional.end()}));
  CallArgs made_of = keywords;
  made_of.positional = {name, bases, names};
  if (is_own_factory(metaclass)) {
    for (Value* base : bases->items) in.guards.add_class(reinterpret_cast<PyTypeObject*>(in.constant_of(base)));
    if (cell) refuse("a named tuple with a __class__ cell");
    return make_by_call(in, Ref::borrow(reinterpret_cast<PyObject*>(metaclass)), made_of);
  }
  Value* made = in.call(in.constant(reinterpret_cast<PyObject*>(metaclass)), std::move(made_of));
  if (cell && (!cell->contents || !in.is_same(cell->contents, made)))
    throw Break{BreakId::raises, "__class__ is not the class that was made"};
  return made;
}

/// Whether the program may make subclasses of this class in a capture.
bool may_be_base(PyTypeObject* base) {
  PyTypeObject* native = native_base(base);
  static auto* const function = reinterpret_cast<PyTypeObject*>(known_object("torch._C._FunctionBase"));
  static PyTypeObject* const plain[] = {&PyBaseObject_Type, &PyDict_Type,      &PyList_Type, &PyTuple_Type, &PySet_Type,
                                        &PyODict_Type,      &PyFrozenSet_Type, &PyType_Type, function};
  return std::find(std::begin(plain), std::end(plain), native) != std::end(plain) || is_exception_class(native);
}

/// Real code of CPython, and of libraries that change the class, looks through the bases.
void guard_bases(Interpreter& in, PyTypeObject* type) {
  for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(type->tp_mro); ++i) {
    auto* base = reinterpret_cast<PyTypeObject*>(PyTuple_GET_ITEM(type->tp_mro, i));
    in.guards.add_class(base);
    in.guards.lookups().add_all(base);
  }
}

/// Calls `__set_name__` of the class's attributes.
void call_set_name(Interpreter& in, Prototype& prototype) {
  static PyObject* const name = PyUnicode_InternFromString("__set_name__");
  Value* made = in.constant(prototype.object);
  for (auto& [key, value] : prototype.names) {
    PyTypeObject* type = in.type_of(value);
    in.guards.add_class(type);
    PyObject* found = look_up(type, name);
    if (!found || Py_TYPE(found) == &PyMethodDescr_Type) continue;
    try {
      in.call(in.bind_descriptor(found, type, value, name), arguments({made, key}));
    } catch (const Raise&) {
      throw Break{BreakId::raises, "__set_name__ raises"};
    }
  }
}

/// How a library function uses a class, beyond reading and writing its attributes by name.
struct Reach {
  bool gets = true;    // reads attributes through their descriptors
  bool shows = false;  // calls repr() of the class's attributes
};

/// The class of a dataclass field's default value; for any other object, its own class.
PyTypeObject* default_type(PyObject* held) {
  static PyObject* const field = known_object("dataclasses.Field");
  if (reinterpret_cast<PyObject*>(Py_TYPE(held)) != field) return Py_TYPE(held);
  Ref given = Ref::steal(PyObject_GetAttrString(held, "default"));
  if (!given) PyErr_Clear();
  return given ? Py_TYPE(given.get()) : Py_TYPE(held);
}

/// Breaks if the program's code would run when a library function processes the class. The function runs twice: on the
/// prototype, and on the program's class.
void refuse_own_code(PyTypeObject* type, Reach reach = {}) {
  static PyObject* const access[] = {PyUnicode_InternFromString("__getattribute__"),
                                     PyUnicode_InternFromString("__getattr__"),
                                     PyUnicode_InternFromString("__setattr__")};
  static PyObject* const get = PyUnicode_InternFromString("__get__");
  static PyObject* const show = PyUnicode_InternFromString("__repr__");
  auto has_own = [](PyTypeObject* of, PyObject* name) { return is_of_program(look_up(of, name)); };
  for (PyObject* name : access)
    if (has_own(Py_TYPE(type), name)) refuse("a library changes a class whose metaclass overrides attribute access");
  for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(type->tp_mro); ++i) {
    PyObject* names = reinterpret_cast<PyTypeObject*>(PyTuple_GET_ITEM(type->tp_mro, i))->tp_dict;
    PyObject *key, *held;
    for (Py_ssize_t position = 0; names && PyDict_Next(names, &position, &key, &held);) {
      PyTypeObject* kind = Py_TYPE(held);
      if (!(kind->tp_flags & Py_TPFLAGS_HEAPTYPE)) continue;
      if (has_own(kind, access[0]) || has_own(kind, access[1]) || (reach.gets && has_own(kind, get)) ||
          (reach.shows && (has_own(kind, show) || has_own(default_type(held), show))))
        refuse("a library changes a class with attributes whose methods would run");
    }
  }
}

/// Calls `__init_subclass__` of the bases. That of `typing.Generic` only sets type parameters on the class itself.
void call_init_subclass(Interpreter& in, Prototype& prototype, const CallArgs& keywords) {
  static PyObject* const name = PyUnicode_InternFromString("__init_subclass__");
  static PyObject* const plain = look_up(&PyBaseObject_Type, name);
  static PyObject* const generic = known_object("typing.Generic");
  auto* type = prototype.object.as<PyTypeObject>();
  std::vector<PyObject*> overriding;
  for (Py_ssize_t i = 1; i < PyTuple_GET_SIZE(type->tp_mro); ++i) {
    PyObject* base = PyTuple_GET_ITEM(type->tp_mro, i);
    PyObject* own = look_up_own(reinterpret_cast<PyTypeObject*>(base), name);
    if (own && own != plain) overriding.push_back(base);
  }
  if (overriding.empty()) {
    if (!keywords.keywords.empty()) {
      Ref name = Ref::steal(PyType_GetQualName(type));
      in.raise(PyExc_TypeError, exact_text_of(name.get()) + ".__init_subclass__() takes no keyword arguments");
    }
    return;
  }
  if (overriding[0] == generic) {
    if (overriding.size() > 1) refuse("a generic class whose bases define __init_subclass__");
    // If `Generic` is implemented in C, it calls this function with the new class.
    static PyObject* const generic_function = known_object("typing._generic_init_subclass");
    Ref bound = Ref::steal(PyObject_GetAttr(generic, name));
    PyObject* function = bound && PyMethod_Check(bound.get()) ? PyMethod_GET_FUNCTION(bound.get()) : generic_function;
    if (!function) refuse("a generic class");
    refuse_own_code(type);
    return change_prototype(in, prototype, Ref::borrow(function), keywords);
  }
  auto* super = in.arena.make<SuperValue>(type, type, in.constant(prototype.object));
  in.call(in.get_attr(super, name), keywords);
}

/// type.__new__
Value* make_class(Interpreter& in, PyTypeObject* metaclass, CallArgs args) {
  static PyObject* const cell_name = PyUnicode_InternFromString("__classcell__");
  static PyObject* const module_name = PyUnicode_InternFromString("__module__");
  static PyObject* const own_name = PyUnicode_InternFromString("__name__");
  PyObject* name = in.constant_of(args.positional[0]);
  auto* names = as<DictValue>(args.positional[2]);
  if (!name || !PyUnicode_CheckExact(name) || !names || names->type != &PyDict_Type)
    refuse("a class made with an argument that is not known");
  Statement statement{in.constant(name), nullptr, {}};
  SequenceValue* bases = in.tuple({});
  if (in.type_of(args.positional[1]) != &PyTuple_Type)
    in.raise(PyExc_TypeError,
             std::string("type.__new__() argument 2 must be tuple, not ") + in.type_of(args.positional[1])->tp_name);
  for (Value* base : in.unpack(args.positional[1])) {
    PyObject* object = in.constant_of(base);
    if (!object || !PyType_Check(object)) refuse("a class with a base that is not known");
    auto* type = reinterpret_cast<PyTypeObject*>(object);
    if (!may_be_base(type)) throw Break{BreakId::unknown_call, std::string("a subclass of ") + type->tp_name};
    guard_bases(in, type);
    bases->items.push_back(in.constant(object));
  }
  statement.bases = bases;
  Ref real = surrogate(in, bases);
  if (in.prototypes.find(reinterpret_cast<PyObject*>(metaclass)))
    refuse("a class of a metaclass that the program made");
  static PyObject* const order = PyUnicode_InternFromString("mro");
  if (look_up(metaclass, order) != look_up(&PyType_Type, order)) refuse("a class of a metaclass that defines mro()");
  if (most_derived(in, metaclass, real.get()) != metaclass) refuse("a class whose metaclass is not that of its bases");
  CellValue* cell = nullptr;
  bool has_module = false;
  for (auto& [key, value] : mapping_items(in, names)) {
    PyObject* text = in.constant_of(key);
    if (!text || !PyUnicode_CheckExact(text)) refuse("a class with attribute names that are not str");
    if (PyUnicode_Compare(text, cell_name) == 0) {
      cell = as<CellValue>(value);
      continue;
    }
    if (value->kind == Kind::Cell) refuse("a class that keeps its namespace");
    has_module = has_module || PyUnicode_Compare(text, module_name) == 0;
    statement.names.emplace_back(key, value);
  }
  // `__module__` is that of the frame which makes the class.
  if (!has_module)
    if (PyObject* module = PyDict_GetItemWithError(in.frames.current()->globals, own_name))
      statement.names.emplace_back(in.constant(module_name), in.constant(module));
  Prototype& prototype = make_by_statement(in, Ref::borrow(reinterpret_cast<PyObject*>(metaclass)), statement);
  if (cell) store_cell(in, cell, in.constant(prototype.object));
  call_set_name(in, prototype);
  CallArgs keywords;
  keywords.keywords = std::move(args.keywords);
  call_init_subclass(in, prototype, keywords);
  refresh_surrogates(in, prototype.object.as<PyTypeObject>());
  return in.constant(prototype.object);
}

Value* type_new(Interpreter& in, CallArgs& args) {
  PyObject* metaclass = in.constant_of(args.positional[0]);
  if (!metaclass || !PyType_Check(metaclass)) refuse("type.__new__ of a metaclass that is not known");
  CallArgs rest = args;
  rest.positional.erase(rest.positional.begin());
  if (rest.positional.size() != 3) refuse("type.__new__ without a namespace");
  return make_class(in, reinterpret_cast<PyTypeObject*>(metaclass), std::move(rest));
}
Value* type_call(Interpreter& in, CallArgs& args) {
  if (args.positional.size() == 1 && args.keywords.empty())
    return in.constant(reinterpret_cast<PyObject*>(in.type_of(args.positional[0])));
  if (args.positional.size() != 3) in.raise(PyExc_TypeError, "type() takes 1 or 3 arguments");
  return make_class(in, &PyType_Type, args);
}

Value* nothing(Interpreter& in, CallArgs&) { return in.none(); }
Value* new_namespace(Interpreter& in, CallArgs&) { return in.dict(); }

/// The first argument if it is a prototype, otherwise null.
Prototype* first_prototype(Interpreter& in, const CallArgs& args) {
  PyObject* object = args.positional.empty() ? nullptr : in.constant_of(args.positional[0]);
  return object && PyType_Check(object) ? in.prototypes.find(object) : nullptr;
}
CallArgs behind_first(const CallArgs& args) {
  CallArgs rest = args;
  rest.positional.erase(rest.positional.begin());
  return rest;
}

/// Models a library function that only changes the class it is given.
template <const char* const& kPath>
Value* change_within(Interpreter& in, CallArgs& args, Reach reach) {
  Prototype* prototype = first_prototype(in, args);
  if (!prototype) return nullptr;
  refuse_own_code(prototype->object.as<PyTypeObject>(), reach);
  change_prototype(in, *prototype, Ref::borrow(known_object(kPath)), behind_first(args));
  return args.positional[0];
}
template <const char* const& kPath>
Value* change(Interpreter& in, CallArgs& args) {
  return change_within<kPath>(in, args, {});
}
constexpr const char* kAbcInit = "_abc._abc_init";
constexpr const char* kTotalOrdering = "functools.total_ordering";
constexpr const char* kUpdateAbstract = "abc.update_abstractmethods";
constexpr const char* kFunctionInit = "torch.autograd.function.FunctionMeta.__init__";
constexpr const char* kProcess = "dataclasses._process_class";

bool has_abstract_base(PyTypeObject* type) {
  for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(type->tp_bases); ++i)
    if (reinterpret_cast<PyTypeObject*>(PyTuple_GET_ITEM(type->tp_bases, i))->tp_flags & Py_TPFLAGS_IS_ABSTRACT)
      return true;
  return false;
}
Value* abc_init(Interpreter& in, CallArgs& args) {
  // The function reads attributes that a base declares abstract.
  Prototype* made = first_prototype(in, args);
  if (!made) refuse(kAbcInit);
  const bool wants = has_abstract_base(made->object.as<PyTypeObject>());
  change_within<kAbcInit>(in, args, {.gets = wants});
  return in.none();
}
Value* process_dataclass(Interpreter& in, CallArgs& args) {
  // With slots=True, dataclass returns a new class.
  constexpr size_t kSlots = 9;
  Value* slots = argument(args, kSlots, "slots");
  if (first_prototype(in, args) && slots && in.truth(slots)) refuse("a dataclass with slots");
  // The class's docstring contains the repr() of its fields' default values.
  return change_within<kProcess>(in, args, {.shows = true});
}

/// `FunctionMeta.__init__`, which a statement of an autograd function calls. It sets one attribute of the new class:
/// the class of its backward nodes.
Value* init_autograd_function(Interpreter& in, CallArgs& args) {
  if (!change_within<kFunctionInit>(in, args, {.gets = false})) refuse(kFunctionInit);
  return in.none();
}

Value* set_on_class(Interpreter& in, CallArgs& args) {
  PyObject* name = in.constant_of(args.positional[1]);
  if (!first_prototype(in, args) || !name || !PyUnicode_Check(name)) refuse("type.__setattr__");
  set_prototype_attr(in, *first_prototype(in, args), name, args.positional[2]);
  return in.none();
}

Value* make_static(Interpreter& in, CallArgs& args) {
  return make_by_call(in, Ref::borrow(reinterpret_cast<PyObject*>(&PyStaticMethod_Type)), args);
}
Value* make_class_method(Interpreter& in, CallArgs& args) {
  return make_by_call(in, Ref::borrow(reinterpret_cast<PyObject*>(&PyClassMethod_Type)), args);
}
Value* make_property(Interpreter& in, CallArgs& args) {
  return make_by_call(in, Ref::borrow(reinterpret_cast<PyObject*>(&PyProperty_Type)), args);
}
template <const char* const& kPath>
Value* copy_property(Interpreter& in, CallArgs& args) {
  if (!in.constant_of(args.positional[0])) refuse("a property of another class");
  return make_by_call(in, Ref::borrow(known_object(kPath)), args);
}
constexpr const char* kSetter = "builtins.property.setter";
constexpr const char* kGetter = "builtins.property.getter";
constexpr const char* kDeleter = "builtins.property.deleter";

constexpr ModelRow kRows[] = {
    {"builtins.__build_class__", build_class, 2, ModelRow::kAny, "*"},
    {"builtins.type", type_call, 1, 3, "*"},
    {"builtins.type.__new__", type_new, 1, 4, "*"},
    {"builtins.type.__init__", nothing, 1, 4, "*"},
    {"builtins.type.__prepare__", new_namespace, 0, ModelRow::kAny, "*"},
    {"builtins.type.__setattr__", set_on_class, 3, 3},
    {"builtins.object.__init_subclass__", nothing, 1, 1},
    {kAbcInit, abc_init, 1, 1},
    {kTotalOrdering, change<kTotalOrdering>, 1, 1},
    {kUpdateAbstract, change<kUpdateAbstract>, 1, 1},
    {kFunctionInit, init_autograd_function, 4, 4},
    {kProcess, process_dataclass, 1, ModelRow::kAny, "*"},
    {"builtins.staticmethod", make_static, 1, 1},
    {"builtins.classmethod", make_class_method, 1, 1},
    {"builtins.property", make_property, 0, 4, "fget fset fdel doc"},
    {kSetter, copy_property<kSetter>, 2, 2},
    {kGetter, copy_property<kGetter>, 2, 2},
    {kDeleter, copy_property<kDeleter>, 2, 2},
};

}  // namespace

std::span<const ModelRow> class_models() { return kRows; }

}  // namespace stator::capture
