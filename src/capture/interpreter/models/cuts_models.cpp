// torch.narrow and torch.tensor_split with positions that are given as a tensor. The operators of a graph take them as
// integers. So the tensor must be an input: its integers are read at capture, and guarded.
#include <algorithm>

#include "capture/interpreter/protocol/arguments.h"
#include "capture/interpreter/protocol/models.h"
#include "capture/interpreter/state/known_types.h"
#include "capture/interpreter/torch/symbolic_numbers.h"

namespace stator::capture {
namespace {

bool has_dtype(Interpreter& in, TensorValue* tensor, PyObject* dtype) {
  static PyObject* const name = PyUnicode_InternFromString("dtype");
  return in.constant_of(in.get_attr(tensor, name)) == dtype;
}

int64_t rank_of(Interpreter& in, TensorValue* tensor) {
  static PyObject* const name = PyUnicode_InternFromString("ndim");
  return PyLong_AsLongLong(in.constant_of(in.get_attr(tensor, name)));
}

Value* positions_in(Interpreter& in, TensorValue* tensor) {
  Value* known = known_integers(in, tensor);
  if (!known) needs_number(in, tensor, "says where a tensor is cut");
  return known;
}

/// `(self, dim, start, length)`
template <const char* const& kPath>
Value* narrow(Interpreter& in, CallArgs& args) {
  static PyObject* const callable = known_object(kPath);
  static PyObject* const dtypes[] = {known_object("torch.int64"), known_object("torch.int32")};
  auto replaced = [&](Value* given) -> Value* {
    auto* start = as<TensorValue>(given);
    if (!start || rank_of(in, start) != 0) return given;
    const bool is_integer =
        std::any_of(std::begin(dtypes), std::end(dtypes), [&](PyObject* dtype) { return has_dtype(in, start, dtype); });
    return is_integer ? positions_in(in, start) : given;
  };
  constexpr size_t kStart = 2;
  if (args.positional.size() > kStart) args.positional[kStart] = replaced(args.positional[kStart]);
  for (auto& [name, value] : args.keywords)
    if (PyUnicode_CompareWithASCIIString(name.get(), "start") == 0) value = replaced(value);
  return in.call_torch(callable, args);
}

/// `(self, tensor_indices_or_sections, dim)`: the number of parts, or where they end.
template <const char* const& kPath>
Value* tensor_split(Interpreter& in, CallArgs& args) {
  static PyObject* const callable = known_object(kPath);
  static PyObject* const int64 = known_object("torch.int64");
  auto known = [&](Value* given) -> Value* {
    auto* tensor = as<TensorValue>(given);
    if (!tensor || rank_of(in, tensor) > 1 || !has_dtype(in, tensor, int64)) return nullptr;
    const bool is_list = rank_of(in, tensor) == 1;
    Value* found = positions_in(in, tensor);
    return is_list && in.type_of(found) == &PyLong_Type ? in.tuple({found}) : found;
  };
  if (args.positional.size() > 1)
    if (Value* found = known(args.positional[1])) args.positional[1] = found;
  for (auto& [name, value] : args.keywords) {
    if (PyUnicode_CompareWithASCIIString(name.get(), "tensor_indices_or_sections") != 0) continue;
    Value* found = known(value);
    if (!found) continue;
    value = found;
    name = Ref::steal(PyUnicode_InternFromString(in.type_of(found) == &PyLong_Type ? "sections" : "indices"));
  }
  return in.call_torch(callable, args);
}

constexpr const char* kNarrow = "torch.narrow";
constexpr const char* kNarrowMethod = "torch._C.TensorBase.narrow";
constexpr const char* kSplit = "torch.tensor_split";
constexpr const char* kSplitMethod = "torch._C.TensorBase.tensor_split";

constexpr ModelRow kRows[] = {
    {kNarrow, narrow<kNarrow>, 0, ModelRow::kAny, "*"},
    {kNarrowMethod, narrow<kNarrowMethod>, 0, ModelRow::kAny, "*"},
    {kSplit, tensor_split<kSplit>, 0, ModelRow::kAny, "*"},
    {kSplitMethod, tensor_split<kSplitMethod>, 0, ModelRow::kAny, "*"},
};

}  // namespace

std::span<const ModelRow> cut_models() { return kRows; }

}  // namespace stator::capture
