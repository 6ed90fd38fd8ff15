#include "core/shapes/number_ops.h"

#include <ATen/ops/empty.h>
#include <torch/library.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "core/base/fork_safe.h"

namespace stator::shapes {
namespace {

template <class T>
at::Tensor wrapped(T value, at::ScalarType dtype) {
  at::Tensor made = at::empty({}, at::TensorOptions().dtype(dtype).device(at::kCPU));
  *made.mutable_data_ptr<T>() = value;
  made.unsafeGetTensorImpl()->set_wrapped_number(true);
  return made;
}

Number plain(const at::Scalar& scalar) {
  if (scalar.isBoolean()) return scalar.toBool();
  if (scalar.isIntegral(/*includeBool=*/false)) return scalar.toLong();
  return scalar.toDouble();
}

Value value_of(const at::Scalar& scalar) {
  if (scalar.isBoolean()) return Value::of_bool(scalar.toBool());
  if (scalar.isIntegral(/*includeBool=*/false)) return Value::of_int(scalar.toLong());
  return Value::of_float(scalar.toDouble());
}

at::Tensor item(const at::Tensor& self) { return number_tensor(plain(self.item())); }

at::Tensor size(const at::Tensor& self, int64_t dim) { return number_tensor(self.size(dim)); }

at::Tensor stride(const at::Tensor& self, int64_t dim) { return number_tensor(self.stride(dim)); }

at::Tensor number(std::string_view name, const at::Scalar& a, const at::Scalar& b) {
  const auto op = find_op(std::string(name));
  TORCH_CHECK(op.has_value(), "stator::number has no operator ", name);
  const Value result = compute(*op, value_of(a), value_of(b));
  TORCH_CHECK_VALUE(result && (result.type() != Type::Int || result.int64()), "stator::number: ", name,
                    ": Python raises, or the integer does not fit 64 bits");
  return number_tensor(result.is_float()  ? Number(result.real())
                       : result.is_bool() ? Number(result.truth())
                                          : Number(*result.int64()));
}

at::Tensor choose(const at::Scalar& condition, const at::Scalar& a, const at::Scalar& b) {
  return number_tensor(plain(condition.toBool() ? a : b));
}

void fits(const at::Scalar& number, at::ScalarType dtype) {
  const double value = std::fabs(number.toDouble());
  const double most = dtype == at::kHalf       ? double{std::numeric_limits<c10::Half>::max()}
                      : dtype == at::kBFloat16 ? double{std::numeric_limits<c10::BFloat16>::max()}
                      : dtype == at::kFloat    ? double{std::numeric_limits<float>::max()}
                                               : std::numeric_limits<double>::max();
  TORCH_CHECK_VALUE(value <= most, "stator::fits: the dtype does not hold the number");
}

void between(const at::Scalar& number, double low, double high) {
  const double value = number.toDouble();
  TORCH_CHECK_VALUE(low < value && value < high, "stator::between: the number is not between the others");
}

void distinct(at::TensorList tensors) {
  std::vector<std::pair<const char*, const char*>> ranges;
  for (const at::Tensor& tensor : tensors) {
    const at::Storage& storage = tensor.storage();
    const auto* first = static_cast<const char*>(storage.data());
    if (storage.nbytes() > 0) ranges.emplace_back(first, first + storage.nbytes());
  }
  std::sort(ranges.begin(), ranges.end());
  for (size_t i = 1; i < ranges.size(); ++i)
    TORCH_CHECK_VALUE(ranges[i - 1].second <= ranges[i].first, "stator::distinct: two tensors share memory");
}

c10::OperatorHandle find(const char* name) { return c10::Dispatcher::singleton().findSchemaOrThrow(name, ""); }

struct Operators {
  c10::OperatorHandle item = find("stator::item");
  c10::OperatorHandle size = find("stator::size");
  c10::OperatorHandle stride = find("stator::stride");
  c10::OperatorHandle number = find("stator::number");
  c10::OperatorHandle choose = find("stator::choose");
  c10::OperatorHandle fits = find("stator::fits");
  c10::OperatorHandle between = find("stator::between");
  c10::OperatorHandle distinct = find("stator::distinct");
};

auto& defined = *new ForkSafeOnce<Operators>;

}  // namespace

Number to_number(const c10::IValue& plain) {
  if (plain.isInt()) return plain.toInt();
  if (plain.isBool()) return plain.toBool();
  return plain.toDouble();
}

at::Tensor number_tensor(const Number& number) {
  if (const auto* integer = std::get_if<int64_t>(&number)) return wrapped(*integer, at::kLong);
  if (const auto* truth = std::get_if<bool>(&number)) return wrapped(*truth, at::kBool);
  return wrapped(std::get<double>(number), at::kDouble);
}

static Operators define() {
  // Never freed: graphs refer to the operators.
  auto* library = new torch::Library(torch::Library::FRAGMENT, "stator", std::nullopt, __FILE__, __LINE__);
  library->def("item(Tensor self) -> Tensor");
  library->def("size(Tensor self, int dim) -> Tensor");
  library->def("stride(Tensor self, int dim) -> Tensor");
  library->def("number(str op, Scalar a, Scalar b=0) -> Tensor");
  library->def("choose(Scalar condition, Scalar a, Scalar b) -> Tensor");
  library->impl("choose", torch::dispatch(c10::DispatchKey::CompositeExplicitAutograd, TORCH_FN(choose)));
  library->def("fits(Scalar number, ScalarType dtype) -> ()");
  library->impl("fits", torch::dispatch(c10::DispatchKey::CompositeExplicitAutograd, TORCH_FN(fits)));
  library->def("between(Scalar number, float low, float high) -> ()");
  library->impl("between", torch::dispatch(c10::DispatchKey::CompositeExplicitAutograd, TORCH_FN(between)));
  library->def("distinct(Tensor[] tensors) -> ()");
  library->impl("distinct", torch::dispatch(c10::DispatchKey::CompositeExplicitAutograd, TORCH_FN(distinct)));
  library->impl("item", torch::dispatch(c10::DispatchKey::CompositeExplicitAutograd, TORCH_FN(item)));
  library->impl("size", torch::dispatch(c10::DispatchKey::CompositeExplicitAutograd, TORCH_FN(size)));
  library->impl("stride", torch::dispatch(c10::DispatchKey::CompositeExplicitAutograd, TORCH_FN(stride)));
  library->impl("number", torch::dispatch(c10::DispatchKey::CompositeExplicitAutograd, TORCH_FN(number)));
  // Numbers have no gradient.
  for (const char* name : {"item", "size", "stride", "number", "choose", "fits", "between", "distinct"})
    library->impl(name, torch::dispatch(c10::DispatchKey::Autograd, torch::CppFunction::makeFallthrough()));
  return {};
}

static const Operators& operators() { return defined.get(define); }

void install_number_ops() { operators(); }

const c10::OperatorHandle& item_op() { return operators().item; }
const c10::OperatorHandle& size_op() { return operators().size; }
const c10::OperatorHandle& stride_op() { return operators().stride; }
const c10::OperatorHandle& number_op() { return operators().number; }
const c10::OperatorHandle& choose_op() { return operators().choose; }
const c10::OperatorHandle& fits_op() { return operators().fits; }
const c10::OperatorHandle& between_op() { return operators().between; }
const c10::OperatorHandle& distinct_op() { return operators().distinct; }

bool is_number_op(const c10::OperatorHandle& op) {
  return op == item_op() || op == size_op() || op == stride_op() || op == number_op() || op == choose_op() ||
         op == fits_op() || op == between_op() || op == distinct_op();
}

std::optional<at::ScalarType> number_dtype(at::ScalarType dtype) {
  switch (dtype) {
    case at::kBool:
      return at::kBool;
    case at::kByte:
    case at::kChar:
    case at::kShort:
    case at::kInt:
    case at::kLong:
      return at::kLong;
    case at::kHalf:
    case at::kBFloat16:
    case at::kFloat:
    case at::kDouble:
      return at::kDouble;
    default:
      return std::nullopt;
  }
}

c10::IValue plain_number(const at::Tensor& number) {
  if (!number.is_cpu() || number.numel() != 1) return number.item();
  switch (number.scalar_type()) {
    case at::kLong:
      return *number.const_data_ptr<int64_t>();
    case at::kDouble:
      return *number.const_data_ptr<double>();
    case at::kBool:
      return *number.const_data_ptr<bool>();
    default:
      return number.item();
  }
}

}  // namespace stator::shapes
