#include "core/fake/symbolic.h"

#include <string>
#include <unordered_set>

#include "core/shapes/sym_node.h"

namespace stator::fake {
namespace {

std::unordered_set<std::string>& takers() {
  static auto* names = new std::unordered_set<std::string>();
  return *names;
}

bool has_symbol(const c10::IValue& value) {
  if (value.isTensor()) return is_symbolic(value.toTensor());
  if (value.isSymInt() || value.isSymBool()) return true;
  if (!value.isList()) return false;
  for (const c10::IValue& item : value.toListRef()) {
    if (has_symbol(item)) return true;
  }
  return false;
}

bool is_number(const c10::Type& type) {
  if (type.kind() == c10::TypeKind::OptionalType)
    return is_number(*type.expectRef<c10::OptionalType>().getElementType());
  return type.kind() == c10::TypeKind::NumberType;
}

[[noreturn]] void undecided(const std::string& question) { refuse("a size or number depends on data: " + question); }

// Operators whose answers come from sizes by arithmetic alone, or by questions that break where they have no answer.
// Composites are listed where what they ask of sizes is of that kind.
constexpr const char* kTakers[] = {
    // views
    "aten::slice.Tensor",
    "aten::select.int",
    "aten::unsqueeze",
    "aten::transpose.int",
    "aten::t",
    "aten::permute",
    "aten::alias",
    "aten::detach",
    "aten::unbind.int",
    "aten::squeeze.dim",
    "aten::expand",
    "aten::narrow",
    "aten::view",
    "aten::_unsafe_view",
    "aten::reshape",
    "aten::reshape_as",
    "aten::view_as",
    "aten::flatten.using_ints",
    "aten::ravel",
    "aten::numpy_T",
    "aten::mT",
    "aten::swapaxes",
    "aten::movedim.int",
    // copies and factories
    "aten::clone",
    "aten::_to_copy",
    "aten::to.dtype",
    "aten::to.device",
    "aten::to.dtype_layout",
    "aten::to.other",
    "aten::float",
    "aten::contiguous",
    "aten::copy_",
    "aten::fill_.Scalar",
    "aten::fill_.Tensor",
    "aten::zero_",
    "aten::empty_like",
    "aten::zeros_like",
    "aten::ones_like",
    "aten::full_like",
    "aten::rand_like",
    "aten::randn_like",
    "aten::new_empty",
    "aten::new_zeros",
    "aten::new_ones",
    "aten::new_full",
    "aten::empty.memory_format",
    "aten::zeros",
    "aten::ones",
    "aten::full",
    "aten::rand",
    "aten::randn",
    "aten::arange",
    "aten::arange.start",
    "aten::arange.start_step",
    "aten::type_as",
    // reductions
    "aten::sum",
    "aten::sum.dim_IntList",
    "aten::mean",
    "aten::mean.dim",
    "aten::prod",
    "aten::prod.dim_int",
    "aten::amax",
    "aten::amin",
    "aten::max",
    "aten::min",
    "aten::any",
    "aten::all",
    "aten::any.dim",
    "aten::all.dim",
    "aten::any.dims",
    "aten::all.dims",
    "aten::argmax",
    "aten::argmin",
    "aten::var.correction",
    "aten::std.correction",
    "aten::var",
    "aten::std",
    "aten::var.dim",
    "aten::std.dim",
    "aten::max.dim",
    "aten::min.dim",
    "aten::norm.Scalar",
    "aten::norm.ScalarOpt_dim",
    "aten::linalg_vector_norm",
    "aten::count_nonzero",
    "aten::count_nonzero.dim_IntList",
    "aten::median",
    "aten::nansum",
    "aten::logsumexp",
    // products
    "aten::mm",
    "aten::addmm",
    "aten::bmm",
    "aten::linear",
    "aten::matmul",
    "aten::dot",
    "aten::mv",
    // choosing elements
    "aten::index.Tensor",
    "aten::index_put_",
    "aten::index_put",
    "aten::_index_put_impl_",
    "aten::index_select",
    "aten::gather",
    "aten::take",
    "aten::embedding",
    "aten::masked_select",
    "aten::nonzero",
    "aten::nonzero_numpy",
    "aten::where",
    "aten::argwhere",
    "aten::masked_fill.Scalar",
    "aten::masked_fill.Tensor",
    "aten::cat",
    "aten::concat",
    "aten::stack",
    "aten::flip",
    "aten::sort",
    "aten::sort.stable",
    "aten::argsort",
    "aten::cumsum",
    "aten::cumprod",
    "aten::_unique2",
    "aten::unique_consecutive",
    "aten::unique_dim",
    "aten::unique_dim_consecutive",
    "aten::repeat_interleave.Tensor",
    "aten::repeat_interleave.self_Tensor",
    "aten::bincount",
    "aten::topk",
    "aten::scatter_add_",
    "aten::index_add_",
    "aten::index_add",
    // composites over elementwise operators
    "aten::square",
    "aten::add.Scalar",
    "aten::sub.Scalar",
    "aten::mul.Scalar",
    "aten::div.Scalar",
    "aten::rsub.Scalar",
    "aten::where.ScalarSelf",
    "aten::where.ScalarOther",
    "aten::where.Scalar",
    "aten::ne_.Scalar",
    "aten::dropout",
    "aten::silu",
    "aten::gelu",
    "aten::softmax.int",
    "aten::log_softmax.int",
    "aten::_softmax",
    "aten::_log_softmax",
    "aten::layer_norm",
    "aten::native_layer_norm",
};

}  // namespace

bool is_symbolic(const at::Tensor& tensor) {
  return tensor.defined() && tensor.unsafeGetTensorImpl()->has_symbolic_sizes_strides();
}

bool is_row_major(const at::Tensor& tensor) {
  if (!is_symbolic(tensor)) return tensor.is_contiguous();
  const auto sizes = tensor.sym_sizes(), strides = tensor.sym_strides();
  c10::SymInt expected = 1;
  for (size_t i = sizes.size(); i-- > 0;) {
    if (shapes::known(sizes[i].sym_eq(1)).value_or(false)) continue;
    if (!shapes::known(strides[i].sym_eq(expected)).value_or(false)) return false;
    expected = expected * sizes[i];
  }
  return true;
}

void check_symbols(const c10::OperatorHandle& op, const torch::jit::Stack& stack) {
  const auto& declared = op.schema().arguments();
  const size_t first = stack.size() - declared.size();
  bool found = false;
  for (size_t i = 0; i < declared.size() && !found; ++i) {
    // Where any number will do, no size follows from it, and a rule that reads it is refused then.
    found = has_symbol(stack[first + i]) && !is_number(*declared[i].type());
  }
  if (found && !takers().contains(c10::toString(op.operator_name())))
    refuse(op, "not known for sizes that depend on data");
}

void take_symbols(c10::ArrayRef<const char*> names) {
  for (const char* name : names) takers().insert(name);
}

void register_symbolic() {
  shapes::set_undecided(undecided);
  take_symbols(kTakers);
}

}  // namespace stator::fake
