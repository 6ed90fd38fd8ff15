#include <algorithm>
#include <array>

#include "core/fake/families/shape_helpers.h"
#include "core/fake/layout.h"
#include "core/fake/rule.h"
#include "core/fake/shape_table.h"
#include "core/fake/spec.h"

/// The attention kernels of CUDA: flash, memory-efficient and cuDNN's. Queries, keys and values are (batch, heads,
/// length, width) in the operators of scaled_dot_product_attention, and (batch, length, heads, width) in the others.
namespace stator::fake {
namespace {

void check_inputs(const Args& args, size_t first) {
  const at::Tensor &query = args.tensor(first), &key = args.tensor(first + 1), &value = args.tensor(first + 2);
  require(query.is_cuda() && query.dim() == 4 && key.dim() == 4 && value.dim() == 4, args,
          "query, key and value are not 4-d CUDA tensors");
  require(query.scalar_type() == key.scalar_type() && key.scalar_type() == value.scalar_type(), args,
          "query, key and value differ in dtype");
  require(query.sym_size(3) == key.sym_size(3) && query.sym_size(0) == key.sym_size(0), args,
          "query and key differ in shape");
}

/// Dense, with the heads inside the length: as if made as (batch, length, heads, width) and transposed.
at::Tensor heads_inside(const at::Tensor& model, const Dims& sizes) {
  const Dims strides{sizes[2] * sizes[1] * sizes[3], sizes[3], sizes[1] * sizes[3], c10::SymInt(1)};
  return make_fake(sizes, strides, model.scalar_type(), model.device());
}

/// Dense, with the dimensions in memory in the order of the model's.
at::Tensor in_order_of(const at::Tensor& model, const Dims& sizes) {
  if (model.sym_sizes() == c10::SymIntArrayRef(sizes)) return new_like(model);
  std::array<size_t, 4> order{0, 1, 2, 3};
  const auto given = model.sym_strides();
  std::stable_sort(order.begin(), order.end(), [&](size_t a, size_t b) { return is_less(given[b], given[a]); });
  Dims strides(4);
  c10::SymInt next = 1;
  for (size_t i = order.size(); i-- > 0;) {
    strides[order[i]] = next;
    next = next * sizes[order[i]];
  }
  return make_fake(sizes, strides, model.scalar_type(), model.device());
}

at::Tensor floats(const at::Tensor& model, const Dims& sizes) {
  return make_contiguous(sizes, at::kFloat, model.device());
}

/// A number that the kernel keeps for its random state.
at::Tensor state_number(at::ScalarType dtype, c10::Device device, const Dims& sizes = {}) {
  return make_contiguous(sizes, dtype, device);
}

c10::SymInt padded_to(const c10::SymInt& size, int64_t multiple) {
  return (size + (multiple - 1)) / multiple * multiple;
}

/// The logarithms of the sums, in memory-efficient attention: padded, and empty unless a gradient needs them.
at::Tensor efficient_sums(const at::Tensor& query, const c10::SymInt& batch, const c10::SymInt& heads,
                          const c10::SymInt& length, bool needed) {
  return floats(query, Dims{batch, heads, needed ? padded_to(length, 32) : c10::SymInt(0)});
}

/// `(query, key, value, dropout_p, is_causal, return_debug_mask)`
void dot_product_flash(const c10::OperatorHandle& op, torch::jit::Stack* stack) {
  Args args(op, stack);
  const at::Tensor& query = args.tensor(0);
  check_inputs(args, 0);
  require(!args.boolean(5), args, "a mask for debugging");
  const c10::Device device = query.device();
  const c10::SymInt length = query.sym_size(2), keys = args.tensor(1).sym_size(2);
  args.returns(new_like(query), floats(query, Dims{query.sym_size(0), query.sym_size(1), length}), at::Tensor(),
               at::Tensor(), length, keys, state_number(at::kUInt64, device, Dims{c10::SymInt(2)}),
               state_number(at::kUInt64, device), new_contiguous(query, Dims{c10::SymInt(0)}));
}

/// Arguments: `(query, key, value, attn_bias, compute_log_sumexp, dropout_p, is_causal)`.
void dot_product_efficient(const c10::OperatorHandle& op, torch::jit::Stack* stack) {
  Args args(op, stack);
  const at::Tensor& query = args.tensor(0);
  check_inputs(args, 0);
  const c10::SymInt batch = query.sym_size(0), heads = query.sym_size(1), length = query.sym_size(2);
  args.returns(heads_inside(query, Dims{batch, heads, length, args.tensor(2).sym_size(3)}),
               efficient_sums(query, batch, heads, length, args.boolean(4)), state_number(at::kLong, at::kCPU),
               state_number(at::kLong, at::kCPU));
}

/// `(query, key, value, attn_bias, compute_log_sumexp, dropout_p, is_causal, return_debug_mask)`
void dot_product_cudnn(const c10::OperatorHandle& op, torch::jit::Stack* stack) {
  Args args(op, stack);
  const at::Tensor& query = args.tensor(0);
  check_inputs(args, 0);
  require(!args.boolean(7), args, "a mask for debugging");
  const c10::Device device = query.device();
  const c10::SymInt batch = query.sym_size(0), heads = query.sym_size(1), length = query.sym_size(2);
  const c10::SymInt keys = args.tensor(1).sym_size(2);
  at::Tensor sums;
  if (args.boolean(4)) sums = floats(query, Dims{batch, heads, length, c10::SymInt(1)});
  args.returns(in_order_of(query, Dims{batch, heads, length, args.tensor(2).sym_size(3)}), sums, at::Tensor(),
               at::Tensor(), length, keys, state_number(at::kLong, device), state_number(at::kLong, device),
               at::Tensor());
}

/// `(grad, query, key, value, ...)`
void gradients_like_inputs(const c10::OperatorHandle& op, torch::jit::Stack* stack) {
  Args args(op, stack);
  args.returns(new_like(args.tensor(1)), new_like(args.tensor(2)), new_like(args.tensor(3)));
}

/// A gradient of the bias is a part of a tensor whose last dimension is padded.
at::Tensor bias_gradient(const at::Tensor& bias) {
  Dims padded = dims_of(bias);
  padded.back() = padded_to(padded.back(), 16);
  const Dims strides = contiguous_strides(padded);
  return make_view(new_contiguous(bias, padded), bias.sym_sizes(), strides, 0);
}

/// `(grad, query, key, value, attn_bias, out, logsumexp, philox_seed, philox_offset, dropout_p, grad_input_mask, ...)`
void dot_product_efficient_backward(const c10::OperatorHandle& op, torch::jit::Stack* stack) {
  Args args(op, stack);
  const at::Tensor &query = args.tensor(1), &key = args.tensor(2), &value = args.tensor(3);
  const at::Tensor bias = args.optional_tensor(4);
  check_inputs(args, 1);
  const auto mask = args[10].toBoolList();
  args.returns(heads_inside(query, dims_of(query)), heads_inside(key, dims_of(key)),
               heads_inside(value, dims_of(value)), bias.defined() && mask[3] ? bias_gradient(bias) : at::Tensor());
}

/// `(query, key, value, cum_seq_q, cum_seq_k, max_q, max_k, dropout_p, is_causal, return_debug_mask, ...)`
void flash_forward(const c10::OperatorHandle& op, torch::jit::Stack* stack) {
  Args args(op, stack);
  const at::Tensor& query = args.tensor(0);
  check_inputs(args, 0);
  require(args.is_none(3) && args.is_none(4) && !args.boolean(9), args, "sequences of several lengths");
  const c10::Device device = query.device();
  args.returns(new_like(query), floats(query, Dims{query.sym_size(0), query.sym_size(2), query.sym_size(1)}),
               state_number(at::kUInt64, device, Dims{c10::SymInt(2)}), state_number(at::kUInt64, device),
               new_contiguous(query, Dims{c10::SymInt(0)}));
}

/// `(query, key, value, bias, cu_seqlens_q, cu_seqlens_k, max_seqlen_q, max_seqlen_k, dropout_p, custom_mask_type,
/// compute_log_sumexp, ...)`
void efficient_forward(const c10::OperatorHandle& op, torch::jit::Stack* stack) {
  Args args(op, stack);
  const at::Tensor &query = args.tensor(0), &value = args.tensor(2);
  check_inputs(args, 0);
  require(args.is_none(4) && args.is_none(5), args, "sequences of several lengths");
  const c10::SymInt batch = query.sym_size(0), length = query.sym_size(1), heads = query.sym_size(2);
  const c10::SymInt keys = args.tensor(1).sym_size(1);
  args.returns(new_contiguous(query, Dims{batch, length, heads, value.sym_size(3)}),
               efficient_sums(query, batch, heads, length, args.boolean(10)), state_number(at::kLong, at::kCPU),
               state_number(at::kLong, at::kCPU), length, keys);
}

/// `(grad, query, key, value, bias, out, cu_seqlens_q, cu_seqlens_k, max_seqlen_q, max_seqlen_k, logsumexp, dropout_p,
/// philox_seed, philox_offset, custom_mask_type, bias_requires_grad, scale, num_splits_key, window_size,
/// shared_storage_dqdkdv)`
void efficient_backward(const c10::OperatorHandle& op, torch::jit::Stack* stack) {
  Args args(op, stack);
  const at::Tensor &query = args.tensor(1), &key = args.tensor(2), &value = args.tensor(3);
  check_inputs(args, 1);
  require(args.is_none(6) && args.is_none(7) && !args.boolean(args.count() - 1), args, "gradients in one storage");
  const at::Tensor bias = args.optional_tensor(4);
  args.returns(new_like(query, at::MemoryFormat::Contiguous), new_like(key, at::MemoryFormat::Contiguous),
               new_like(value, at::MemoryFormat::Contiguous),
               bias.defined() && args.boolean(15) ? bias_gradient(bias) : at::Tensor());
}

const ShapeRow kCudaAttentionRows[] = {
#include "core/ops/cuda_attention.def"
};

}  // namespace

void register_cuda_attention() { add_shapes(kCudaAttentionRows); }

}  // namespace stator::fake
