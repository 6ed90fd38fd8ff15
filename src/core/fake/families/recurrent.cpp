#include <ATen/core/LegacyTypeDispatch.h>
#include <ATen/core/grad_mode.h>
#include <ATen/ops/zeros.h>

#include <map>
#include <mutex>

#include "core/base/fork_safe.h"
#include "core/fake/families/shape_helpers.h"
#include "core/fake/rule.h"
#include "core/fake/shape_table.h"
#include "core/fake/symbolic.h"

namespace stator::fake {
namespace {

constexpr int64_t kLstm = 2;
constexpr size_t kTensors = 7;

ForkSafeMutex& mutex = *new ForkSafeMutex;
std::map<std::vector<int64_t>, int64_t>& known_bytes = *new std::map<std::vector<int64_t>, int64_t>;

/// With gradients the kernel also returns a workspace. Its size depends on shapes alone, but only the library behind
/// the kernel knows the formula. So the layer runs once per shape on zeros, to measure it.
int64_t workspace_bytes(const c10::OperatorHandle& op, const torch::jit::Stack& arguments) {
  std::vector<int64_t> key;
  for (size_t i = 0; i < arguments.size(); ++i) {
    if (arguments[i].isTensor()) {
      const at::Tensor& tensor = arguments[i].toTensor();
      key.push_back(static_cast<int64_t>(tensor.scalar_type()));
      key.insert(key.end(), tensor.sizes().begin(), tensor.sizes().end());
    } else if (arguments[i].isBool()) {
      key.push_back(arguments[i].toBool());
    }
  }
  {
    std::lock_guard lock(mutex);
    if (const auto found = known_bytes.find(key); found != known_bytes.end()) return found->second;
  }
  torch::jit::Stack probe(arguments);
  c10::impl::ExcludeDispatchKeyGuard no_fakes(c10::DispatchKey::Fake);
  at::AutoDispatchBelowADInplaceOrView below_autograd;
  for (size_t i = 0; i < kTensors; ++i) {
    const at::Tensor& fake = arguments[i].toTensor();
    probe[i] = at::zeros(fake.sizes(), at::TensorOptions().dtype(fake.scalar_type()));
  }
  op.redispatchBoxed(c10::DispatchKeySet(c10::DispatchKey::CPU), &probe);
  const int64_t bytes = probe.back().toTensor().numel();
  std::lock_guard lock(mutex);
  known_bytes.emplace(std::move(key), bytes);
  return bytes;
}

void mkldnn_rnn_layer(const c10::OperatorHandle& op, torch::jit::Stack* stack) {
  Args args(op, stack);
  const at::Tensor &input = args.tensor(0), &hidden = args.tensor(5), &cell = args.tensor(6);
  require(args.integer(9) == kLstm && input.dim() == 3, args, "not an LSTM over a 3-d input");
  const Dims sizes{input.sym_size(0), input.sym_size(1), args.sym_int(10)};
  at::Tensor workspace;
  if (at::GradMode::is_enabled()) {
    require(!takes_symbols(args), args, "the size of the workspace is known for plain sizes only");
    const torch::jit::Stack arguments(stack->end() - static_cast<std::ptrdiff_t>(args.count()), stack->end());
    workspace = make_contiguous(c10::IntArrayRef{workspace_bytes(op, arguments)}, at::kByte, input.device());
  }
  args.returns(new_contiguous(input, sizes), new_contiguous(hidden, hidden.sym_sizes()),
               new_contiguous(cell, cell.sym_sizes()), workspace);
}

/// Gradients of input, both weights, both biases, and both states.
void mkldnn_rnn_layer_backward(const c10::OperatorHandle& op, torch::jit::Stack* stack) {
  Args args(op, stack);
  const auto contiguous = [&](size_t i) { return new_like(args.tensor(i), at::MemoryFormat::Contiguous); };
  args.returns(contiguous(0), contiguous(1), contiguous(2), contiguous(3), contiguous(4), contiguous(5), contiguous(6));
}

/// The fused CUDA cell of (gates of the input, gates of the state, cell, ...): state, cell, and what a gradient needs.
void fused_lstm_cell(const c10::OperatorHandle& op, torch::jit::Stack* stack) {
  Args args(op, stack);
  const at::Tensor &gates = args.tensor(0), &cell = args.tensor(2);
  args.returns(new_like(cell, at::MemoryFormat::Contiguous), new_like(cell, at::MemoryFormat::Contiguous),
               new_like(gates, at::MemoryFormat::Contiguous));
}

/// The fused CUDA cell of (gates of the input, gates of the state, state, ...).
void fused_gru_cell(const c10::OperatorHandle& op, torch::jit::Stack* stack) {
  Args args(op, stack);
  const at::Tensor& state = args.tensor(2);
  require(state.dim() == 2, args, "not a batch of states");
  args.returns(new_like(state, at::MemoryFormat::Contiguous),
               new_contiguous(state, Dims{state.sym_size(0), state.sym_size(1) * 5}));
}

const ShapeRow kRecurrentRows[] = {
#include "core/ops/recurrent.def"
};

}  // namespace

void register_recurrent() { add_shapes(kRecurrentRows); }

}  // namespace stator::fake
