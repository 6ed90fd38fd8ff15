#pragma once

#include <ATen/core/Tensor.h>

#include <map>
#include <string>
#include <utility>
#include <vector>

/// Fakes whose sizes are symbols with hints, for tests of shape functions.
namespace stator::bindings {

/// A value for each symbol, by its hint.
using SymbolValues = std::map<int64_t, int64_t>;

/// Forgets the symbols and guards of the last fakes.
void forget_symbols();
/// A fake on the CPU with the dtype of `model`. Sizes of at least 2 become symbols; equal sizes share one, also between
/// calls. Strides become products of sizes where the hints agree.
at::Tensor make_symbolic(const at::Tensor& model);

struct PlainGeometry {
  std::vector<int64_t> sizes, strides;
  int64_t offset;
};
/// The geometry for these values of the symbols. Throws if a number can't be computed.
PlainGeometry geometry_for(const at::Tensor& tensor, const SymbolValues& values);

/// The guards that were recorded since `forget_symbols`, and whether they hold for these values.
std::vector<std::pair<std::string, bool>> guards_for(const SymbolValues& values);

}  // namespace stator::bindings
