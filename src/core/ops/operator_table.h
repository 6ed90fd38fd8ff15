#pragma once

#include <ATen/core/dispatch/Dispatcher.h>
#include <c10/util/ArrayRef.h>

#include <cstdint>
#include <string>
#include <string_view>

#include "core/base/export.h"

/// The operator table: everything Stator states about single ATen operators. The rows stand in `operators.def`, which
/// includes one file per family. This header serves the traits column; `core/fake/shape_table.h` serves the shape
/// column.
namespace stator::ops {

/// What a row states beside the shape function. An operator without a row has none of these traits.
enum Traits : uint16_t {
  None = 0,
  /// The shape function takes plain sizes and numbers only: symbolic ones are refused. Other shape functions compute
  /// with them, and ask the questions about their values that the kernel asks.
  PlainSizes = 1 << 0,
  /// The autograd kernel does more than record a node: it changes which tensors require grad, runs a backward pass or
  /// handles tangents. Holds for this overload alone.
  ChangesAutograd = 1 << 1,
  /// A fallible operator: on the CPU it may raise, depending on the data it gets.
  Fallible = 1 << 2,
  /// Fallible where the result is of integers (division by zero, a negative exponent).
  FallibleOnIntegers = 1 << 3,
  /// On floating-point tensors it accepts every plain number that the tensors' dtype holds, and raises for others.
  TakesFittingNumbers = 1 << 4,
  /// Metadata and aliasing of the results do not depend on the values of its `float` arguments. Holds for this overload
  /// alone.
  FloatsKeepLayout = 1 << 5,
  /// The same, except that a probability among them (`p`, `dropout_p`, `label_smoothing`) must be between 0 and 1, both
  /// excluded. The row has `FloatsKeepLayout` as well.
  OpenProbability = 1 << 6,
  /// Torch's compilers replace it by operators of their own that draw other random numbers, or fail on it. Graphs for
  /// them do not hold it. Holds for this overload alone.
  DiffersInCompilers = 1 << 7,
  /// In graphs of torch.fx, a Python number may stand where it takes a tensor, as in Python's arithmetic.
  TakesNumbers = 1 << 8,
  /// Gives its first argument other data, whatever that held before. Holds for this overload alone.
  Overwrites = 1 << 9,
};

/// Traits that hold for all overloads of an operator and for its in-place form. All rows of one operator repeat them.
inline constexpr Traits kSharedTraits =
    Traits(PlainSizes | Fallible | FallibleOnIntegers | TakesFittingNumbers | TakesNumbers);

constexpr Traits operator|(Traits a, Traits b) { return Traits(uint16_t(a) | uint16_t(b)); }

struct Row {
  /// Without `aten::`. "add.Tensor": that overload. "relu": the overload without a name. "linalg_*": every operator
  /// whose name begins so; such a row has shared traits only.
  std::string_view name;
  Traits traits;
  /// The row stands for all elementwise overloads of the operator; see `elementwise_form`.
  bool is_elementwise;
};

/// All rows, sorted by name.
STATOR_API c10::ArrayRef<Row> rows();

/// The traits of an operator, from all rows that match it. Cached by operator.
STATOR_API Traits traits_of(const c10::OperatorHandle& op);
inline bool has_trait(const c10::OperatorHandle& op, Traits trait) { return (traits_of(op) & trait) != 0; }

/// How an overload of an elementwise operator gives its result: a new tensor, its first argument, or an `out`
/// argument. `Other`: an elementwise row says nothing of this overload.
enum class ElementwiseForm : uint8_t { Functional, InPlace, Out, Other };
STATOR_API ElementwiseForm elementwise_form(const c10::OperatorName& name);

/// "add" for `aten::add_.Tensor`: the name without namespace, overload and the underscore of in-place forms. Empty for
/// operators that are not of ATen.
STATOR_API std::string_view base_name(const c10::OperatorName& name);
/// "add_.Tensor" for `aten::add_.Tensor`; empty for operators that are not of ATen.
STATOR_API std::string row_name(const c10::OperatorName& name);

}  // namespace stator::ops
