// copy.copy and copy.deepcopy of values. Unlike the library, the memo is keyed by value, not by address.
#include <unordered_map>

#include "capture/guards/literals.h"
#include "capture/interpreter/attributes/attributes.h"
#include "capture/interpreter/containers/sets.h"
#include "capture/interpreter/protocol/mappings.h"
#include "capture/interpreter/protocol/models.h"
#include "capture/interpreter/protocol/special_methods.h"
#include "capture/interpreter/state/known_types.h"
#include "capture/interpreter/state/nesting.h"
#include "capture/interpreter/torch/overrides.h"
#include "capture/pycompat/facts.h"

namespace stator::capture {
namespace {

/// Whether instances are copied by their attributes alone: the class defines no hook of the copy or pickle protocols.
bool copies_by_attributes(Interpreter& in, PyTypeObject* type, const char* hook) {
  in.guards.add_class(type);
  struct Row {
    const char* name;
    PyObject* plain;
  };
  static const Row rows[] = {
      {"__reduce_ex__", known_object("builtins.object.__reduce_ex__")},
      {"__reduce__", known_object("builtins.object.__reduce__")},
      {"__getstate__", known_object("builtins.object.__getstate__")},
      {"__setstate__", nullptr},
      {"__getnewargs_ex__", nullptr},
      {"__getnewargs__", nullptr},
      {"__slots__", nullptr},
  };
  for (const Row& row : rows)
    if (class_lookup(type, row.name) != row.plain) return false;
  return !class_lookup(type, hook) && type->tp_new == PyBaseObject_Type.tp_new &&
         type->tp_getattro == PyObject_GenericGetAttr;
}

class Copier {
 public:
  Copier(Interpreter& in, bool deep) : in_(in), deep_(deep) {}

  Value* copy(Value* value) {
    Nesting nesting;
    auto found = made_.find(value);
    if (found != made_.end()) return found->second;
    return made_[value] = fresh(value);
  }

 private:
  Value* part(Value* value) { return deep_ ? copy(value) : value; }

  Value* fresh(Value* value) {
    switch (value->kind) {
      case Kind::Constant:
      case Kind::Function:
        return value;
      case Kind::Tuple:
      case Kind::List: {
        auto* sequence = static_cast<SequenceValue*>(value);
        if (!deep_ && value->kind == Kind::Tuple) return value;
        SequenceValue* made = value->kind == Kind::List ? in_.list({}) : in_.tuple({});
        made->type = sequence->type;
        made_[value] = made;
        for (size_t i = 0; i < sequence->items.size(); ++i) made->items.push_back(part(in_.item(sequence, i)));
        // A tuple none of whose items was copied is returned itself.
        return value->kind == Kind::Tuple && made->items == sequence->items ? value : made;
      }
      case Kind::Dict: {
        auto* dict = static_cast<DictValue*>(value);
        if (dict->type == default_dict_type() || !is_bare(dict)) break;
        auto* made = in_.arena.make<DictValue>(dict->type);
        made_[value] = made;
        for (auto& [key, item] : mapping_items(in_, dict)) in_.dict_set(made, part(key), part(item));
        return made;
      }
      case Kind::Set: {
        auto* set = static_cast<SetValue*>(value);
        if (set->table && deep_) break;
        return set->type == &PyFrozenSet_Type ? set : set_copy(in_, set, set->type);
      }
      case Kind::Tensor:
        return tensor(static_cast<TensorValue*>(value));
      case Kind::Object:
        return object(static_cast<ObjectValue*>(value));
      default:
        break;
    }
    throw Break{BreakId::unknown_call, std::string("a copy of a ") + in_.type_of(value)->tp_name};
  }

  /// Whether the value has no instance attributes, which would be copied as well.
  bool is_bare(Value* value) {
    if (auto* dict = as<DictValue>(value); dict && dict->own) return false;
    if (!value->source || in_.type_of(value)->tp_dictoffset == 0) return true;
    if (!stator_is_bare(value->source->object.get())) return false;
    in_.guards.add(value->source, FactKind::NoAttributes);
    return true;
  }

  /// Copies a tensor that fills its storage by cloning it, with its gradient and attributes.
  Value* tensor(TensorValue* original) {
    if (is_overridden(in_, original) || !TorchTracer::is_plain_class(original->type))
      throw Break{BreakId::tensor_subclass, "a copy of a tensor whose class overrides it"};
    PyObject* fake = in_.fake_of(original);
    static PyObject* const names[] = {PyUnicode_InternFromString("is_leaf"), PyUnicode_InternFromString("grad")};
    auto attribute = [&](PyObject* name) { return in_.get_attr(original, name); };
    bool plain = deep_ && original->type == TorchTracer::tensor_type() && original->own.empty() &&
                 in_.torch.tracer.fills_storage(fake) && in_.truth(attribute(names[0])) &&
                 in_.is_same(attribute(names[1]), in_.none());
    if (!plain || !is_bare(original)) throw Break{BreakId::unknown_call, "a copy of a Tensor"};
    Value* copy = in_.call_method(in_.call_method(original, "detach", {}), "clone", {});
    static PyObject* const requires_grad = PyUnicode_InternFromString("requires_grad");
    return in_.call_method(copy, "requires_grad_", {in_.get_attr(original, requires_grad)});
  }

  Value* object(ObjectValue* original) {
    if (!copies_by_attributes(in_, original->type, deep_ ? "__deepcopy__" : "__copy__"))
      throw Break{BreakId::unknown_call, std::string("a copy of a ") + original->type->tp_name};
    auto* made = in_.arena.make<ObjectValue>(original->type);
    made->own = in_.dict();
    made_[original] = made;
    for (auto& [name, attribute] : mapping_items(in_, instance_dict(in_, original)))
      in_.dict_set(made->own, name, part(attribute));
    return made;
  }

  Interpreter& in_;
  bool deep_;
  std::unordered_map<Value*, Value*> made_;
};

Value* deepcopy(Interpreter& in, CallArgs& args) { return Copier(in, true).copy(args.positional[0]); }
Value* shallow_copy(Interpreter& in, CallArgs& args) { return Copier(in, false).copy(args.positional[0]); }

constexpr ModelRow kRows[] = {{"copy.deepcopy", deepcopy, 1, 1}, {"copy.copy", shallow_copy, 1, 1}};

}  // namespace

std::span<const ModelRow> copy_models() { return kRows; }

}  // namespace stator::capture
