#include "core/fake/rule.h"
#include "core/fake/shape_table.h"

/// Rows without a shape function: operators at which a capture breaks, for the reasons below, and operators of autograd
/// itself, which are left to torch.
namespace stator::fake {
namespace {

constexpr char kValue[] = "the value of a tensor is needed";
constexpr char kSize[] = "the size of the result depends on values";
constexpr char kLayout[] = "a layout other than strided";
constexpr char kFile[] = "reads a file";

const ShapeRow kRefusedRows[] = {
#include "core/ops/autograd.def"
#include "core/ops/refused.def"
};

}  // namespace

void register_refused() { add_shapes(kRefusedRows); }

}  // namespace stator::fake
