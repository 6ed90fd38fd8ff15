#include "core/fake/symbolic.h"

#include "core/ops/operator_table.h"
#include "core/shapes/sym_node.h"

namespace stator::fake {
namespace {

bool has_symbol(const c10::IValue& value) {
  if (value.isTensor()) return is_symbolic(value.toTensor());
  if (value.isSymInt() || value.isSymBool()) return true;
  if (!value.isList()) return false;
  for (const c10::IValue& item : value.toListRef()) {
    if (has_symbol(item)) return true;
  }
  return false;
}

/// `Scalar`, which takes any number.
bool is_scalar(const c10::Type& type) {
  if (type.kind() == c10::TypeKind::OptionalType)
    return is_scalar(*type.expectRef<c10::OptionalType>().getElementType());
  return type.kind() == c10::TypeKind::NumberType;
}

}  // namespace

bool is_symbolic(const at::Tensor& tensor) {
  return tensor.defined() && tensor.unsafeGetTensorImpl()->has_symbolic_sizes_strides();
}

bool takes_symbols(const Args& args) {
  for (size_t i = 0; i < args.count(); ++i) {
    if (has_symbol(args[i])) return true;
  }
  return false;
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
  if (!ops::has_trait(op, ops::PlainSizes)) return;
  const auto& declared = op.schema().arguments();
  const size_t first = stack.size() - declared.size();
  bool found = false;
  for (size_t i = 0; i < declared.size() && !found; ++i) {
    // No size follows from a Scalar argument. A shape function that reads its value all the same is refused there.
    found = has_symbol(stack[first + i]) && !is_scalar(*declared[i].type());
  }
  if (found) refuse(op, "its shape function takes no symbolic sizes");
}

}  // namespace stator::fake
