// `__get__`, `__set__` and `__delete__` of descriptors, called by name.
#include "capture/interpreter/attributes/attributes.h"
#include "capture/interpreter/attributes/set_attributes.h"
#include "capture/interpreter/models/model.h"

namespace stator::capture {
namespace {

/// A descriptor of a C class and the value it is asked of.
struct Asked {
  PyObject* descriptor;
  PyObject* name;
  PyTypeObject* type;  // of the value
};

Asked asked_of(Interpreter& in, Value* descriptor, Value* value) {
  PyObject* object = in.constant_of(descriptor);
  if (!object) throw Break{BreakId::unknown_call, "a descriptor that is not known"};
  auto* described = reinterpret_cast<PyDescrObject*>(object);
  PyTypeObject* type = in.type_of(value);
  if (!PyType_IsSubtype(type, described->d_type))
    throw Break{BreakId::raises, "a descriptor is asked of an object of another class"};
  in.guard_class(type);
  return {object, described->d_name, type};
}

/// Fields are read and written by name, so the name has to lead to this very descriptor.
Asked field_of(Interpreter& in, Value* descriptor, Value* value) {
  Asked asked = asked_of(in, descriptor, value);
  if (_PyType_Lookup(asked.type, asked.name) != asked.descriptor)
    throw Break{BreakId::unknown_call, "a descriptor that another one of the same name hides"};
  return asked;
}

/// Whether `__get__` is asked of the class itself, which gives the descriptor.
bool is_unbound(Interpreter& in, CallArgs& args) {
  if (!in.is_same(args.positional[1], in.none())) return false;
  if (!at_or_null(args, 2) || in.is_same(args.positional[2], in.none()))
    throw Break{BreakId::raises, "__get__(None, None) is invalid"};
  return true;
}

Value* get_field(Interpreter& in, CallArgs& args) {
  Value *descriptor = args.positional[0], *value = args.positional[1];
  if (is_unbound(in, args)) return descriptor;
  Asked asked = field_of(in, descriptor, value);
  auto* object = as<ObjectValue>(value);
  Value* found = object ? generic_attr(in, object, asked.name) : in.find_attr(value, asked.name);
  if (!found) raise_no_attribute(in, value, asked.name);
  return found;
}
Value* set_field(Interpreter& in, CallArgs& args) {
  Value* value = args.positional[1];
  Asked asked = field_of(in, args.positional[0], value);
  if (auto* object = as<ObjectValue>(value))
    plain_set_attr(in, object, asked.name, args.positional[2]);
  else
    in.set_attr(value, asked.name, args.positional[2]);
  return in.none();
}
Value* delete_field(Interpreter& in, CallArgs& args) {
  auto* object = as<ObjectValue>(args.positional[1]);
  if (!object) throw Break{BreakId::unknown_call, "a descriptor that deletes"};
  plain_del_attr(in, object, field_of(in, args.positional[0], object).name);
  return in.none();
}

Value* get_method(Interpreter& in, CallArgs& args) {
  if (is_unbound(in, args)) return args.positional[0];
  Asked asked = asked_of(in, args.positional[0], args.positional[1]);
  return in.bind_descriptor(asked.descriptor, asked.type, args.positional[1], asked.name);
}
Value* get_function(Interpreter& in, CallArgs& args) {
  if (is_unbound(in, args)) return args.positional[0];
  return in.arena.make<MethodValue>(args.positional[0], args.positional[1]);
}

/// Of the three functions of a property.
Value* call_part(Interpreter& in, Value* descriptor, const char* part, std::vector<Value*> values) {
  Ref name = Ref::steal(PyUnicode_InternFromString(part));
  Value* function = in.get_attr(descriptor, name.get());
  if (in.is_same(function, in.none())) throw Break{BreakId::raises, std::string("a property without ") + part};
  return in.call(function, arguments(std::move(values)));
}
Value* get_property(Interpreter& in, CallArgs& args) {
  // Not as for other descriptors: without an instance it is the property, whatever the class.
  if (in.is_same(args.positional[1], in.none())) return args.positional[0];
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
