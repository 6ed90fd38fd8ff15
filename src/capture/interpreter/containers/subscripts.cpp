// `value[key]`: read, written, deleted.
#include "capture/interpreter/containers/dicts.h"
#include "capture/interpreter/protocol/arguments.h"
#include "capture/interpreter/protocol/equality.h"
#include "capture/interpreter/protocol/exceptions.h"
#include "capture/interpreter/protocol/special_methods.h"
#include "capture/interpreter/state/known_types.h"
#include "capture/interpreter/torch/arrays.h"
#include "capture/interpreter/torch/overrides.h"
#include "capture/interpreter/torch/symbolic_numbers.h"
#include "capture/interpreter/torch/tensor_items.h"

namespace stator::capture {
namespace {

struct SliceBounds {
  Py_ssize_t start, stop, step, count;
};
SliceBounds slice_of(Interpreter& in, SliceValue* slice, size_t size) {
  auto known = [&](Value* part) {
    part = with_known_value(in, part);
    if (is_symbolic_number(part)) needs_number(in, part, "as the bound of a slice");
    return part;
  };
  if (is_symbolic_number(slice->start) || is_symbolic_number(slice->stop) || is_symbolic_number(slice->step))
    slice = in.arena.make<SliceValue>(known(slice->start), known(slice->stop), known(slice->step));
  Ref literal = in.literal_of(slice);
  if (!literal) throw Break{BreakId::unknown_object, "a slice that is not a constant"};
  SliceBounds bounds{};
  if (PySlice_Unpack(literal.get(), &bounds.start, &bounds.stop, &bounds.step) < 0) raise_current(in);
  bounds.count = PySlice_AdjustIndices(static_cast<Py_ssize_t>(size), &bounds.start, &bounds.stop, bounds.step);
  return bounds;
}

Value* sequence_item(Interpreter& in, SequenceValue* sequence, Value* key) {
  Py_ssize_t size = static_cast<Py_ssize_t>(sequence->items.size());
  if (auto* slice = as<SliceValue>(key)) {
    auto [start, stop, step, count] = slice_of(in, slice, sequence->items.size());
    if (is_exact_tuple(sequence) && step == 1 && count == size) return sequence;
    std::vector<Value*> items;
    for (Py_ssize_t i = 0; i < count; ++i) items.push_back(in.item(sequence, start + i * step));
    if (sequence->type == size_type()) {
      auto* part = in.arena.make<SequenceValue>(Kind::Tuple, sequence->type);
      part->items = std::move(items);
      return part;
    }
    return sequence->kind == Kind::List ? in.list(std::move(items)) : in.tuple(std::move(items));
  }
  key = with_known_value(in, key);
  PyObject* index = in.constant_of(key);
  if (key->kind != Kind::Object && !is_symbolic_number(key) && (!index || !PyIndex_Check(index))) {
    if (key->kind == Kind::Tensor) throw Break{BreakId::data_dependent, "a tensor as the index of a sequence"};
    in.raise(PyExc_TypeError, std::string(sequence->kind == Kind::List ? "list" : "tuple") +
                                  " indices must be integers or slices, not " + in.type_of(key)->tp_name);
  }
  Py_ssize_t at = index_of(in, key);
  if (at < 0) at += size;
  if (at < 0 || at >= size)
    in.raise(PyExc_IndexError, sequence->kind == Kind::List ? "list index out of range" : "tuple index out of range");
  return in.item(sequence, at);
}

/// The value as a list, with all its items read; null if it is none.
SequenceValue* list_to_change(Interpreter& in, Value* value) {
  auto* list = as_sequence(value);
  if (!list || list->kind != Kind::List) return nullptr;
  for (size_t i = 0; i < list->items.size(); ++i) in.item(list, i);
  return list;
}

void set_slice(Interpreter& in, SequenceValue* list, SliceValue* slice, Value* to) {
  auto [start, stop, step, count] = slice_of(in, slice, list->items.size());
  size_t size = list->items.size();
  std::vector<Value*> more = in.unpack(to);
  if (list->items.size() != size) throw Break{BreakId::mutation, "a list changes while a slice of it is set"};
  if (step == 1) {
    if (stop < start) stop = start;
    list->items.erase(list->items.begin() + start, list->items.begin() + stop);
    list->items.insert(list->items.begin() + start, more.begin(), more.end());
    return;
  }
  if (static_cast<Py_ssize_t>(more.size()) != count)
    in.raise(PyExc_ValueError, "attempt to assign sequence of size " + std::to_string(more.size()) +
                                   " to extended slice of size " + std::to_string(count));
  for (Py_ssize_t i = 0; i < count; ++i) list->items[start + i * step] = more[i];
}

/// Deletes the items of a slice. Returns whether there were any.
bool drop_slice(Interpreter& in, SequenceValue* list, SliceValue* slice) {
  auto [start, stop, step, count] = slice_of(in, slice, list->items.size());
  for (Py_ssize_t i = 0; i < count; ++i) list->items[start + i * step] = nullptr;
  std::erase(list->items, nullptr);
  return count > 0;
}

/// The index at which a list is written, or an item deleted.
Py_ssize_t index_to_change(Interpreter& in, const SequenceValue* list, Value* key) {
  Py_ssize_t at = index_of(in, key), size = static_cast<Py_ssize_t>(list->items.size());
  if (at < 0) at += size;
  if (at < 0 || at >= size) in.raise(PyExc_IndexError, "list assignment index out of range");
  return at;
}

/// `cls[key]`, by the metaclass or by `__class_getitem__`.
Value* class_item(Interpreter& in, PyTypeObject* type, Value* key) {
  static PyObject* const getitem = PyUnicode_InternFromString("__getitem__");
  static PyObject* const class_getitem = PyUnicode_InternFromString("__class_getitem__");
  Value* self = in.constant(reinterpret_cast<PyObject*>(type));
  PyObject* on_meta = look_up(Py_TYPE(type), getitem);
  in.guards.add_class(type);
  if (on_meta && !PyType_IsSubtype(Py_TYPE(type), enum_meta_type()))
    return in.call(type_method(in, self, getitem), arguments({key}));
  PyObject* found = on_meta ? nullptr : look_up(type, class_getitem);
  if (found && Py_TYPE(found) == &PyClassMethod_Type) {
    Ref inner = Ref::steal(PyObject_GetAttrString(found, "__func__"));
    // That of typing.Generic makes an alias, which is guarded by identity.
    static PyObject* const generic = known_object("typing.Generic.__class_getitem__");
    if (PyFunction_Check(inner.get()) && found != generic)
      return in.call(in.bind_descriptor(found, type, nullptr, class_getitem), arguments({key}));
  }
  Ref literal = in.literal_of(key);
  if (!literal) throw Break{BreakId::unknown_object, "subscript of a class"};
  return result_or_raise(in, PyObject_GetItem(reinterpret_cast<PyObject*>(type), literal.get()));
}

}  // namespace

Value* Interpreter::get_item(Value* value, Value* key) {
  if (auto* sequence = as_sequence(value)) return sequence_item(*this, sequence, key);
  if (value->kind == Kind::Array) return array_method(*this, "__getitem__", {value, key});
  if (value->kind == Kind::Dict || value->kind == Kind::Constant) key = with_known_value(*this, key);
  auto* tensor = as<TensorValue>(value);
  if (tensor && !class_overrides(*this, tensor, "__getitem__")) return tensor_item(*this, tensor, key);
  if (auto* dict = as<DictValue>(value)) {
    if (Value* found = dict_get(dict, key)) return found;
    if (dict->type == default_dict_type()) return missing_item(*this, dict, key);
    raise_key_error(*this, key);
  }
  if (value->kind == Kind::Constant) {
    PyObject* object = constant_of(value);
    Ref literal = literal_of(key);
    if (PyType_Check(object)) return class_item(*this, reinterpret_cast<PyTypeObject*>(object), key);
    if (literal && (static_cast<ConstantValue*>(value)->literal || is_guarded_by_identity(object)))
      return result_or_raise(*this, PyObject_GetItem(object, literal.get()));
    if (key->kind == Kind::Tensor) throw Break{BreakId::data_dependent, "a tensor as the index of a constant"};
    if (is_symbolic_number(key)) needs_number(*this, key, "as the index of a constant");
  }
  static PyObject* const getitem = PyUnicode_InternFromString("__getitem__");
  return call(type_method(*this, value, getitem), arguments({key}));
}

void Interpreter::set_item(Value* value, Value* key, Value* to) {
  if (value->kind == Kind::Array) {
    array_method(*this, "__setitem__", {value, key, to});
    return;
  }
  auto* tensor = as<TensorValue>(value);
  if (tensor && !class_overrides(*this, tensor, "__setitem__")) return set_tensor_item(*this, tensor, key, to);
  if (auto* dict = as<DictValue>(value)) {
    dict_set(dict, key, to);
    mutated(dict);
    return;
  }
  if (auto* list = list_to_change(*this, value)) {
    if (auto* slice = as<SliceValue>(key)) {
      set_slice(*this, list, slice, to);
    } else {
      const Py_ssize_t at = index_to_change(*this, list, key);
      list->items[at] = to;
    }
    mutated(list);
    return;
  }
  static PyObject* const setitem = PyUnicode_InternFromString("__setitem__");
  call(type_method(*this, value, setitem), arguments({key, to}));
}

void Interpreter::del_item(Value* value, Value* key) {
  if (auto* dict = as<DictValue>(value)) {
    if (!dict_delete(dict, key)) raise_key_error(*this, key);
    mutated(dict);
    return;
  }
  if (auto* list = list_to_change(*this, value)) {
    if (auto* slice = as<SliceValue>(key)) {
      if (!drop_slice(*this, list, slice)) return;
    } else {
      const Py_ssize_t at = index_to_change(*this, list, key);
      list->items.erase(list->items.begin() + at);
    }
    mutated(list);
    return;
  }
  static PyObject* const delitem = PyUnicode_InternFromString("__delitem__");
  call(type_method(*this, value, delitem), arguments({key}));
}

}  // namespace stator::capture
