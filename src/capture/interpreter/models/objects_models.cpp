// Methods of object and type.
#include "capture/interpreter/attributes/attributes.h"
#include "capture/interpreter/attributes/class_attributes.h"
#include "capture/interpreter/attributes/set_attributes.h"
#include "capture/interpreter/classes/classes.h"
#include "capture/interpreter/protocol/arguments.h"
#include "capture/interpreter/protocol/exceptions.h"
#include "capture/interpreter/protocol/models.h"
#include "capture/interpreter/protocol/special_methods.h"
#include "capture/interpreter/state/known_types.h"

namespace stator::capture {
namespace {

PyObject* attribute_name(Interpreter& in, Value* value) {
  PyObject* name = in.constant_of(value);
  if (!name) throw Break{BreakId::unknown_object, "an attribute name that is not known"};
  if (!PyUnicode_Check(name))
    in.raise(PyExc_TypeError, std::string("attribute name must be string, not '") + Py_TYPE(name)->tp_name + "'");
  return name;
}
ObjectValue* self_of(CallArgs& args, const char* method) {
  auto* object = as<ObjectValue>(args.positional[0]);
  if (!object) throw Break{BreakId::unknown_call, std::string("object.") + method};
  return object;
}

Value* set_attribute(Interpreter& in, CallArgs& args) {
  plain_set_attr(in, self_of(args, "__setattr__"), attribute_name(in, args.positional[1]), args.positional[2]);
  return in.none();
}
Value* delete_attribute(Interpreter& in, CallArgs& args) {
  plain_del_attr(in, self_of(args, "__delattr__"), attribute_name(in, args.positional[1]));
  return in.none();
}
Value* get_attribute(Interpreter& in, CallArgs& args) {
  PyObject* name = attribute_name(in, args.positional[1]);
  auto* object = as<ObjectValue>(args.positional[0]);
  if (!object && PyType_IsSubtype(in.type_of(args.positional[0]), &PyType_Type))
    throw Break{BreakId::unknown_call, "object.__getattribute__ of a class"};
  if (!object) return in.get_attr(args.positional[0], name);
  if (Value* found = generic_attr(in, object, name)) return found;
  raise_no_attribute(in, object, name);
}
bool has_own(PyTypeObject* type, const char* method, const char* path) {
  return class_lookup(type, method) != known_object(path);
}
/// property.__init__ on an instance of a subclass, made in the capture. Only methods of the subclass read its
/// functions.
Value* property_init(Interpreter& in, CallArgs& args) {
  auto* object = as<ObjectValue>(args.positional[0]);
  if (!object || object->object) throw Break{BreakId::unknown_call, "property.__init__"};
  return in.none();
}

bool has_own_init(PyTypeObject* type) { return has_own(type, "__init__", "builtins.object.__init__"); }
bool has_own_new(PyTypeObject* type) { return has_own(type, "__new__", "builtins.object.__new__"); }

// object.__init__ ignores excess arguments only if the class overrides `__new__`, and vice versa.
Value* init(Interpreter& in, CallArgs& args) {
  PyTypeObject* type = in.type_of(args.positional[0]);
  if (args.count() > 1 && (has_own_init(type) || !has_own_new(type)))
    in.raise(PyExc_TypeError, (has_own_init(type) ? "object" : std::string(type->tp_name)) +
                                  ".__init__() takes exactly one argument (the instance to initialize)");
  return in.none();
}
PyTypeObject* made_class(Interpreter& in, CallArgs& args) {
  PyObject* cls = in.constant_of(args.positional[0]);
  if (!cls || !PyType_Check(cls)) throw Break{BreakId::unknown_call, "__new__ of something that is not a class"};
  return reinterpret_cast<PyTypeObject*>(cls);
}
Value* get_class_attribute(Interpreter& in, CallArgs& args) {
  PyObject* name = attribute_name(in, args.positional[1]);
  if (Value* found = plain_class_attr(in, made_class(in, args), name)) return found;
  raise_no_attribute(in, args.positional[0], name);
}
Value* make(Interpreter& in, CallArgs& args) { return new_instance(in, made_class(in, args)); }
Value* make_object(Interpreter& in, CallArgs& args) {
  PyTypeObject* type = made_class(in, args);
  if (args.count() > 1 && (has_own_new(type) || !has_own_init(type)))
    in.raise(PyExc_TypeError, has_own_new(type)
                                  ? "object.__new__() takes exactly one argument (the type to instantiate)"
                                  : std::string(type->tp_name) + "() takes no arguments");
  return new_instance(in, type);
}
/// BaseException.__new__ stores its arguments.
Value* new_base_exception(Interpreter& in, CallArgs& args) {
  PyTypeObject* type = made_class(in, args);
  if (!is_exception_class(type)) throw Break{BreakId::raises, "BaseException.__new__ of another class"};
  return new_exception(in, type, arguments({args.positional.begin() + 1, args.positional.end()}));
}
Value* with_traceback(Interpreter& in, CallArgs& args) {
  auto* exception = as<ObjectValue>(args.positional[0]);
  if (!exception || exception->object) throw Break{BreakId::mutation, "the traceback of an external exception"};
  static PyObject* const name = PyUnicode_InternFromString("__traceback__");
  plain_set_attr(in, exception, name, args.positional[1]);
  return exception;
}
Value* add_note(Interpreter& in, CallArgs& args) {
  static PyObject* const notes = PyUnicode_InternFromString("__notes__");
  auto* exception = as<ObjectValue>(args.positional[0]);
  PyObject* text = in.constant_of(args.positional[1]);
  if (!exception || exception->object || !text || !PyUnicode_Check(text))
    throw Break{BreakId::raises, "BaseException.add_note"};
  Value* known = own_attr(in, exception, notes);
  if (!known) plain_set_attr(in, exception, notes, known = in.list({}));
  in.call_method(known, "append", {args.positional[1]});
  return in.none();
}
Value* bound_method(Interpreter& in, CallArgs& args) {
  return in.arena.make<MethodValue>(args.positional[0], args.positional[1]);
}
Value* call_class(Interpreter& in, CallArgs& args) {
  CallArgs rest = args;
  rest.positional.erase(rest.positional.begin());
  return make_instance(in, made_class(in, args), std::move(rest));
}
Value* instance_check(Interpreter& in, CallArgs& args) {
  return in.boolean(is_plain_instance(in, args.positional[1], made_class(in, args)));
}
Value* subclass_check(Interpreter& in, CallArgs& args) {
  PyObject* asked = in.constant_of(args.positional[1]);
  if (!asked || !PyType_Check(asked)) throw Break{BreakId::unknown_call, "type.__subclasscheck__ of another object"};
  return in.boolean(PyType_IsSubtype(reinterpret_cast<PyTypeObject*>(asked), made_class(in, args)));
}
Value* init_namespace(Interpreter& in, CallArgs& args) {
  for (auto& [name, value] : args.keywords) plain_set_attr(in, self_of(args, "__init__"), name.get(), value);
  return in.none();
}
/// SimpleNamespace.__eq__: compares the attributes.
Value* equal_namespaces(Interpreter& in, CallArgs& args) {
  auto *a = self_of(args, "__eq__"), *b = as<ObjectValue>(args.positional[1]);
  if (!b || b->type != a->type) return in.constant(Py_NotImplemented);
  return in.compare(Py_EQ, instance_dict(in, a), instance_dict(in, b));
}
Value* equal(Interpreter& in, CallArgs& args) {
  if (in.is_same(args.positional[0], args.positional[1])) return in.boolean(true);
  return in.constant(Py_NotImplemented);
}
Value* not_equal(Interpreter& in, CallArgs& args) {
  Value* same = in.call(type_method(in, args.positional[0], PyUnicode_InternFromString("__eq__")),
                        arguments({args.positional[1]}));
  if (is_not_implemented(in, same)) return same;
  return in.boolean(!in.truth(same));
}

constexpr ModelRow kRows[] = {
    {"builtins.object.__setattr__", set_attribute, 3, 3},
    {"builtins.object.__delattr__", delete_attribute, 2, 2},
    {"builtins.object.__getattribute__", get_attribute, 2, 2},
    {"builtins.type.__getattribute__", get_class_attribute, 2, 2},
    {"types.ModuleType.__getattribute__", get_attribute, 2, 2},
    {"builtins.property.__init__", property_init, 1, 5, "fget fset fdel doc"},
    {"builtins.object.__init__", init, 1, ModelRow::kAny, "*"},
    {"builtins.object.__new__", make_object, 1, ModelRow::kAny, "*"},
    {"builtins.BaseException.__new__", new_base_exception, 1, ModelRow::kAny, "*"},
    {"builtins.BaseException.with_traceback", with_traceback, 2, 2},
    {"builtins.BaseException.add_note", add_note, 2, 2},
    {"builtins.dict.__new__", make, 1, ModelRow::kAny, "*"},
    {"builtins.list.__new__", make, 1, ModelRow::kAny, "*"},
    {"builtins.set.__new__", make, 1, ModelRow::kAny, "*"},
    {"builtins.object.__eq__", equal, 2, 2},
    {"types.MethodType", bound_method, 2, 2},
    {"builtins.type.__call__", call_class, 1, ModelRow::kAny, "*"},
    {"builtins.type.__instancecheck__", instance_check, 2, 2},
    {"builtins.type.__subclasscheck__", subclass_check, 2, 2},
    {"types.SimpleNamespace.__init__", init_namespace, 1, 1, "*"},
    {"types.SimpleNamespace.__eq__", equal_namespaces, 2, 2},
    {"builtins.object.__ne__", not_equal, 2, 2},
};

}  // namespace

std::span<const ModelRow> object_models() { return kRows; }

}  // namespace stator::capture
