#include "capture/interpreter/torch/number_subscripts.h"

#include <algorithm>
#include <iterator>

#include "capture/interpreter/protocol/arguments.h"
#include "capture/interpreter/protocol/varying_numbers.h"
#include "capture/interpreter/state/known_types.h"
#include "capture/interpreter/torch/symbolic_numbers.h"

namespace stator::capture {
namespace {

PyObject* dtype_of(Interpreter& in, TensorValue* tensor) {
  static PyObject* const name = PyUnicode_InternFromString("dtype");
  return in.constant_of(in.get_attr(tensor, name));
}

/// Whether a tensor can be an integer index. A tensor of bytes may be a mask.
bool is_index(Interpreter& in, Value* value) {
  static PyObject* const dtypes[] = {known_object("torch.int64"), known_object("torch.int32"),
                                     known_object("torch.int16"), known_object("torch.int8")};
  if (is_symbolic_number(value)) return in.type_of(value) == &PyLong_Type;
  auto* tensor = as<TensorValue>(value);
  return tensor && TorchTracer::has_no_dimensions(in.fake_of(tensor)) &&
         std::find(std::begin(dtypes), std::end(dtypes), dtype_of(in, tensor)) != std::end(dtypes);
}

bool is_none(Interpreter& in, Value* value) {
  return value->kind == Kind::Constant && in.constant_of(value) == Py_None;
}

bool is_ellipsis(Interpreter& in, Value* value) {
  return value->kind == Kind::Constant && in.constant_of(value) == Py_Ellipsis;
}

bool is_plain_int(Interpreter& in, Value* value) {
  PyObject* constant = value->kind == Kind::Constant ? in.constant_of(value) : nullptr;
  return constant && PyLong_CheckExact(constant);
}

/// Whether the item of the key gives a view; sets `depends` if its value depends on data.
bool makes_view(Interpreter& in, Value* item, bool& depends) {
  auto is_bound = [&](Value* bound) {
    const bool by_data = is_index(in, bound);
    depends = depends || by_data;
    return by_data || is_none(in, bound) || is_plain_int(in, bound);
  };
  if (auto* slice = as<SliceValue>(item)) {
    const bool has_step = !is_none(in, slice->step);
    if (has_step && !(is_plain_int(in, slice->step) && PyLong_AsLongLong(in.constant_of(slice->step)) > 0))
      return false;
    return is_bound(slice->start) && is_bound(slice->stop);
  }
  return is_ellipsis(in, item) || is_bound(item);
}

Value* number_of(Interpreter& in, Value* value) {
  auto* tensor = as<TensorValue>(value);
  return tensor ? tensor_number(in, tensor) : value;
}

int64_t dimensions(Interpreter& in, TensorValue* tensor) {
  static PyObject* const name = PyUnicode_InternFromString("ndim");
  return PyLong_AsLongLong(in.constant_of(in.get_attr(tensor, name)));
}

}  // namespace

Value* subscript_by_numbers(Interpreter& in, TensorValue* tensor, Value* key) {
  std::vector<Value*> items{key};
  if (auto* sequence = as_sequence(key)) {
    if (key->kind != Kind::Tuple) return nullptr;
    items.clear();
    for (size_t i = 0; i < sequence->items.size(); ++i) items.push_back(in.item(sequence, i));
  }
  for (Value*& item : items) {
    item = graph_number(in, item);
    auto* slice = as<SliceValue>(item);
    if (!slice) continue;
    Value *start = graph_number(in, slice->start), *stop = graph_number(in, slice->stop);
    if (start != slice->start || stop != slice->stop) item = in.arena.make<SliceValue>(start, stop, slice->step);
  }
  bool depends = false;
  int64_t used = 0, gaps = 0;  // dimensions that the key indexes, and ellipses
  for (Value* item : items) {
    if (!makes_view(in, item, depends)) return nullptr;
    const bool is_gap = is_ellipsis(in, item);
    gaps += is_gap;
    used += !is_gap && !is_none(in, item);
  }
  if (!depends || gaps > 1) return nullptr;
  const int64_t free = dimensions(in, tensor) - used;
  if (free < 0) throw Break{BreakId::raises, "too many indices for a tensor"};
  Value* view = tensor;
  int64_t dim = 0;
  for (Value* item : items) {
    if (auto* slice = as<SliceValue>(item)) {
      view = in.call_torch(known_object("torch.ops.aten.slice.Tensor"),
                           arguments({view, in.integer(dim++), number_of(in, slice->start), number_of(in, slice->stop),
                                      is_none(in, slice->step) ? in.integer(1) : slice->step}));
    } else if (is_none(in, item)) {
      view = in.call_torch(known_object("torch.unsqueeze"), arguments({view, in.integer(dim++)}));
    } else if (is_ellipsis(in, item)) {
      dim += free;
    } else {
      view = in.call_torch(known_object("torch.select"), arguments({view, in.integer(dim), number_of(in, item)}));
    }
  }
  return view;
}

}  // namespace stator::capture
