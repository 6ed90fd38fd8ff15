#include <ATen/ExpandUtils.h>
#include <ATen/ops/_unsafe_view.h>
#include <ATen/ops/gather.h>
#include <ATen/ops/mul.h>
#include <ATen/ops/remainder.h>
#include <ATen/ops/unsafe_split.h>

#include <cmath>

#include "core/fake/composite.h"
#include "core/fake/families/shape_helpers.h"
#include "core/fake/rule.h"
#include "core/fake/shape_table.h"
#include "core/fake/spec.h"
#include "core/fake/symbolic.h"

/// Composite operators whose implementations look at plain sizes, for symbolic ones: programs of other operators, and
/// shape functions for an operator that stays one node.
namespace stator::fake {
namespace {

/// `floor(size * scale)`, computed in doubles as torch computes it.
c10::SymInt scaled_size(const c10::SymInt& size, double scale) {
  // A product of small integers is exact in doubles.
  constexpr int kBits = 20;
  int exponent = 0;
  const double fraction = std::ldexp(std::frexp(scale, &exponent), kBits);
  if (fraction == std::floor(fraction) && exponent <= kBits && exponent > -kBits) {
    const int64_t numerator = static_cast<int64_t>(fraction), denominator = int64_t{1} << (kBits - exponent);
    return size * numerator / denominator;
  }
  if (!size.is_heap_allocated()) return static_cast<int64_t>(static_cast<double>(size.as_int_unchecked()) * scale);
  return c10::SymInt(size.toSymNode()->sym_float()->mul(size.toSymNode()->wrap_float(scale))->floor());
}

/// (input, output_size, [align_corners,] scale_factors)
void upsample(const c10::OperatorHandle& op, torch::jit::Stack* stack) {
  Args args(op, stack);
  const at::Tensor& input = args.tensor(0);
  const size_t last = args.count() - 1, spatial = static_cast<size_t>(input.dim()) - 2;
  const std::vector<double> scales = args.is_none(last) ? std::vector<double>() : args[last].toDoubleVector();
  std::vector<c10::SymInt> sizes;
  if (!args.is_none(1)) sizes = args.sym_ints(1);
  require(args.is_none(1) != scales.empty() && std::max(sizes.size(), scales.size()) == spatial, args,
          "not a size or a scale for each dimension");
  for (size_t i = 0; i < scales.size(); ++i) {
    require(scales[i] > 0, args, "a scale is not positive");
    sizes.push_back(scaled_size(input.sym_sizes()[i + 2], scales[i]));
  }
  const auto plain = c10::Dispatcher::singleton().findSchemaOrThrow(op.operator_name().name.c_str(), "");
  torch::jit::Stack call{input, sizes};
  if (last == 3) call.push_back(args[2]);  // align_corners
  for (size_t i = 0; i < spatial; ++i) call.push_back(scales.empty() ? c10::IValue() : c10::IValue(scales[i]));
  plain.callBoxed(&call);
  args.returns(call.back());
}

Dims broadcast_to(const at::Tensor& tensor, const at::Tensor& other, int64_t dim) {
  Dims sizes = dims_of(other);
  sizes[dim] = tensor.sym_size(dim);
  const auto wide = at::infer_size_symint(sizes, tensor.sym_sizes());
  return Dims(wide.begin(), wide.end());
}

/// (self, indices, dim)
void take_along_dim(const c10::OperatorHandle& op, torch::jit::Stack* stack) {
  Args args(op, stack);
  const at::Tensor &self = args.tensor(0), &indices = args.tensor(1);
  if (args.is_none(2)) return args.returns(at::gather(self.reshape(-1), 0, indices.reshape(-1)));
  require(self.dim() == indices.dim() && indices.scalar_type() == at::kLong, args, "indices and tensor differ in rank");
  const int64_t dim = c10::maybe_wrap_dim(args.integer(2), self.dim());
  const Dims from = broadcast_to(self, indices, dim), at = broadcast_to(indices, self, dim);
  const at::Tensor places = indices.expand_symint(at), values = self.expand_symint(from);
  args.returns(at::gather(values, dim, at::remainder(places, at::Scalar(self.sym_size(dim)))));
}

/// Each element of the first tensor times the second one.
void kron(const c10::OperatorHandle& op, torch::jit::Stack* stack) {
  Args args(op, stack);
  const at::Tensor &self = args.tensor(0), &other = args.tensor(1);
  const int64_t rank = std::max(self.dim(), other.dim());
  const auto size_of = [&](const at::Tensor& tensor, int64_t i) {
    const int64_t at = i - (rank - tensor.dim());
    return at < 0 ? c10::SymInt(1) : tensor.sym_size(at);
  };
  Dims outer, inner, sizes;
  for (int64_t i = 0; i < rank; ++i) {
    const c10::SymInt a = size_of(self, i), b = size_of(other, i);
    outer.append({a, c10::SymInt(1)});
    inner.append({c10::SymInt(1), b});
    sizes.push_back(a * b);
  }
  args.returns(at::_unsafe_view_symint(at::mul(self.reshape_symint(outer), other.reshape_symint(inner)), sizes));
}

/// (self, chunks, dim)
void unsafe_chunk(const c10::OperatorHandle& op, torch::jit::Stack* stack) {
  Args args(op, stack);
  const at::Tensor& self = args.tensor(0);
  const int64_t chunks = args.integer(1);
  require(self.dim() > 0 && chunks > 0, args, "no dimension or no chunks");
  const c10::SymInt size = self.sym_size(args.integer(2));
  require(size > 0, args, "an empty dimension");
  args.returns(at::unsafe_split_symint(self, (size + (chunks - 1)) / chunks, args.integer(2)));
}

/// (self, fill_value, wrap)
void fill_diagonal(const c10::OperatorHandle& op, torch::jit::Stack* stack) {
  Args args(op, stack);
  const at::Tensor& self = args.tensor(0);
  require(self.dim() == 2, args, "not a matrix");
  require(!args.boolean(2) || self.sym_size(0) <= self.sym_size(1) + 1, args, "the diagonal is wrapped");
  self.diagonal().fill_(args.scalar(1));
  args.returns(self);
}

/// (x, N, increasing): the powers of each element.
void vander(const c10::OperatorHandle& op, torch::jit::Stack* stack) {
  Args args(op, stack);
  const at::Tensor& self = args.tensor(0);
  require(self.dim() == 1, args, "not a vector");
  const c10::SymInt count = args.is_none(1) ? self.sym_size(0) : c10::SymInt(args.integer(1));
  require(count >= 0, args, "a negative number of powers");
  const auto dtype = at::promote_types(self.scalar_type(), at::kLong);
  args.returns(make_contiguous(Dims{self.sym_size(0), count}, dtype, self.device()));
}

/// (tensors): the product of matrices, of which the first and the last may be vectors.
template <bool takes_vectors>
void matrix_chain(const c10::OperatorHandle& op, torch::jit::Stack* stack) {
  Args args(op, stack);
  const std::vector<at::Tensor> factors = args.tensors(0);
  require(factors.size() >= 2, args, "less than two factors");
  for (size_t i = 0; i < factors.size(); ++i) {
    const bool is_end = i == 0 || i + 1 == factors.size();
    require(factors[i].dim() == 2 || (takes_vectors && is_end && factors[i].dim() == 1), args, "not a matrix");
    require(factors[i].scalar_type() == factors[0].scalar_type() && factors[i].device() == factors[0].device(), args,
            "matrices of several dtypes or devices");
    if (i > 0) require(factors[i - 1].sym_size(-1) == factors[i].sym_size(0), args, "the sizes do not match");
  }
  Dims sizes;
  if (factors.front().dim() == 2) sizes.push_back(factors.front().sym_size(0));
  if (factors.back().dim() == 2) sizes.push_back(factors.back().sym_size(1));
  args.returns(new_contiguous(factors[0], sizes));
}

/// What the weights of recurrent layers must match.
struct LayerSizes {
  c10::SymInt input, hidden, output;  // of an input, of the hidden state, and of what a layer gives in one direction
  int64_t gates, directions;
  bool has_biases, has_projections;
};

void require_weights(const Args& args, const std::vector<at::Tensor>& params, const LayerSizes& sizes) {
  const size_t each = 2 + (sizes.has_biases ? 2 : 0) + (sizes.has_projections ? 1 : 0);
  const size_t parts = static_cast<size_t>(args.integer(4) * sizes.directions);
  require(params.size() == parts * each, args, "the wrong number of weights");
  const c10::SymInt rows = sizes.hidden * sizes.gates;
  const auto has_sizes = [](const at::Tensor& weight, const Dims& wanted) {
    return weight.dim() == static_cast<int64_t>(wanted.size()) && weight.sym_sizes() == c10::SymIntArrayRef(wanted);
  };
  for (size_t i = 0; i < parts; ++i) {
    const at::Tensor* own = &params[i * each];
    const bool is_first = i < static_cast<size_t>(sizes.directions);
    const c10::SymInt taken = is_first ? sizes.input : sizes.output * sizes.directions;
    bool fits = has_sizes(own[0], {rows, taken}) && has_sizes(own[1], {rows, sizes.output});
    if (sizes.has_biases) fits = fits && has_sizes(own[2], {rows}) && has_sizes(own[3], {rows});
    if (sizes.has_projections) fits = fits && has_sizes(own[each - 1], {sizes.output, sizes.hidden});
    require(fits, args, "the weights do not match the input");
  }
}

/// (input, hx, params, has_biases, num_layers, dropout, train, bidirectional, batch_first), `hx` being one state, or
/// two.
template <int64_t gates, bool has_cell>
void layers(const c10::OperatorHandle& op, torch::jit::Stack* stack) {
  Args args(op, stack);
  const at::Tensor& input = args.tensor(0);
  const std::vector<at::Tensor> states = has_cell ? args.tensors(1) : std::vector<at::Tensor>{args.tensor(1)};
  const int64_t directions = args.boolean(7) ? 2 : 1;
  const bool batch_first = args.boolean(8);
  require(input.dim() == 3 && states.size() == (has_cell ? 2 : 1) && is_on_known_device(input), args,
          "not a batch of sequences on a known device");
  const c10::SymInt length = input.sym_size(batch_first ? 1 : 0), batch = input.sym_size(batch_first ? 0 : 1);
  for (const at::Tensor& state : states) {
    require(state.dim() == 3 && state.sym_size(0) == args.integer(4) * directions && state.sym_size(1) == batch, args,
            "a state does not match the input");
  }
  const c10::SymInt hidden = states.back().sym_size(2), given = states[0].sym_size(2), width = given * directions;
  require_weights(args, args.tensors(2),
                  {.input = input.sym_size(2),
                   .hidden = hidden,
                   .output = given,
                   .gates = gates,
                   .directions = directions,
                   .has_biases = args.boolean(3),
                   .has_projections = has_cell && given != hidden});
  // A batch that comes first is a view of a result in which the sequence comes first.
  const Dims sizes{batch_first ? batch : length, batch_first ? length : batch, width};
  const Dims strides{batch_first ? width : batch * width, batch_first ? batch * width : width, c10::SymInt(1)};
  at::Tensor output = make_fake(sizes, strides, input.scalar_type(), input.device());
  if constexpr (has_cell) {
    args.returns(output, new_like(states[0], at::MemoryFormat::Contiguous),
                 new_like(states[1], at::MemoryFormat::Contiguous));
  } else {
    args.returns(output, new_like(states[0], at::MemoryFormat::Contiguous));
  }
}

/// The input and the weights of a cell must match a state.
void require_cell(const Args& args, const at::Tensor& state, int64_t gates) {
  const at::Tensor &input = args.tensor(0), &weight = args.tensor(2), &recurrent = args.tensor(3);
  require(input.dim() == 2 && state.dim() == 2 && weight.dim() == 2 && is_on_known_device(input) &&
              input.sym_size(0) == state.sym_size(0) && input.sym_size(1) == weight.sym_size(1) &&
              weight.sym_size(0) == state.sym_size(1) * gates && recurrent.dim() == 2 &&
              recurrent.sym_size(0) == weight.sym_size(0) && recurrent.sym_size(1) == state.sym_size(1),
          args, "input, state and weights do not match");
}

/// (input, hx, w_ih, w_hh, b_ih, b_hh)
void lstm_cell(const c10::OperatorHandle& op, torch::jit::Stack* stack) {
  Args args(op, stack);
  const std::vector<at::Tensor> states = args.tensors(1);
  require(states.size() == 2 && states[0].sym_sizes() == states[1].sym_sizes(), args, "not two states of one size");
  require_cell(args, states[1], 4);
  args.returns(new_like(states[1], at::MemoryFormat::Contiguous), new_like(states[1], at::MemoryFormat::Contiguous));
}

void gru_cell(const c10::OperatorHandle& op, torch::jit::Stack* stack) {
  Args args(op, stack);
  require_cell(args, args.tensor(1), 3);
  args.returns(new_like(args.tensor(1), at::MemoryFormat::Contiguous));
}

constexpr Shape with_answer(const CompositeAnswer& answer) {
  Shape shape;
  shape.composite = &answer;
  return shape;
}

template <Rule run>
constexpr CompositeAnswer kProgram{takes_symbols, nullptr, true, run};
template <Rule rule>
constexpr CompositeAnswer kOneNode{takes_symbols, rule};
bool takes_symbols_or_cuda(const Args& args) { return args.tensor(0).is_cuda() || takes_symbols(args); }
template <Rule rule>
constexpr CompositeAnswer kRecurrent{.applies = takes_symbols_or_cuda, .rule = rule, .reads_memory = true};
/// The program runs for symbolic sizes.
template <Rule run>
constexpr Shape program = with_answer(kProgram<run>);
/// The operator is one node for symbolic sizes, with the results of the shape function.
template <Rule rule>
constexpr Shape one_node = with_answer(kOneNode<rule>);
/// As `one_node`, and also one node for every CUDA tensor: cuDNN's workspace sizes are not known to a shape function.
template <Rule rule>
constexpr Shape recurrent = with_answer(kRecurrent<rule>);

const ShapeRow kRewritesRows[] = {
#include "core/ops/rewrites.def"
};

}  // namespace

void register_rewrites() { add_shapes(kRewritesRows); }

}  // namespace stator::fake
