#include <c10/core/DefaultDtype.h>

#include <string>
#include <vector>

#include "core/fake/iterator.h"
#include "core/fake/rule.h"
#include "core/fake/symbolic.h"

namespace stator::fake {

namespace {

/// The dtype of a result, from the dtype the inputs are promoted to.
enum class Result { Common, Float, Bool, Real };
/// What the Scalars of the schema do: nothing, take part in promotion as wrapped numbers do, or become
/// zero-dimensional operands (which promote, and keep equal shapes from being a shortcut to the layout).
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

/// The tensor arguments in [first, end) that are there, and the scalars if they count.
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

/// Stands for a number among the operands where only the shape matters.
const at::Tensor& zero_dimensional() {
  static const auto* tensor = new at::Tensor(make_contiguous(c10::IntArrayRef(), at::kFloat, at::kCPU));
  return *tensor;
}

/// The dtype an operation computes in; truth values are computed in the inputs' dtype.
template <Result result>
at::ScalarType computed_dtype(at::ScalarType common) {
  return result == Result::Float ? to_float(common) : common;
}

/// Whether inputs are converted to the common dtype first (logical operators and unary ones take them as they are).
enum class Handling { Converted, AsTheyAre };

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

/// `out` is the last argument of every pointwise overload.
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

/// The two ways to call an elementwise operator that makes no use of its first argument's memory.
struct Pair {
  Rule functional;
  Rule out;
};

template <Result result, Scalars scalars = Scalars::Ignored, Handling handling = Handling::Converted>
constexpr Pair kPair{functional<result, scalars, handling>, into_out<result, scalars, handling>};

struct Row {
  const char* base;
  const Pair& pair;
};

constexpr const Pair& kCommon = kPair<Result::Common>;
constexpr const Pair& kCommonScalar = kPair<Result::Common, Scalars::Promote>;
constexpr const Pair& kCommonOperands = kPair<Result::Common, Scalars::Operands>;
constexpr const Pair& kFloat = kPair<Result::Float>;
constexpr const Pair& kBool = kPair<Result::Bool>;
constexpr const Pair& kBoolOperands = kPair<Result::Bool, Scalars::Operands>;
constexpr const Pair& kLogical = kPair<Result::Bool, Scalars::Ignored, Handling::AsTheyAre>;
constexpr const Pair& kReal = kPair<Result::Real, Scalars::Ignored, Handling::AsTheyAre>;
constexpr const Pair& kMixed = kPair<Result::Common, Scalars::Ignored, Handling::AsTheyAre>;

/// One tensor, or several with one dtype. Each row stands for `base`, `base_` and the `out` overloads.
constexpr Row kUnary[] = {
    {"acos", kFloat},
    {"acosh", kFloat},
    {"asin", kFloat},
    {"asinh", kFloat},
    {"atan", kFloat},
    {"atanh", kFloat},
    {"bitwise_not", kCommon},
    {"ceil", kCommon},
    {"cos", kFloat},
    {"cosh", kFloat},
    {"digamma", kFloat},
    {"elu", kCommon},
    {"erf", kFloat},
    {"erfc", kFloat},
    {"erfinv", kFloat},
    {"exp", kFloat},
    {"exp2", kFloat},
    {"expm1", kFloat},
    {"floor", kCommon},
    {"frac", kCommon},
    {"gelu", kCommon},
    {"hardshrink", kCommon},
    {"hardsigmoid", kCommon},
    {"hardswish", kCommon},
    {"hardtanh", kCommon},
    {"i0", kFloat},
    {"isnan", kLogical},
    {"isneginf", kLogical},
    {"isposinf", kLogical},
    {"leaky_relu", kCommon},
    {"lgamma", kFloat},
    {"log", kFloat},
    {"log10", kFloat},
    {"log1p", kFloat},
    {"log2", kFloat},
    {"logical_not", kLogical},
    {"logit", kFloat},
    {"mish", kCommon},
    {"nan_to_num", kCommon},
    {"neg", kCommon},
    {"polygamma", kFloat},
    {"reciprocal", kFloat},
    {"relu", kCommon},
    {"round", kCommon},
    {"rsqrt", kFloat},
    {"sgn", kCommon},
    {"sigmoid", kFloat},
    {"sign", kCommon},
    {"signbit", kLogical},
    {"silu", kCommon},
    {"sin", kFloat},
    {"sinc", kFloat},
    {"sinh", kFloat},
    {"softplus", kCommon},
    {"softshrink", kCommon},
    {"special_airy_ai", kFloat},
    {"special_bessel_j0", kFloat},
    {"special_bessel_j1", kFloat},
    {"special_bessel_y0", kFloat},
    {"special_bessel_y1", kFloat},
    {"special_entr", kFloat},
    {"special_erfcx", kFloat},
    {"special_i0e", kFloat},
    {"special_i1", kFloat},
    {"special_i1e", kFloat},
    {"special_log_ndtr", kFloat},
    {"special_modified_bessel_i0", kFloat},
    {"special_modified_bessel_i1", kFloat},
    {"special_modified_bessel_k0", kFloat},
    {"special_modified_bessel_k1", kFloat},
    {"special_ndtri", kFloat},
    {"special_scaled_modified_bessel_k0", kFloat},
    {"special_scaled_modified_bessel_k1", kFloat},
    {"special_spherical_bessel_j0", kFloat},
    {"sqrt", kFloat},
    {"tan", kFloat},
    {"tanh", kFloat},
    {"threshold", kCommon},
    {"trunc", kCommon},
};

constexpr Row kBinary[] = {
    {"add", kCommon},
    {"sub", kCommon},
    {"mul", kCommon},
    {"div", kFloat},
    {"atan2", kFloat},
    {"bitwise_and", kCommon},
    {"bitwise_or", kCommon},
    {"bitwise_xor", kCommon},
    {"bitwise_left_shift", kCommon},
    {"bitwise_right_shift", kCommon},
    {"copysign", kFloat},
    {"floor_divide", kCommon},
    {"fmax", kCommon},
    {"fmin", kCommon},
    {"fmod", kCommon},
    {"gcd", kCommon},
    {"heaviside", kCommon},
    {"hypot", kCommon},
    {"igamma", kFloat},
    {"igammac", kFloat},
    {"lcm", kCommon},
    {"logaddexp", kFloat},
    {"logaddexp2", kFloat},
    {"maximum", kCommon},
    {"minimum", kCommon},
    {"nextafter", kFloat},
    {"remainder", kCommon},
    {"eq", kBool},
    {"ne", kBool},
    {"lt", kBool},
    {"le", kBool},
    {"gt", kBool},
    {"ge", kBool},
    {"logical_and", kLogical},
    {"logical_or", kLogical},
    {"logical_xor", kLogical},
    {"special_chebyshev_polynomial_t", kFloat},
    {"special_chebyshev_polynomial_u", kFloat},
    {"special_chebyshev_polynomial_v", kFloat},
    {"special_chebyshev_polynomial_w", kFloat},
    {"special_hermite_polynomial_h", kFloat},
    {"special_hermite_polynomial_he", kFloat},
    {"special_laguerre_polynomial_l", kFloat},
    {"special_legendre_polynomial_p", kFloat},
    {"special_shifted_chebyshev_polynomial_t", kFloat},
    {"special_shifted_chebyshev_polynomial_u", kFloat},
    {"special_shifted_chebyshev_polynomial_v", kFloat},
    {"special_shifted_chebyshev_polynomial_w", kFloat},
    {"special_xlog1py", kFloat},
    {"special_zeta", kFloat},
    {"xlogy", kFloat},
};

/// Three tensors, and the elementwise halves of the backward pass.
constexpr Row kOthers[] = {
    {"addcmul", kCommon},
    {"addcdiv", kCommon},
    {"lerp", kCommon},
    {"sigmoid_backward", kCommon},
    {"tanh_backward", kCommon},
    {"gelu_backward", kCommon},
    {"silu_backward", kCommon},
    {"elu_backward", kCommon},
    {"hardtanh_backward", kCommon},
    {"hardswish_backward", kCommon},
    {"hardsigmoid_backward", kCommon},
    {"hardshrink_backward", kCommon},
    {"softshrink_backward", kCommon},
    {"softplus_backward", kCommon},
    {"logit_backward", kCommon},
    {"mish_backward", kCommon},

};

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

/// The angles of complex numbers are written into a fresh row-major tensor.
void angle(const c10::OperatorHandle& op, torch::jit::Stack* stack) {
  Args args(op, stack);
  const at::Tensor& self = args.tensor(0);
  if (!self.is_complex()) return kFloat.functional(op, stack);
  args.returns(make_contiguous(self.sym_sizes(), c10::toRealValueType(self.scalar_type()), self.device()));
}

/// The magnitudes and angles of complex numbers are first computed as complex numbers: `out` is resized row-major.
void real_out(const c10::OperatorHandle& op, torch::jit::Stack* stack) {
  Args args(op, stack);
  const at::Tensor& self = args.tensor(0);
  const at::Tensor& out = args.tensor(1);
  if (!self.is_complex() || out.is_complex()) return kMixed.out(op, stack);
  resize_out(out, self.sym_sizes());
  args.returns(out);
}

/// `out` becomes row-major with the shape of the one tensor.
template <size_t tensor>
void contiguous_out(const c10::OperatorHandle& op, torch::jit::Stack* stack) {
  Args args(op, stack);
  const at::Tensor& out = args.tensor(args.count() - 1);
  resize_out(out, args.tensor(tensor).sym_sizes());
  args.returns(out);
}

/// The result is laid out like the input, unless the weight's shape makes it larger.
void prelu(const c10::OperatorHandle& op, torch::jit::Stack* stack) {
  Args args(op, stack);
  const at::Tensor& self = args.tensor(0);
  const Inputs inputs{&self, &args.tensor(1)};
  if (!self.sym_sizes().equals(broadcast_sizes(inputs))) {
    return args.returns(iterate(inputs, self.scalar_type(), self.device()));
  }
  args.returns(make_fake(self.sym_sizes(), like_strides(self), self.scalar_type(), self.device()));
}

/// grad * mask, then times a number.
void dropout_backward(const c10::OperatorHandle& op, torch::jit::Stack* stack) {
  Args args(op, stack);
  Inputs inputs{&args.tensor(0), &args.tensor(1)};
  const auto common = common_dtype(inputs);
  const auto device = common_device(inputs);
  c10::SmallVector<at::Tensor, 4> converted;
  convert_inputs(inputs, common, converted);
  const at::Tensor product = iterate(inputs, common, device);
  args.returns(iterate({&product, &zero_dimensional()}, common_dtype({&product}, {args.scalar(2)}), device));
}

/// (a, b) where the second operand decides the layout first: rsub(a, b) is sub(b, a), and some backward formulas
/// name the gradient first but iterate over the input first.
void swapped_out(const c10::OperatorHandle& op, torch::jit::Stack* stack) {
  Args args(op, stack);
  const at::Tensor& out = args.tensor(args.count() - 1);
  Inputs inputs{&args.tensor(1), &args.tensor(0)};
  c10::SmallVector<at::Tensor, 4> converted;
  convert_inputs(inputs, common_dtype(inputs), converted);
  iterate_out(out, inputs);
  args.returns(out);
}

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

/// Value and the buffer that the backward pass reads, both row-major.
void log_sigmoid(const c10::OperatorHandle& op, torch::jit::Stack* stack) {
  Args args(op, stack);
  const at::Tensor& self = args.tensor(0);
  const auto make_one = [&](c10::SymIntArrayRef sizes) {
    return make_contiguous(sizes, self.scalar_type(), self.device());
  };
  // The CUDA kernel computes the buffer again in the backward pass.
  const c10::SymInt none[] = {0};
  args.returns(make_one(self.sym_sizes()), make_one(self.is_cpu() ? self.sym_sizes() : c10::SymIntArrayRef(none)));
}

/// pow(base, number) converts the base first, and the copy is dense.
void pow_number(const c10::OperatorHandle& op, torch::jit::Stack* stack) {
  Args args(op, stack);
  const at::Tensor& base = args.tensor(0);
  const auto dtype = common_dtype({&base}, {args.scalar(1)});
  if (dtype == base.scalar_type()) return args.returns(iterate({&base}, dtype, base.device()));
  const at::Tensor converted = make_fake(base.sym_sizes(), like_strides(base), dtype, base.device());
  args.returns(iterate({&converted}, dtype, base.device()));
}

/// pow(number, exponent) writes into a fresh row-major tensor.
void pow_of_number(const c10::OperatorHandle& op, torch::jit::Stack* stack) {
  Args args(op, stack);
  const at::Tensor& exponent = args.tensor(1);
  args.returns(make_contiguous(exponent.sym_sizes(), common_dtype({&exponent}, {args.scalar(0)}), exponent.device()));
}

const RuleRow kSpecial[] = {
    {"aten::div.Tensor_mode", div_mode},
    {"aten::div_.Tensor_mode", in_place},
    {"aten::where.self", where},
    {"aten::pow.Tensor_Tensor", kCommon.functional},
    {"aten::pow.Tensor_Scalar", pow_number},
    {"aten::pow.Scalar", pow_of_number},
    {"aten::pow_.Scalar", in_place},
    {"aten::pow_.Tensor", in_place},
    {"aten::pow.Tensor_Tensor_out", kCommon.out},
    {"aten::pow.Tensor_Scalar_out", kCommon.out},
    {"aten::pow.Scalar_out", contiguous_out<1>},
    {"aten::clamp", kCommonScalar.functional},
    {"aten::clamp_min", kCommonScalar.functional},
    {"aten::clamp_max", kCommonScalar.functional},
    {"aten::clamp.Tensor", kCommon.functional},
    {"aten::clamp_min.Tensor", kCommon.functional},
    {"aten::clamp_max.Tensor", kCommon.functional},
    {"aten::clamp_", in_place},
    {"aten::clamp_min_", in_place},
    {"aten::clamp_max_", in_place},
    {"aten::clamp_.Tensor", in_place},
    {"aten::clamp_min_.Tensor", in_place},
    {"aten::clamp_max_.Tensor", in_place},
    {"aten::clamp.out", kCommonScalar.out},
    {"aten::clamp_min.out", kCommonScalar.out},
    {"aten::clamp_max.out", kCommonScalar.out},
    {"aten::clamp.Tensor_out", kCommon.out},
    {"aten::clamp_min.Tensor_out", kCommon.out},
    {"aten::clamp_max.Tensor_out", kCommon.out},
    {"aten::remainder.Scalar_Tensor", kCommonOperands.functional},
    {"aten::rsub.Tensor", swapped},
    {"aten::threshold_backward", swapped},
    {"aten::threshold_backward.grad_input", swapped_out},
    {"aten::leaky_relu_backward", swapped},
    {"aten::leaky_relu_backward.grad_input", swapped_out},
    {"aten::native_dropout_backward", dropout_backward},
    {"aten::_prelu_kernel", prelu},
    {"aten::angle", angle},
    {"aten::angle.out", real_out},
    {"aten::abs", kReal.functional},
    {"aten::abs_", in_place},
    {"aten::abs.out", real_out},
    {"aten::complex.out", kMixed.out},
    {"aten::polar.out", kMixed.out},
    {"aten::frexp.Tensor_out", frexp_out},
    {"aten::log_sigmoid_forward", log_sigmoid},
    {"aten::masked_fill_.Scalar", in_place},
    {"aten::masked_fill_.Tensor", in_place},
    {"aten::lerp.Scalar", kCommon.functional},
    {"aten::xlogy.OutTensor", kFloat.out},
    {"aten::__lshift__.Tensor", kCommon.functional},
    {"aten::__rshift__.Tensor", kCommon.functional},
    {"aten::__lshift__.Scalar", kCommonOperands.functional},
    {"aten::__rshift__.Scalar", kCommonOperands.functional},
    {"aten::__ilshift__.Tensor", in_place},
    {"aten::__irshift__.Tensor", in_place},
    {"aten::__ilshift__.Scalar", in_place},
    {"aten::__irshift__.Scalar", in_place},
    {"aten::conj_physical.out", kMixed.out},
    {"aten::mvlgamma.out", contiguous_out<0>},
};

void add_family(c10::ArrayRef<Row> rows) {
  // Names live as long as the table that points at them.
  static auto* names = new std::vector<std::unique_ptr<std::string>>();
  auto add = [](const Row& row, const char* suffix, Rule rule, bool to_out = false) {
    names->push_back(std::make_unique<std::string>(std::string("aten::") + row.base + suffix));
    add_rules(RuleRow{names->back()->c_str(), rule});
    if (!to_out) take_symbols(names->back()->c_str());
  };
  for (const Row& row : rows) {
    for (const char* suffix : {"", ".Tensor", ".decimals"}) add(row, suffix, row.pair.functional);
    // A number takes no part in the dtype of a comparison; elsewhere overloads on numbers are composites.
    if (&row.pair == &kBool) {
      add(row, ".Scalar", kBoolOperands.functional);
      add(row, ".Scalar_out", kBoolOperands.out, true);
    }
    for (const char* suffix : {"_", "_.Tensor", "_.Scalar", "_.decimals"}) add(row, suffix, in_place);
    for (const char* suffix : {".out", ".Tensor_out", ".decimals_out", ".grad_input"}) {
      add(row, suffix, row.pair.out, true);
    }
  }
}

}  // namespace

void register_pointwise() {
  add_family(kUnary);
  add_family(kBinary);
  add_family(kOthers);
  add_rules(kSpecial);
  take_symbols({"aten::div.Tensor_mode",
                "aten::div_.Tensor_mode",
                "aten::where.self",
                "aten::pow.Tensor_Tensor",
                "aten::pow.Tensor_Scalar",
                "aten::pow.Scalar",
                "aten::pow_.Scalar",
                "aten::pow_.Tensor",
                "aten::clamp",
                "aten::clamp_min",
                "aten::clamp_max",
                "aten::clamp.Tensor",
                "aten::clamp_min.Tensor",
                "aten::clamp_max.Tensor",
                "aten::clamp_",
                "aten::clamp_min_",
                "aten::clamp_max_",
                "aten::rsub.Tensor",
                "aten::abs",
                "aten::abs_",
                "aten::masked_fill_.Scalar",
                "aten::masked_fill_.Tensor",
                "aten::lerp.Scalar"});
}

}  // namespace stator::fake
