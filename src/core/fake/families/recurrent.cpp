#include <ATen/core/grad_mode.h>

#include "core/fake/families/shape_helpers.h"
#include "core/fake/rule.h"

namespace stator::fake {
namespace {

constexpr int64_t kLstm = 2;

void mkldnn_rnn_layer(const c10::OperatorHandle& op, torch::jit::Stack* stack) {
  Args args(op, stack);
  const at::Tensor &input = args.tensor(0), &hidden = args.tensor(5), &cell = args.tensor(6);
  require(args.integer(9) == kLstm && input.dim() == 3, args, "not an LSTM over a 3-d input");
  // With gradients the kernel also returns a workspace whose size only its library knows.
  bool differentiable = false;
  for (size_t i = 0; i < 7; ++i) differentiable = differentiable || args.tensor(i).requires_grad();
  require(!(at::GradMode::is_enabled() && differentiable), args, "the size of the LSTM's workspace for gradients");
  const Dims sizes{input.sym_size(0), input.sym_size(1), args.sym_int(10)};
  args.returns(new_contiguous(input, sizes), new_contiguous(hidden, hidden.sym_sizes()),
               new_contiguous(cell, cell.sym_sizes()), at::Tensor());
}

}  // namespace

void register_recurrent() {
  add_rules({
      {"aten::mkldnn_rnn_layer", mkldnn_rnn_layer},
  });
}

}  // namespace stator::fake
