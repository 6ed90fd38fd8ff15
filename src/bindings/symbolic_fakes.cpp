#include "bindings/symbolic_fakes.h"

#include <ATen/ops/empty_strided.h>

#include <algorithm>
#include <numeric>
#include <unordered_map>

#include "core/fake/fake_tensor.h"
#include "core/shapes/program.h"
#include "core/shapes/sym_node.h"

namespace stator::bindings {
namespace {

using shapes::Ex;

thread_local shapes::EnvPtr environment;

c10::SymInt symbol_of(int64_t size) {
  if (!environment) environment = shapes::ShapeEnv::make();
  return shapes::to_sym_int(environment->add_backed({.hint = size, .source = "size"}).expr);
}

/// Products of sizes for strides, by the values of the hints; plain integers for other strides.
std::vector<c10::SymInt> symbolic_strides(c10::IntArrayRef sizes, c10::IntArrayRef strides,
                                          const std::vector<c10::SymInt>& symbols) {
  std::vector<size_t> order(sizes.size());
  std::iota(order.rbegin(), order.rend(), 0);
  std::stable_sort(order.begin(), order.end(), [&](size_t a, size_t b) { return strides[a] < strides[b]; });
  std::vector<c10::SymInt> result(strides.begin(), strides.end());
  std::map<int64_t, c10::SymInt> products;
  for (const size_t dim : order) {
    if (const auto found = products.find(strides[dim]); found != products.end()) result[dim] = found->second;
    if (sizes[dim] > 1) products[strides[dim] * sizes[dim]] = result[dim] * symbols[dim];
  }
  return result;
}

int64_t plain_value(const c10::SymInt& number, const SymbolValues& values) {
  if (!number.is_heap_allocated()) return number.as_int_unchecked();
  const shapes::Expr expr = shapes::expression_of(number);
  TORCH_CHECK(expr, "a number of another kind");
  auto& env = *expr->env;
  std::unordered_map<Ex, Ex> by;
  for (const auto* symbol : env.symbols()) {
    const int64_t hint = symbol->expr->hint.int64().value();
    const auto found = values.find(hint);
    by.emplace(symbol->expr, env.constant(found == values.end() ? hint : found->second));
  }
  const Ex plain = env.substitute(expr, by);
  TORCH_CHECK(plain != nullptr && plain->int_constant(), "no value for ", to_python(expr));
  return *plain->int_constant();
}

std::vector<int64_t> plain_values(c10::SymIntArrayRef numbers, const SymbolValues& values) {
  std::vector<int64_t> result;
  for (const auto& number : numbers) result.push_back(plain_value(number, values));
  return result;
}

}  // namespace

void forget_symbols() { environment = {}; }

at::Tensor make_symbolic(const at::Tensor& model) {
  std::vector<c10::SymInt> sizes;
  for (const int64_t size : model.sizes()) sizes.push_back(symbol_of(size));
  const auto strides = symbolic_strides(model.sizes(), model.strides(), sizes);
  const fake::FakeScope scope;
  return at::empty_strided_symint(sizes, strides, at::TensorOptions().dtype(model.dtype()).device(at::kCPU));
}

PlainGeometry geometry_for(const at::Tensor& tensor, const SymbolValues& values) {
  return {plain_values(tensor.sym_sizes(), values), plain_values(tensor.sym_strides(), values),
          plain_value(tensor.sym_storage_offset(), values)};
}

std::vector<std::pair<std::string, bool>> guards_for(const SymbolValues& values) {
  std::vector<std::pair<std::string, bool>> result;
  if (!environment) return result;
  std::vector<int64_t> inputs;
  for (const auto& input : environment->inputs()) {
    const int64_t hint = input.symbol->hint.int64().value();
    const auto found = values.find(hint);
    inputs.push_back(found == values.end() ? hint : found->second);
  }
  for (const auto& guard : environment->guards()) {
    const auto program = shapes::GuardProgram::compile(*environment, {&guard, 1});
    result.emplace_back(to_python(guard.truth), program.holds(inputs.data()));
  }
  return result;
}

}  // namespace stator::bindings
