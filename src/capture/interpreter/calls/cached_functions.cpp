#include "capture/interpreter/calls/cached_functions.h"

#include <algorithm>

#include "capture/guards/literals.h"
#include "capture/interpreter/protocol/arguments.h"
#include "capture/interpreter/state/known_types.h"
#include "capture/pycompat/hidden.h"

namespace stator::capture {
namespace {

/// One call of a cached function.
class CachedCall {
 public:
  CachedCall(Interpreter& in, ConstantValue* callee, CallArgs args)
      : in_(in), callee_(callee), function_(callee->object.get()), args_(std::move(args)) {
    wrapped_ = Ref::steal(PyObject_GetAttrString(function_, "__wrapped__"));
    make_key();
  }

  Value* run() {
    if (!guarded_key_) return run_body(false);
    for (const CacheFill& fill : in_.effects.cache_fills)
      if (fill.function == function_ && fill.key && PyObject_RichCompareBool(fill.key.get(), key_.get(), Py_EQ) == 1) {
        replay({});
        return fill.result;
      }
    PyObject* kept = stator_cached(function_, key_.get());
    // A full cache evicts an entry for each new one.
    const bool may_be_gone = stator_cache_limit(function_) >= 0 && fills() > 0;
    return kept && !may_be_gone ? hit(kept) : run_body(kept);
  }

 private:
  [[noreturn]] void refuse() const {
    throw Break{BreakId::unknown_call, "a cached function: " + name_of(wrapped_.get())};
  }

  /// Makes the key if all arguments are literals or instances that compare by identity: then the lookup runs no code of
  /// the program.
  void make_key() {
    std::vector<Ref> owned;
    for (Value* value : args_.positional) owned.push_back(part_of_key(value));
    Ref names =
        args_.keywords.empty() ? Ref() : Ref::steal(PyTuple_New(static_cast<Py_ssize_t>(args_.keywords.size())));
    for (size_t i = 0; i < args_.keywords.size(); ++i) {
      PyTuple_SET_ITEM(names.get(), static_cast<Py_ssize_t>(i), Ref(args_.keywords[i].first).release());
      owned.push_back(part_of_key(args_.keywords[i].second));
    }
    std::vector<PyObject*> objects;
    for (const Ref& part : owned) objects.push_back(part.get());
    if (std::find(objects.begin(), objects.end(), nullptr) != objects.end()) return;
    key_ =
        Ref::steal(stator_cache_key(function_, objects.data(), static_cast<Py_ssize_t>(objects.size()), names.get()));
    // An argument without a hash is an error of the program.
    if (key_ && PyObject_Hash(key_.get()) == -1) key_ = Ref();
    PyErr_Clear();
    if (key_) guarded_key_ = Ref::steal(stator_weak_key(key_.get(), is_literal));
  }

  /// A literal, or an instance that compares by identity, which is guarded; null for anything else.
  Ref part_of_key(Value* value) {
    Ref literal = in_.literal_of(value);
    if (literal && is_literal(literal.get())) return literal;
    auto* object = as<ObjectValue>(value);
    if (!object || !object->object || !object->source || !PyType_SUPPORTS_WEAKREFS(object->type)) return {};
    if (object->type->tp_hash != PyBaseObject_Type.tp_hash ||
        object->type->tp_richcompare != PyBaseObject_Type.tp_richcompare)
      return {};
    in_.guards.add_class(object->type);
    in_.guards.add(object->source, FactKind::Identity, object->object.get());
    return object->object;
  }

  Source* source() const {
    return callee_->source ? callee_->source : in_.guards.sources().pinned(function_, name_of(wrapped_.get()).c_str());
  }

  Value* hit(PyObject* kept) {
    Value* result =
        in_.wrap(kept, in_.guards.sources().child(source(), SourceKind::Cached, 0, guarded_key_.get(), kept));
    replay({});
    return result;
  }

  /// Interprets the body. If it is pure and gives a literal, it matters not whether the cache has the result: the plan
  /// calls the function, for the cache's order and counters. Otherwise the plan puts the result into the cache.
  Value* run_body(bool may_be_kept) {
    const size_t nodes = in_.torch.tracer.node_count(), effects = in_.effects.size();
    const uint64_t changes = in_.effects.changes();
    Value* result = nullptr;
    try {
      result = in_.call(in_.wrap(wrapped_.get(), in_.guards.sources().pinned(wrapped_.get(), "__wrapped__")), args_);
    } catch (const Raise&) {
      refuse();  // such a call is counted, and nothing is cached
    }
    bool is_pure =
        in_.torch.tracer.node_count() == nodes && in_.effects.changes() == changes && result->kind == Kind::Constant;
    // The plan's call of this function repeats the calls of cached functions inside it.
    for (size_t i = effects; i < in_.effects.size(); ++i) {
      auto* target = as<ConstantValue>(in_.effects[i].target);
      is_pure = is_pure && target && Py_TYPE(target->object.get()) == lru_cache_type();
    }
    if (is_pure) {
      in_.effects.truncate(effects);
      in_.effects.cache_fills.push_back({function_, guarded_key_ ? key_ : Ref(), result});
      replay({});
      return result;
    }
    const Py_ssize_t limit = stator_cache_limit(function_);
    if (!guarded_key_ || may_be_kept || (limit >= 0 && fills() >= static_cast<size_t>(limit))) refuse();
    in_.guards.add(source(), FactKind::NotCached, guarded_key_.get());
    in_.effects.cache_fills.push_back({function_, key_, result});
    replay({result});
    return result;
  }

  size_t fills() const {
    return std::count_if(in_.effects.cache_fills.begin(), in_.effects.cache_fills.end(),
                         [&](const CacheFill& fill) { return fill.function == function_; });
  }

  /// Has the plan make the call when it ends. `result`: the result of the body, which then does not run; or empty.
  void replay(std::vector<Value*> result) {
    static PyObject* const call = known_object("stator._C.call_cached");
    if (result.empty() && args_.keywords.empty()) return in_.replay_method(callee_, "__call__", args_.positional);
    DictValue* keywords = in_.dict();
    for (auto& [name, value] : args_.keywords) in_.dict_set(keywords, in_.constant(name), value);
    std::vector<Value*> given = {callee_, in_.tuple(args_.positional), keywords};
    given.insert(given.end(), result.begin(), result.end());
    in_.replay_method(in_.constant(call), "__call__", std::move(given));
  }

  Interpreter& in_;
  ConstantValue* callee_;
  PyObject* function_;
  CallArgs args_;
  Ref wrapped_, key_;
  Ref guarded_key_;  // the key with weak references to instances, for guards
};

}  // namespace

Value* call_cached(Interpreter& in, ConstantValue* callee, CallArgs args) {
  return CachedCall(in, callee, std::move(args)).run();
}

}  // namespace stator::capture
