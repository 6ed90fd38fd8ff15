#include "capture/interpreter/protocol/weak_references.h"

#include "capture/interpreter/objects/dropped.h"
#include "capture/interpreter/state/known_types.h"
#include "capture/interpreter/state/reach.h"
#include "capture/interpreter/torch/hooks.h"

namespace stator::capture {
namespace {

bool is_proxy(const ObjectValue* object) {
  return object->type == &_PyWeakref_ProxyType || object->type == &_PyWeakref_CallableProxyType;
}

/// Whether the program's frames keep the value alive.
bool is_held(const Interpreter& in, const Value* value) {
  Reach reach;
  for (const Frame* frame = in.frames.current(); frame; frame = frame->caller) reach.add(*frame);
  reach.close();
  return reach.has(value) || (value->source && reach.has(value->source));
}

/// Breaks unless the external object is certain to be alive at this point of the program.
void require_alive(Interpreter& in, Source* source) {
  PyObject* object = source->object.get();
  if (PyDict_Check(object) && has_deferred_hooks(in)) refuse_weak(" to what may be the hooks of a tensor");
  if (may_have_dropped(in, source)) refuse_weak(" to what the program may have dropped");
}

bool hashes_by_identity(Interpreter& in, ObjectValue* object) {
  static PyObject* const hash = PyUnicode_InternFromString("__hash__");
  static PyObject* const equal = PyUnicode_InternFromString("__eq__");
  in.guards.add_class(object->type);
  return look_up(object->type, hash) == known_object("builtins.object.__hash__") &&
         look_up(object->type, equal) == known_object("builtins.object.__eq__");
}

}  // namespace

void refuse_weak(const char* what) { throw Break{BreakId::unknown_call, std::string("a weak reference") + what}; }

bool is_weak(Value* value) {
  auto* object = as<ObjectValue>(value);
  return object && (object->type == &_PyWeakref_RefType || is_proxy(object));
}

Value* weak_key(Interpreter& in, ObjectValue* reference) {
  Value* referent = reference->base;
  if (reference->object) {
    PyObject* object = PyWeakref_GET_OBJECT(reference->object.get());
    if (object == Py_None) return nullptr;
    referent = in.wrap(object, in.guards.sources().child(reference->source, SourceKind::Referent, 0, nullptr, object));
  }
  // A constant is guarded by identity. Its class must not compare in its own way either.
  if (auto* constant = as<ConstantValue>(referent)) {
    PyTypeObject* type = Py_TYPE(in.constant_of(constant));
    const bool is_plain = type->tp_hash == PyBaseObject_Type.tp_hash || type == &PyType_Type;
    return is_plain && !constant->literal ? referent : nullptr;
  }
  // Weak references to tensors are compared by `==`, which gives a tensor.
  const bool is_plain = referent->kind == Kind::Function ||
                        (referent->kind == Kind::Object && hashes_by_identity(in, static_cast<ObjectValue*>(referent)));
  return is_plain ? referent : nullptr;
}

void require_no_callback(Interpreter& in) {
  for (const Value* referent : in.objects.called_back)
    if (may_have_dropped(in, referent->source))
      throw Break{BreakId::lifetime, "an object with a weak reference that has a callback"};
}

Value* made_referent(Interpreter& in, Value* referent) {
  // Objects guarded by identity live as long as their guards hold.
  if (referent->kind == Kind::Constant || is_held(in, referent)) return referent;
  if (!referent->source || !referent->source->object) refuse_weak(" to what the program may have dropped");
  require_alive(in, referent->source);
  return referent;
}

Value* external_referent(Interpreter& in, ObjectValue* reference) {
  PyObject* object = PyWeakref_GET_OBJECT(reference->object.get());
  Source* source = in.guards.sources().child(reference->source, SourceKind::Referent, 0, nullptr, object);
  if (in.objects.contains(object)) {
    Value* known = in.wrap(object, source);
    if (is_held(in, known)) return known;
  }
  require_alive(in, source);
  return in.wrap(object, source);
}

Value* unproxied(Interpreter& in, Value* value) {
  auto* object = as<ObjectValue>(value);
  if (!object || !is_proxy(object)) return value;
  if (!object->object) return made_referent(in, object->base);
  if (PyWeakref_GET_OBJECT(object->object.get()) == Py_None)
    throw Break{BreakId::raises, "a proxy of an object that is gone"};
  return external_referent(in, object);
}

}  // namespace stator::capture
