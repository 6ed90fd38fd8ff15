#include <ATen/core/Tensor.h>
#include <ATen/ops/softmax.h>

#include "core/fake/families/shape_helpers.h"
#include "core/fake/rule.h"
#include "core/fake/shape_table.h"

namespace stator::fake {
namespace {

/// A gradient that the kernel allocates as (batch, length, heads, width) and returns as (batch, heads, length, width).
at::Tensor heads_inside(const at::Tensor& model) {
  const c10::SymInt heads = model.sym_size(1), length = model.sym_size(2), width = model.sym_size(3);
  const Dims strides{length * heads * width, width, heads * width, c10::SymInt(1)};
  return make_fake(model.sym_sizes(), strides, model.scalar_type(), model.device());
}

void check_heads(const Args& args, const at::Tensor& query, const at::Tensor& key, const at::Tensor& value) {
  require(query.dim() == 4 && key.dim() == 4 && value.dim() == 4, args, "query, key and value are not 4-d");
  require(query.scalar_type() == key.scalar_type() && key.scalar_type() == value.scalar_type() &&
              at::isFloatingType(query.scalar_type()),
          args, "query, key and value differ in dtype");
  require(query.sym_size(3) == key.sym_size(3) && key.sym_size(3) == value.sym_size(3) &&
              key.sym_size(2) == value.sym_size(2),
          args, "query, key and value differ in shape");
}

void flash_for_cpu(const c10::OperatorHandle& op, torch::jit::Stack* stack) {
  Args args(op, stack);
  const at::Tensor& query = args.tensor(0);
  check_heads(args, query, args.tensor(1), args.tensor(2));
  require(args.number(3) == 0.0, args, "the kernel has no dropout");
  const c10::SymInt heads = query.sym_size(1), length = query.sym_size(2);
  const Dims sizes{query.sym_size(0), heads, length}, strides{length * heads, c10::SymInt(1), heads};
  const auto dtype = at::isReducedFloatingType(query.scalar_type()) ? at::kFloat : query.scalar_type();
  args.returns(new_like(query), make_fake(sizes, strides, dtype, query.device()));
}

void flash_for_cpu_backward(const c10::OperatorHandle& op, torch::jit::Stack* stack) {
  Args args(op, stack);
  const at::Tensor &query = args.tensor(1), &key = args.tensor(2), &value = args.tensor(3);
  check_heads(args, query, key, value);
  args.returns(heads_inside(query), heads_inside(key), heads_inside(value));
}

/// `(query, key, value, embed_dim, num_head, ..., mask, need_weights, average_attn_weights, mask_type)`
void native_multi_head_attention(const c10::OperatorHandle& op, torch::jit::Stack* stack) {
  Args args(op, stack);
  const at::Tensor &query = args.tensor(0), &key = args.tensor(1);
  require(query.dim() == 3 && key.dim() == 3 && query.sym_size(2) == args.sym_int(3), args, "not 3-d queries and keys");
  require(is_on_known_device(query), args, "the kernel of this device is not known");
  Dims sizes{query.sym_size(0), query.sym_size(1), key.sym_size(1)};
  at::Tensor weights;
  if (args.boolean(10)) {
    if (!args.boolean(11)) sizes.insert(sizes.begin() + 1, args.sym_int(4));
    weights = new_contiguous(query, sizes);
  }
  args.returns(new_like(query, at::MemoryFormat::Contiguous), weights);
}

void transformer_encoder_layer(const c10::OperatorHandle& op, torch::jit::Stack* stack) {
  Args args(op, stack);
  require(args.tensor(0).dim() == 3 && is_on_known_device(args.tensor(0)), args, "not a 3-d source");
  args.returns(new_like(args.tensor(0), at::MemoryFormat::Contiguous));
}

/// Softmax. Rows that are masked completely become zeros.
void safe_softmax(const c10::OperatorHandle& op, torch::jit::Stack* stack) {
  Args args(op, stack);
  const auto dtype = args.optional_dtype(2);
  args.returns(at::softmax(args.tensor(0), args.integer(1), dtype));
}

const ShapeRow kAttentionRows[] = {
#include "core/ops/attention.def"
};

}  // namespace

void register_attention() { add_shapes(kAttentionRows); }

}  // namespace stator::fake
