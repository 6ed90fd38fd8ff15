#include <bitset>

#include "core/fake/rule.h"
#include "core/fake/spec.h"

namespace stator::fake {

namespace {

constexpr size_t kMaxRank = 64;

/// The dimensions an argument names: all of them for None or an empty list.
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
enum class Type { Same, Sum, Real, Bool, Index };

template <Type type>
at::ScalarType reduced_type(at::ScalarType self) {
  switch (type) {
    case Type::Same:
      return self;
    case Type::Sum:
      return c10::isIntegralType(self, /*includeBool=*/true) ? at::kLong : self;
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

/// (self, ...) with the positions of `dim`, `keepdim` and `dtype` in the schema; kNone where it has none.
template <Type type, int dim, int keep, int dtype>
Specs reduce(const Args& args) {
  const at::Tensor& self = args.tensor(0);
  const c10::IValue dims = dim == kNone ? c10::IValue() : args[dim];
  const bool keep_dims = keep != kNone && args.boolean(keep);
  at::ScalarType result = reduced_type<type>(self.scalar_type());
  if (dtype != kNone && !args.is_none(dtype)) result = args[dtype].toScalarType();
  return {{reduced_sizes(self, dims, keep_dims), result, self.device()}};
}

/// A norm of a complex dtype is real.
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

/// Two results of one reduction (least and greatest, variance and mean).
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

#define STATOR_REDUCTION(name, out, ...) \
  {name, make_results<__VA_ARGS__>}, { out, fill_outs<__VA_ARGS__> }

const RuleRow kRows[] = {
    STATOR_REDUCTION("aten::sum.dim_IntList", "aten::sum.IntList_out", reduce<Type::Sum, 1, 2, 3>),
    STATOR_REDUCTION("aten::nansum", "aten::nansum.out", reduce<Type::Sum, 1, 2, 3>),
    STATOR_REDUCTION("aten::prod", "aten::prod.out", reduce<Type::Sum, kNone, kNone, 1>),
    STATOR_REDUCTION("aten::prod.dim_int", "aten::prod.int_out", reduce<Type::Sum, 1, 2, 3>),
    STATOR_REDUCTION("aten::mean.dim", "aten::mean.out", reduce<Type::Same, 1, 2, 3>),
    STATOR_REDUCTION("aten::amax", "aten::amax.out", reduce<Type::Same, 1, 2, kNone>),
    STATOR_REDUCTION("aten::amin", "aten::amin.out", reduce<Type::Same, 1, 2, kNone>),
    STATOR_REDUCTION("aten::max", "aten::max.unary_out", reduce<Type::Same, kNone, kNone, kNone>),
    STATOR_REDUCTION("aten::min", "aten::min.unary_out", reduce<Type::Same, kNone, kNone, kNone>),
    STATOR_REDUCTION("aten::median", "aten::median.out", reduce<Type::Same, kNone, kNone, kNone>),
    STATOR_REDUCTION("aten::nanmedian", "aten::nanmedian.out", reduce<Type::Same, kNone, kNone, kNone>),
    STATOR_REDUCTION("aten::any", "aten::any.all_out", reduce<Type::Bool, kNone, kNone, kNone>),
    STATOR_REDUCTION("aten::all", "aten::all.all_out", reduce<Type::Bool, kNone, kNone, kNone>),
    STATOR_REDUCTION("aten::any.dim", "aten::any.out", reduce<Type::Bool, 1, 2, kNone>),
    STATOR_REDUCTION("aten::all.dim", "aten::all.out", reduce<Type::Bool, 1, 2, kNone>),
    STATOR_REDUCTION("aten::any.dims", "aten::any.dims_out", reduce<Type::Bool, 1, 2, kNone>),
    STATOR_REDUCTION("aten::all.dims", "aten::all.dims_out", reduce<Type::Bool, 1, 2, kNone>),
    STATOR_REDUCTION("aten::argmax", "aten::argmax.out", arg_reduce),
    STATOR_REDUCTION("aten::argmin", "aten::argmin.out", arg_reduce),
    STATOR_REDUCTION("aten::var.correction", "aten::var.correction_out", reduce<Type::Real, 1, 3, kNone>),
    STATOR_REDUCTION("aten::std.correction", "aten::std.correction_out", reduce<Type::Real, 1, 3, kNone>),
    STATOR_REDUCTION("aten::var_mean.correction", "aten::var_mean.correction_out", pair<Type::Real, 1, 3>),
    STATOR_REDUCTION("aten::std_mean.correction", "aten::std_mean.correction_out", pair<Type::Real, 1, 3>),
    STATOR_REDUCTION("aten::norm.ScalarOpt_dim", "aten::norm.out", norm<2, 3, kNone>),
    STATOR_REDUCTION("aten::norm.ScalarOpt_dim_dtype", "aten::norm.dtype_out", norm<2, 3, 4>),
    STATOR_REDUCTION("aten::linalg_vector_norm", "aten::linalg_vector_norm.out", norm<2, 3, 4>),
    STATOR_REDUCTION("aten::linalg__powsum", "aten::linalg__powsum.out", norm<2, 3, 4>),
    STATOR_REDUCTION("aten::count_nonzero.dim_IntList", "aten::count_nonzero.dim_IntList_out",
                     reduce<Type::Index, 1, kNone, kNone>),
    STATOR_REDUCTION("aten::max.dim", "aten::max.dim_max", with_indices<1, 2>),
    STATOR_REDUCTION("aten::min.dim", "aten::min.dim_min", with_indices<1, 2>),
    STATOR_REDUCTION("aten::median.dim", "aten::median.dim_values", with_indices<1, 2>),
    STATOR_REDUCTION("aten::nanmedian.dim", "aten::nanmedian.dim_values", with_indices<1, 2>),
    STATOR_REDUCTION("aten::mode", "aten::mode.values", with_indices<1, 2>),
    STATOR_REDUCTION("aten::kthvalue", "aten::kthvalue.values", with_indices<2, 3>),
    STATOR_REDUCTION("aten::aminmax", "aten::aminmax.out", pair<Type::Same, 1, 2>),
    STATOR_REDUCTION("aten::_aminmax", "aten::_aminmax.out", pair<Type::Same, kNone, kNone>),
    STATOR_REDUCTION("aten::_aminmax.dim", "aten::_aminmax.dim_out", pair<Type::Same, 1, 2>),
    STATOR_REDUCTION("aten::hash_tensor", "aten::hash_tensor.out", hash),
    STATOR_REDUCTION("aten::trace", "aten::trace.out", trace),
    STATOR_REDUCTION("aten::histc", "aten::histc.out", histogram),
};

}  // namespace

void register_reductions() { add_rules(kRows); }

}  // namespace stator::fake
