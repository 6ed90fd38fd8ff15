#include <c10/core/DefaultDtype.h>

#include "core/base/fork_safe.h"
#include "core/fake/families/shape_helpers.h"
#include "core/fake/iterator.h"
#include "core/fake/layout.h"
#include "core/fake/rule.h"
#include "core/fake/shape_table.h"
#include "core/fake/symbolic.h"

namespace stator::fake {

namespace {

/// The dtype of a result, from the dtype the inputs are promoted to.
enum class Result { Common, Float, Bool, Real };
/// The role of the schema's Scalar arguments. Ignored: none. Promote: they take part in dtype promotion, as wrapped
/// numbers do. Operands: they become zero-dimensional operands, which promote and also take part in choosing the
/// layout.
enum class Scalars { Ignored, Promote, Operands };

at::ScalarType to_float(at::ScalarType type) {
  return c10::isIntegralType(type, /*includeBool=*/true) ? c10::get_default_dtype_as_scalartype() : type;
}

template <Result result>
at::ScalarType result_dtype(at::ScalarType common) {
  switch (result) {
    case Result::Common:
      return common;
    case Result::Float:
      return to_float(common);
    case Result::Bool:
      return at::kBool;
    case Result::Real:
      return c10::toRealValueType(common);
  }
  return common;
}

/// Collects the tensors among the arguments in [first, end), and the Scalars unless they are ignored.
template <Scalars scalars>
void gather(const Args& args, size_t first, size_t end, Inputs& inputs, c10::SmallVector<at::Scalar, 2>& numbers) {
  for (size_t i = first; i < end; ++i) {
    const c10::IValue& value = args[i];
    if (value.isTensor()) {
      if (value.toTensor().defined()) inputs.push_back(&value.toTensor());
    } else if (scalars != Scalars::Ignored && value.isScalar()) {
      numbers.push_back(value.toScalar());
    }
  }
}

ForkSafeOnce<at::Tensor>& kept_zero_dimensional = *new ForkSafeOnce<at::Tensor>;

/// An operand for a number, where only the shape of the operand matters.
const at::Tensor& zero_dimensional() {
  return kept_zero_dimensional.get([] { return make_contiguous(c10::IntArrayRef(), at::kFloat, at::kCPU); });
}

/// The dtype an operation computes in. Comparisons compute in the dtype of the inputs.
template <Result result>
at::ScalarType computed_dtype(at::ScalarType common) {
  return result == Result::Float ? to_float(common) : common;
}

/// Whether the kernel converts inputs to the common dtype first. Logical operators, among others, do not.
enum class Handling { Converted, Unconverted };

template <Result result, Scalars scalars, Handling handling>
void functional(const c10::OperatorHandle& op, torch::jit::Stack* stack) {
  Args args(op, stack);
  Inputs inputs;
  c10::SmallVector<at::Scalar, 2> numbers;
  gather<scalars>(args, 0, args.count(), inputs, numbers);
  const auto common = common_dtype(inputs, numbers);
  const auto device = common_device(inputs);
  if (scalars == Scalars::Operands) inputs.push_back(&zero_dimensional());
  c10::SmallVector<at::Tensor, 4> converted;
  if (handling == Handling::Converted) convert_inputs(inputs, computed_dtype<result>(common), converted);
  args.returns(iterate(inputs, result_dtype<result>(common), device));
}

void in_place(const c10::OperatorHandle& op, torch::jit::Stack* stack) {
  Args args(op, stack);
  Inputs inputs;
  c10::SmallVector<at::Scalar, 2> numbers;
  gather<Scalars::Ignored>(args, 0, args.count(), inputs, numbers);
  iterate_in_place(args.tensor(0), inputs);
  args.returns(args.tensor(0));
}

/// `out` is the last argument of every elementwise `out=` overload.
template <Result result, Scalars scalars, Handling handling>
void into_out(const c10::OperatorHandle& op, torch::jit::Stack* stack) {
  Args args(op, stack);
  const size_t last = args.count() - 1;
  Inputs inputs;
  c10::SmallVector<at::Scalar, 2> numbers;
  gather<scalars>(args, 0, last, inputs, numbers);
  const at::Tensor& out = args.tensor(last);
  if (!out.sym_sizes().equals(broadcast_sizes(inputs))) {
    const auto common = common_dtype(inputs, numbers);
    if (scalars == Scalars::Operands) inputs.push_back(&zero_dimensional());
    c10::SmallVector<at::Tensor, 4> converted;
    if (handling == Handling::Converted) convert_inputs(inputs, computed_dtype<result>(common), converted);
    iterate_out(out, inputs);
  }
  args.returns(out);
}

/// The shape functions of one kind of elementwise operator.
struct Elementwise {
  Rule functional;
  Rule out;

  /// The shape column of a STATOR_ELEMENTWISE row.
  constexpr operator Shape() const {
    Shape shape(functional);
    shape.in_place = in_place;
    shape.out = out;
    return shape;
  }
};

template <Result result, Scalars scalars = Scalars::Ignored, Handling handling = Handling::Converted>
constexpr Elementwise kElementwise{functional<result, scalars, handling>, into_out<result, scalars, handling>};

// Named after the dtype of the result, then after the role of Scalars.
constexpr Elementwise kCommon = kElementwise<Result::Common>;
constexpr Elementwise kCommonScalar = kElementwise<Result::Common, Scalars::Promote>;
constexpr Elementwise kCommonOperands = kElementwise<Result::Common, Scalars::Operands>;
constexpr Elementwise kFloat = kElementwise<Result::Float>;
constexpr Elementwise kFloatOperands = kElementwise<Result::Float, Scalars::Operands>;
constexpr Elementwise kBool = kElementwise<Result::Bool>;
constexpr Elementwise kBoolOperands = kElementwise<Result::Bool, Scalars::Operands>;
constexpr Elementwise kLogical = kElementwise<Result::Bool, Scalars::Ignored, Handling::Unconverted>;
constexpr Elementwise kReal = kElementwise<Result::Real, Scalars::Ignored, Handling::Unconverted>;
constexpr Elementwise kUnconverted = kElementwise<Result::Common, Scalars::Ignored, Handling::Unconverted>;

/// Division with a rounding mode stays integral; without one it is true division.
void div_mode(const c10::OperatorHandle& op, torch::jit::Stack* stack) {
  Args args(op, stack);
  Inputs inputs{&args.tensor(0), &args.tensor(1)};
  const at::ScalarType common = common_dtype(inputs);
  const at::ScalarType dtype = args.is_none(2) ? to_float(common) : common;
  c10::SmallVector<at::Tensor, 4> converted;
  convert_inputs(inputs, dtype, converted);
  args.returns(iterate(inputs, dtype, common_device(inputs)));
}

/// The condition takes part in shape and layout, not in promotion.
void where(const c10::OperatorHandle& op, torch::jit::Stack* stack) {
  Args args(op, stack);
  const at::Tensor& condition = args.tensor(0);
  const at::Tensor& self = args.tensor(1);
  const at::Tensor& other = args.tensor(2);
  TORCH_CHECK(condition.scalar_type() == at::kBool || condition.scalar_type() == at::kByte,
              "where expected condition to be a boolean tensor, but got a tensor with dtype ", condition.scalar_type());
  const auto dtype = common_dtype({&self, &other});
  Inputs values{&self, &other};
  c10::SmallVector<at::Tensor, 4> converted;
  convert_inputs(values, dtype, converted);
  const Inputs inputs{&condition, values[0], values[1]};
  args.returns(iterate(inputs, dtype, common_device(inputs)));
}

/// The angles of complex numbers are written to a new row-major tensor.
void angle(const c10::OperatorHandle& op, torch::jit::Stack* stack) {
  Args args(op, stack);
  const at::Tensor& self = args.tensor(0);
  if (!self.is_complex()) return kFloat.functional(op, stack);
  args.returns(make_contiguous(self.sym_sizes(), c10::toRealValueType(self.scalar_type()), self.device()));
}

/// abs and angle of complex numbers are first computed as complex numbers, so that `out` becomes row-major if resized.
void real_out(const c10::OperatorHandle& op, torch::jit::Stack* stack) {
  Args args(op, stack);
  const at::Tensor& self = args.tensor(0);
  const at::Tensor& out = args.tensor(1);
  if (!self.is_complex() || out.is_complex()) return kUnconverted.out(op, stack);
  resize_out(out, self.sym_sizes());
  args.returns(out);
}

/// `out` becomes row-major, with the shape of the argument at position `tensor`.
template <size_t tensor>
void contiguous_out(const c10::OperatorHandle& op, torch::jit::Stack* stack) {
  Args args(op, stack);
  const at::Tensor& out = args.tensor(args.count() - 1);
  resize_out(out, args.tensor(tensor).sym_sizes());
  args.returns(out);
}

/// The result is laid out like the input, unless the weight broadcasts the input to a larger shape.
void prelu(const c10::OperatorHandle& op, torch::jit::Stack* stack) {
  Args args(op, stack);
  const at::Tensor& self = args.tensor(0);
  const Inputs inputs{&self, &args.tensor(1)};
  if (!self.sym_sizes().equals(broadcast_sizes(inputs))) {
    return args.returns(iterate(inputs, self.scalar_type(), self.device()));
  }
  args.returns(make_fake(self.sym_sizes(), like_strides(self), self.scalar_type(), self.device()));
}

/// grad * mask, then times a number. The CUDA kernel does both at once.
void dropout_backward(const c10::OperatorHandle& op, torch::jit::Stack* stack) {
  Args args(op, stack);
  const at::Tensor& grad = args.tensor(0);
  if (grad.is_cuda()) return args.returns(new_like(grad, suggested_format(grad)));
  Inputs inputs{&grad, &args.tensor(1)};
  const auto common = common_dtype(inputs);
  const auto device = common_device(inputs);
  c10::SmallVector<at::Tensor, 4> converted;
  convert_inputs(inputs, common, converted);
  const at::Tensor product = iterate(inputs, common, device);
  args.returns(iterate({&product, &zero_dimensional()}, common_dtype({&product}, {args.scalar(2)}), device));
}

/// (a, b, ..., out), for kernels that iterate over the second argument first, so that its layout counts first:
/// rsub(a, b) is sub(b, a), and some backward kernels take (gradient, input) and iterate over (input, gradient).
void swapped_out(const c10::OperatorHandle& op, torch::jit::Stack* stack) {
  Args args(op, stack);
  const at::Tensor& out = args.tensor(args.count() - 1);
  Inputs inputs{&args.tensor(1), &args.tensor(0)};
  c10::SmallVector<at::Tensor, 4> converted;
  convert_inputs(inputs, common_dtype(inputs), converted);
  iterate_out(out, inputs);
  args.returns(out);
}

/// The same without `out`.
void swapped(const c10::OperatorHandle& op, torch::jit::Stack* stack) {
  Args args(op, stack);
  Inputs inputs{&args.tensor(1), &args.tensor(0)};
  const auto dtype = common_dtype(inputs);
  c10::SmallVector<at::Tensor, 4> converted;
  convert_inputs(inputs, dtype, converted);
  args.returns(iterate(inputs, dtype, common_device(inputs)));
}

/// Mantissa and exponent.
void frexp_out(const c10::OperatorHandle& op, torch::jit::Stack* stack) {
  Args args(op, stack);
  const Inputs inputs{&args.tensor(0)};
  for (const size_t i : {1, 2}) iterate_out(args.tensor(i), inputs);
  args.returns(args.tensor(1), args.tensor(2));
}

/// Value and the buffer that the backward pass reads, both row-major on the CPU.
void log_sigmoid(const c10::OperatorHandle& op, torch::jit::Stack* stack) {
  Args args(op, stack);
  const at::Tensor& self = args.tensor(0);
  const auto make_one = [&](c10::SymIntArrayRef sizes) {
    return make_contiguous(sizes, self.scalar_type(), self.device());
  };
  if (self.is_cpu()) return args.returns(make_one(self.sym_sizes()), make_one(self.sym_sizes()));
  // The CUDA kernel keeps no buffer: its backward pass computes it again.
  const c10::SymInt none[] = {0};
  args.returns(new_like(self), make_one(none));
}

/// pow(tensor, number) converts the base first. The converted copy is dense.
void pow_number(const c10::OperatorHandle& op, torch::jit::Stack* stack) {
  Args args(op, stack);
  const at::Tensor& base = args.tensor(0);
  const auto dtype = common_dtype({&base}, {args.scalar(1)});
  if (dtype == base.scalar_type()) return args.returns(iterate({&base}, dtype, base.device()));
  const at::Tensor converted = make_fake(base.sym_sizes(), like_strides(base), dtype, base.device());
  args.returns(iterate({&converted}, dtype, base.device()));
}

/// pow(number, tensor) writes to a new row-major tensor.
void pow_of_number(const c10::OperatorHandle& op, torch::jit::Stack* stack) {
  Args args(op, stack);
  const at::Tensor& exponent = args.tensor(1);
  args.returns(make_contiguous(exponent.sym_sizes(), common_dtype({&exponent}, {args.scalar(0)}), exponent.device()));
}

const ShapeRow kElementwiseRows[] = {
#include "core/ops/elementwise.def"
};

}  // namespace

void register_elementwise() { add_shapes(kElementwiseRows); }

}  // namespace stator::fake
