#include <c10/core/DefaultDtype.h>

#include <bitset>

#include "core/fake/rule.h"
#include "core/fake/shape_table.h"
#include "core/fake/spec.h"

namespace stator::fake {

namespace {

constexpr size_t kMaxRank = 64;

/// The dimensions that a `dim` argument names. None and an empty list name all.
std::bitset<kMaxRank> reduced_dims(const c10::IValue& value, int64_t rank) {
  std::bitset<kMaxRank> mask;
  auto add = [&](int64_t dim) {
    const int64_t wrapped = wrap_dim(dim, rank);
    TORCH_CHECK(!mask[wrapped], "dim ", wrapped, " appears multiple times in the list of dims");
    mask.set(wrapped);
  };
  if (value.isInt()) {
    add(value.toInt());
  } else if (value.isIntList()) {
    for (const int64_t dim : value.toIntList()) add(dim);
  }
  if (mask.none()) mask.set();
  return mask;
}

Dims reduced_sizes(const at::Tensor& self, const c10::IValue& dim, bool keep) {
  const auto mask = reduced_dims(dim, self.dim());
  Dims sizes;
  for (int64_t i = 0; i < self.dim(); ++i) {
    if (!mask[i]) {
      sizes.push_back(self.sym_size(i));
    } else if (keep) {
      sizes.emplace_back(1);
    }
  }
  return sizes;
}

/// How a reduction's dtype follows from the input's.
enum class Type { Same, Sum, Float, Real, Bool, Index };

template <Type type>
at::ScalarType reduced_type(at::ScalarType self) {
  switch (type) {
    case Type::Same:
      return self;
    case Type::Sum:
      return c10::isIntegralType(self, /*includeBool=*/true) ? at::kLong : self;
    case Type::Float:
      return c10::isIntegralType(self, /*includeBool=*/true) ? c10::get_default_dtype_as_scalartype() : self;
    case Type::Real:
      return c10::toRealValueType(self);
    case Type::Bool:
      return self == at::kByte ? at::kByte : at::kBool;
    case Type::Index:
      return at::kLong;
  }
  return self;
}

constexpr int kNone = -1;

/// (self, ...). The template arguments are the positions of `dim`, `keepdim` and `dtype`; kNone: there is no such one.
template <Type type, int dim, int keep, int dtype>
Specs reduce(const Args& args) {
  const at::Tensor& self = args.tensor(0);
  const c10::IValue dims = dim == kNone ? c10::IValue() : args[dim];
  const bool keep_dims = keep != kNone && args.boolean(keep);
  at::ScalarType result = reduced_type<type>(self.scalar_type());
  if (dtype != kNone && !args.is_none(dtype)) result = args[dtype].toScalarType();
  return {{reduced_sizes(self, dims, keep_dims), result, self.device()}};
}

/// The norm of complex numbers is real.
template <int dim, int keep, int dtype>
Specs norm(const Args& args) {
  Specs specs = reduce<Type::Real, dim, keep, dtype>(args);
  specs[0].dtype = c10::toRealValueType(specs[0].dtype);
  return specs;
}

/// Values and their positions along one dimension.
template <int dim, int keep>
Specs with_indices(const Args& args) {
  const at::Tensor& self = args.tensor(0);
  Dims sizes = reduced_sizes(self, args[dim], args.boolean(keep));
  return {{sizes, self.scalar_type(), self.device()}, {sizes, at::kLong, self.device()}};
}

/// Two results of one reduction: least and greatest, or variance and mean.
template <Type first, int dim, int keep>
Specs pair(const Args& args) {
  const at::Tensor& self = args.tensor(0);
  const c10::IValue dims = dim == kNone ? c10::IValue() : args[dim];
  Dims sizes = reduced_sizes(self, dims, keep != kNone && args.boolean(keep));
  return {{sizes, reduced_type<first>(self.scalar_type()), self.device()}, {sizes, self.scalar_type(), self.device()}};
}

/// argmax over everything gives a scalar unless dimensions are kept.
Specs arg_reduce(const Args& args) {
  const at::Tensor& self = args.tensor(0);
  return {{reduced_sizes(self, args[1], args.boolean(2)), at::kLong, self.device()}};
}

Specs trace(const Args& args) {
  const at::Tensor& self = args.tensor(0);
  return {{{}, reduced_type<Type::Sum>(self.scalar_type()), self.device()}};
}

/// (self, dim, keepdim, mode): a checksum of the bits.
Specs hash(const Args& args) {
  const at::Tensor& self = args.tensor(0);
  return {{reduced_sizes(self, args[1], args.boolean(2)), at::kUInt64, self.device()}};
}

Specs histogram(const Args& args) {
  const at::Tensor& self = args.tensor(0);
  return {{{args.sym_int(1)}, self.scalar_type(), self.device()}};
}

const ShapeRow kReductionsRows[] = {
#include "core/ops/reductions.def"
};

}  // namespace

void register_reductions() { add_shapes(kReductionsRows); }

}  // namespace stator::fake
