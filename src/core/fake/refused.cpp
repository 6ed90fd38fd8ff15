#include "core/fake/rule.h"
#include "core/fake/tiers.h"

namespace stator::fake {

namespace {

constexpr char kValue[] = "the value of a tensor is needed";
constexpr char kSize[] = "the size of the result depends on values";
constexpr char kSparse[] = "a layout other than strided";
constexpr char kFile[] = "reads a file";

const RefusedRow kRows[] = {
    {"aten::_local_scalar_dense", kValue},
    {"aten::is_set_to", kValue},
    {"aten::nonzero.out", kSize},
    {"aten::masked_select.out", kSize},
    {"aten::_unique", kSize},
    {"aten::_to_sparse", kSparse},
    {"aten::_to_sparse.sparse_dim", kSparse},
    {"aten::_to_sparse_csr", kSparse},
    {"aten::_to_sparse_csc", kSparse},
    {"aten::_to_sparse_bsr", kSparse},
    {"aten::_to_sparse_bsc", kSparse},
    {"aten::to_mkldnn", kSparse},
    {"aten::from_file", kFile},
};

/// Solving from the right leaves the conjugate bit set on a complex result, which shape functions don't tell.
void lu_solve(const c10::OperatorHandle& op, torch::jit::Stack* stack) {
  const Args args(op, stack);
  if (args.tensor(2).is_complex() && !args.boolean(3)) refuse(op, "the conjugate bit of the result");
  find_rows(op.operator_name()).meta(op, stack);
}

const RuleRow kPartly[] = {
    {"aten::linalg_lu_solve", lu_solve},
};

}  // namespace

void register_refused() {
  add_refused(kRows);
  add_rules(kPartly);
}

}  // namespace stator::fake
