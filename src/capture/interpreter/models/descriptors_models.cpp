// `__get__`, `__set__` and `__delete__` of descriptors, called by name.
#include "capture/interpreter/attributes/attributes.h"
#include "capture/interpreter/attributes/set_attributes.h"
#include "capture/interpreter/protocol/arguments.h"
#include "capture/interpreter/protocol/models.h"

namespace stator::capture {
namespace {

/// A descriptor that a C class defines, and the class of the value that it is applied to.
struct Access {
  PyObject* descriptor;
  PyObject* name;
  PyTypeObject* type;  // of the value
};

Access access_of(Interpreter& in, Value* descriptor, Value* value) {
  PyObject* object = in.constant_of(descriptor);
  if (!object) throw Break{BreakId::unknown_call, "a descriptor that is not known"};
  auto* described = reinterpret_cast<PyDescrObject*>(object);
  PyTypeObject* type = in.type_of(value);
  if (!PyType_IsSubtype(type, described->d_type))
    throw Break{BreakId::raises, "a descriptor is applied to an object of another class"};
  in.guards.add_class(type);
  return {object, described->d_name, type};
}

/// Fields are read and written by name, so a lookup of the name must give this descriptor.
Access field_of(Interpreter& in, Value* descriptor, Value* value) {
  Access access = access_of(in, descriptor, value);
  if (look_up(access.type, access.name) != access.descriptor)
    throw Break{BreakId::unknown_call, "a descriptor that is hidden by another one of the same name"};
  return access;
}

/// Whether `__get__` is called without an instance, which returns the descriptor.
bool is_unbound(Interpreter& in, CallArgs& args) {
  if (!in.is_same(args.positional[1], in.none())) return false;
  if (!at_or_null(args, 2) || in.is_same(args.positional[2], in.none()))
    throw Break{BreakId::raises, "__get__(None, None) is invalid"};
  return true;
}

Value* get_field(Interpreter& in, CallArgs& args) {
  Value *descriptor = args.positional[0], *value = args.positional[1];
  if (is_unbound(in, args)) return descriptor;
  Access access = field_of(in, descriptor, value);
  auto* object = as<ObjectValue>(value);
  Value* found = object ? generic_attr(in, object, access.name) : in.find_attr(value, access.name);
  if (!found) raise_no_attribute(in, value, access.name);
  return found;
}
Value* set_field(Interpreter& in, CallArgs& args) {
  Value* value = args.positional[1];
  Access access = field_of(in, args.positional[0], value);
  if (auto* object = as<ObjectValue>(value))
    plain_set_attr(in, object, access.name, args.positional[2]);
  else
    in.set_attr(value, access.name, args.positional[2]);
  return in.none();
}
Value* delete_field(Interpreter& in, CallArgs& args) {
  auto* object = as<ObjectValue>(args.positional[1]);
  if (!object) throw Break{BreakId::unknown_call, "__delete__ of a descriptor, for an object that is not an instance"};
  plain_del_attr(in, object, field_of(in, args.positional[0], object).name);
  return in.none();
}

Value* get_method(Interpreter& in, CallArgs& args) {
  if (is_unbound(in, args)) return args.positional[0];
  Access access = access_of(in, args.positional[0], args.positional[1]);
  return in.bind_descriptor(access.descriptor, access.type, args.positional[1], access.name);
}
Value* get_function(Interpreter& in, CallArgs& args) {
  if (is_unbound(in, args)) return args.positional[0];
  return in.arena.make<MethodValue>(args.positional[0], args.positional[1]);
}

/// Calls one of a property's functions: fget, fset or fdel.
Value* call_part(Interpreter& in, Value* descriptor, const char* part, std::vector<Value*> values) {
  Ref name = Ref::steal(PyUnicode_InternFromString(part));
  Value* function = in.get_attr(descriptor, name.get());
  if (in.is_same(function, in.none())) throw Break{BreakId::raises, std::string("a property without ") + part};
  return in.call(function, arguments(std::move(values)));
}
Value* get_property(Interpreter& in, CallArgs& args) {
  if (is_unbound(in, args)) return args.positional[0];
  return call_part(in, args.positional[0], "fget", {args.positional[1]});
}
Value* set_property(Interpreter& in, CallArgs& args) {
  call_part(in, args.positional[0], "fset", {args.positional[1], args.positional[2]});
  return in.none();
}
Value* delete_property(Interpreter& in, CallArgs& args) {
  call_part(in, args.positional[0], "fdel", {args.positional[1]});
  return in.none();
}

#define STATOR_FIELD(path) \
  {path ".__get__", get_field, 2, 3}, {path ".__set__", set_field, 3, 3}, { path ".__delete__", delete_field, 2, 2 }
constexpr ModelRow kRows[] = {
    STATOR_FIELD("types.GetSetDescriptorType"),
    STATOR_FIELD("types.MemberDescriptorType"),
    {"types.MethodDescriptorType.__get__", get_method, 2, 3},
    {"types.WrapperDescriptorType.__get__", get_method, 2, 3},
    {"types.FunctionType.__get__", get_function, 2, 3},
    {"builtins.property.__get__", get_property, 2, 3},
    {"builtins.property.__set__", set_property, 3, 3},
    {"builtins.property.__delete__", delete_property, 2, 2},
};
#undef STATOR_FIELD

}  // namespace

std::span<const ModelRow> descriptor_models() { return kRows; }

}  // namespace stator::capture
