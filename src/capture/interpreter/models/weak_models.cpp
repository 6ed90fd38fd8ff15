// Models of `weakref`.
#include "capture/interpreter/protocol/arguments.h"
#include "capture/interpreter/protocol/models.h"
#include "capture/interpreter/protocol/weak_references.h"
#include "capture/interpreter/state/known_types.h"
#include "capture/interpreter/state/reach.h"

namespace stator::capture {
namespace {

Value* referent(Interpreter& in, CallArgs& args) {
  auto* reference = as<ObjectValue>(args.positional[0]);
  if (reference && is_made_weak(reference)) return made_referent(in, reference->base);
  if (!reference || !reference->object || !PyWeakref_CheckRef(reference->object.get())) refuse_weak("");
  return external_referent(in, reference);
}

PyTypeObject* proxy_type(bool is_callable) {
  return is_callable ? &_PyWeakref_CallableProxyType : &_PyWeakref_ProxyType;
}

Value* make_weak(Interpreter& in, const CallArgs& args, bool is_proxy) {
  Value* of = args.positional[0];
  Value* callback = at_or_null(args, 1);
  if (callback && in.is_same(callback, in.none())) callback = nullptr;
  if (callback && (is_proxy || !of->source || !of->source->object)) refuse_weak(" with a callback");
  const bool is_plain = of->kind == Kind::Object || of->kind == Kind::Function || of->kind == Kind::Constant ||
                        (!is_proxy && (of->kind == Kind::Tensor || of->kind == Kind::Dict));
  if (!is_plain || in.type_of(of) == &PyModule_Type) refuse_weak(" to such an object");
  PyTypeObject* type = in.type_of(of);
  if (!PyType_SUPPORTS_WEAKREFS(type))
    in.raise(PyExc_TypeError, std::string("cannot create weak reference to '") + type->tp_name + "' object");
  auto made = [&](PyTypeObject* cls) {
    auto* reference = in.arena.make<ObjectValue>(cls);
    reference->base = of;
    return reference;
  };
  if (is_proxy) return made(proxy_type(type->tp_call != nullptr));
  if (callback) {
    in.objects.called_back.push_back(of);
    ObjectValue* reference = made(&_PyWeakref_RefType);
    reference->cause = callback;
    return reference;
  }
  ObjectValue*& known = in.objects.weak_reference_to(of);
  if (!known) known = made(&_PyWeakref_RefType);
  return known;
}

Value* reference(Interpreter& in, CallArgs& args) { return make_weak(in, args, false); }
Value* proxy(Interpreter& in, CallArgs& args) { return make_weak(in, args, true); }

constexpr ModelRow kRows[] = {
    {"weakref.ReferenceType.__call__", referent, 1, 1},
    {"weakref.ReferenceType", reference, 1, 2},
    {"_weakref.proxy", proxy, 1, 2},
};

}  // namespace

std::span<const ModelRow> weak_models() { return kRows; }

}  // namespace stator::capture
