// The part of Recorder for symbolic numbers: expressions become nodes of `stator::number`.
#include <algorithm>

#include "core/fake/fake_tensor.h"
#include "core/fake/rule.h"
#include "core/shapes/number_ops.h"
#include "core/tracer/recorder.h"

namespace stator::tracer {

using graph::Argument;
using graph::kNoValue;
using graph::ValueId;
using shapes::Ex;
using shapes::Op;
using shapes::Type;

namespace {

graph::ValueType number_type(shapes::Type type) {
  constexpr graph::ValueType kTypes[] = {graph::ValueType::Integer, graph::ValueType::Float, graph::ValueType::Truth};
  return kTypes[static_cast<size_t>(type)];
}

Argument constant_int(int64_t number) { return Argument::of_constant(number); }

bool is_int_sum(Ex expr) { return expr->op == Op::Add && expr->type == Type::Int; }

/// A comparison of a sum with a constant is computed as a comparison of two sums.
bool compares_sum(Ex expr) { return is_comparison(expr->op) && is_int_sum(expr->operands[0]); }

/// The parts from which the last step of an expression is computed.
template <class F>
void for_each_part(Ex expr, const F& visit) {
  for (Ex operand : *(compares_sum(expr) ? expr->operands[0] : expr)) visit(operand);
}

/// The terms of `sum` that remain after those of `less`, or null if there are more than a few.
struct Rest {
  std::vector<std::pair<Ex, int64_t>> terms;
  bool is_short = true;
};

Rest difference(Ex sum, Ex less) {
  constexpr size_t kFew = 3;
  Rest rest;
  uint32_t i = 0, k = 0;
  auto add = [&](Ex term, int64_t times) {
    rest.terms.emplace_back(term, times);
    rest.is_short = rest.terms.size() <= kFew;
  };
  while (rest.is_short && (i < sum->count || k < less->count)) {
    const int order = i == sum->count    ? 1
                      : k == less->count ? -1
                                         : shapes::compare_structure(sum->operands[i], less->operands[k]);
    if (order < 0) {
      add(sum->operands[i], sum->numbers[i]);
    } else if (order > 0) {
      rest.is_short = false;
    } else if (int64_t times = 0; __builtin_sub_overflow(sum->numbers[i], less->numbers[k], &times)) {
      rest.is_short = false;
    } else if (times != 0) {
      add(sum->operands[i], times);
    }
    i += order <= 0 ? 1 : 0;
    k += order >= 0 ? 1 : 0;
  }
  return rest;
}

}  // namespace

at::Tensor number_fake(shapes::Type type) {
  constexpr at::ScalarType kDtypes[] = {at::kLong, at::kDouble, at::kBool};
  at::Tensor fake =
      fake::make_contiguous(c10::IntArrayRef(), kDtypes[static_cast<size_t>(type)], c10::Device(at::kCPU));
  fake.unsafeGetTensorImpl()->set_wrapped_number(true);
  return fake;
}

void Recorder::learn_number(Ex expr, ValueId value) {
  graph_->values[value].number = expr;
  symbols_.learn_number(expr, value);
}

Argument Recorder::number_argument(const c10::OperatorHandle& op, Ex expr) {
  if (expr->env != env_) refuse(op, "a number of another capture");
  Ex simple = env_->simplify(expr);
  if (simple->is_constant()) return number_operand(simple);
  // What an equality replaced may be the only one that the graph has.
  const bool has_simple = !has_number(expr) && has_number(simple);
  return Argument::of_value(number_value(op, has_simple ? simple : expr));
}

Argument Recorder::number_operand(Ex expr) const {
  if (!expr->is_constant()) return Argument::of_value(symbols_.find_number(expr));
  if (expr->type == Type::Float) return Argument::of_constant(expr->constant.real());
  if (expr->type == Type::Bool) return Argument::of_constant(expr->constant.truth());
  return constant_int(*expr->int_constant());
}

bool Recorder::has_number(Ex expr) {
  if (expr->is_constant() || symbols_.find_number(expr) != kNoValue) return true;
  const auto size = symbols_.find_size(expr);
  if (size.tensor == kNoValue) return false;
  add_number(size.is_stride ? shapes::stride_op() : shapes::size_op(),
             {Argument::of_value(size.tensor), constant_int(size.dim)}, expr);
  return true;
}

ValueId Recorder::number_value(const c10::OperatorHandle& op, Ex expr) {
  // A size that was specialised on since: a node that gives back the constant.
  if (expr->is_constant()) {
    if (ValueId known = symbols_.find_number(expr); known != kNoValue) return known;
    const ValueId made = add_step(Op::Max, expr->type, number_operand(expr), number_operand(expr)).value;
    learn_number(expr, made);
    return made;
  }
  std::vector<Ex> open = {expr};
  while (!open.empty()) {
    Ex part = open.back();
    const size_t before = open.size();
    if (!has_number(part)) {
      if (part->count == 0) {
        if (!bring_in(part)) refuse(op, "a number that the graph does not have");
        continue;
      }
      for_each_part(part, [&](Ex operand) {
        if (!has_number(operand)) open.push_back(operand);
      });
      if (open.size() != before) continue;
      learn_number(part, compute_number(part).value);
    }
    open.pop_back();
  }
  return symbols_.find_number(expr);
}

Argument Recorder::add_step(Op op, Type type, Argument a, Argument b) {
  const auto index = static_cast<uint32_t>(graph_->nodes.size());
  add_node(shapes::number_op(), {Argument::of_constant(std::string(op_name(op))), std::move(a), std::move(b)});
  const ValueId id = add_value(index, number_fake(type), number_type(type));
  graph_->nodes[index].results.push_back({false, {id}});
  return Argument::of_value(id);
}

Argument Recorder::add_term(Argument sum, Ex term, int64_t times) {
  Argument part = number_operand(term);
  const bool is_zero = sum.kind == Argument::Kind::Constant && sum.constant.toInt() == 0;
  if (times == -1 && !is_zero) return add_step(Op::Sub, Type::Int, std::move(sum), std::move(part));
  if (times != 1) part = add_step(Op::Mul, Type::Int, constant_int(times), std::move(part));
  return is_zero ? part : add_step(Op::Add, Type::Int, std::move(sum), std::move(part));
}

Argument Recorder::compute_sum(Ex sum) {
  Argument result = constant_int(0);
  std::vector<std::pair<Ex, int64_t>> terms;
  int64_t addend = sum->addend;
  Ex near = sums_.find_near(sum);
  sums_.add(sum);
  if (near != nullptr && symbols_.find_number(near) != kNoValue) {
    Rest rest = difference(sum, near);
    if (rest.is_short && rest.terms.size() < sum->count &&
        !__builtin_sub_overflow(sum->addend, near->addend, &addend)) {
      result = number_operand(near);
      terms = std::move(rest.terms);
    } else {
      addend = sum->addend;
    }
  }
  if (result.kind == Argument::Kind::Constant)
    for (uint32_t i = 0; i < sum->count; ++i) terms.emplace_back(sum->operands[i], sum->numbers[i]);
  // A first term with the factor -1 would need a step of its own.
  auto positive = std::find_if(terms.begin(), terms.end(), [](const auto& term) { return term.second >= 0; });
  if (positive != terms.end()) std::rotate(terms.begin(), positive, positive + 1);
  for (const auto& [term, times] : terms) result = add_term(std::move(result), term, times);
  if (addend != 0) result = add_step(Op::Add, Type::Int, std::move(result), constant_int(addend));
  return result;
}

Argument Recorder::compute_product(Ex product) {
  Argument result;
  for (uint32_t i = 0; i < product->count; ++i) {
    Argument factor = number_operand(product->operands[i]);
    const int64_t power = product->numbers[i];
    if (power == 2) {
      factor = add_step(Op::Mul, Type::Int, factor, factor);
    } else if (power > 2) {
      factor = add_step(Op::Pow, Type::Int, std::move(factor), constant_int(power));
    }
    result = i == 0 ? std::move(factor) : add_step(Op::Mul, Type::Int, std::move(result), std::move(factor));
  }
  return result;
}

/// `a - b <= -1` is `a < b`, and so on: no difference is computed.
Argument Recorder::compute_comparison(Ex comparison) {
  Ex form = comparison->operands[0];
  Op op = comparison->op;
  int64_t bound = *comparison->operands[1]->int_constant();
  Argument left = constant_int(0), right = constant_int(0);
  bool has_negative = false;
  for (uint32_t i = 0; i < form->count; ++i) {
    const int64_t times = form->numbers[i];
    if (times >= 0 || times == INT64_MIN) {
      left = add_term(std::move(left), form->operands[i], times);
    } else {
      has_negative = true;
      right = add_term(std::move(right), form->operands[i], -times);
    }
  }
  if (has_negative && ((op == Op::Le && bound == -1) || (op == Op::Ge && bound == 1))) {
    op = op == Op::Le ? Op::Lt : Op::Gt;
    bound = 0;
  }
  if (!has_negative) {
    right = constant_int(bound);
  } else if (bound != 0) {
    right = add_step(Op::Add, Type::Int, std::move(right), constant_int(bound));
  }
  return add_step(op, Type::Bool, std::move(left), std::move(right));
}

Argument Recorder::compute_number(Ex expr) {
  if (is_int_sum(expr)) return compute_sum(expr);
  if (expr->op == Op::Mul && expr->type == Type::Int) return compute_product(expr);
  if (compares_sum(expr)) return compute_comparison(expr);
  Argument first = number_operand(expr->operands[0]);
  if (expr->op == Op::Ite) {
    const ValueId id =
        add_number(shapes::choose_op(),
                   {std::move(first), number_operand(expr->operands[1]), number_operand(expr->operands[2])}, expr);
    return Argument::of_value(id);
  }
  if (expr->count == 1) return add_step(expr->op, expr->type, std::move(first), constant_int(0));
  for (uint32_t i = 1; i < expr->count; ++i)
    first = add_step(expr->op, expr->type, std::move(first), number_operand(expr->operands[i]));
  return first;
}

ValueId Recorder::add_number(const c10::OperatorHandle& op, std::vector<Argument> args, Ex expr) {
  const auto index = static_cast<uint32_t>(graph_->nodes.size());
  add_node(op, std::move(args));
  const auto id = add_value(index, number_fake(expr->type), number_type(expr->type));
  graph_->nodes[index].results.push_back({false, {id}});
  learn_number(expr, id);
  return id;
}

ValueId Recorder::add_number_input(std::string name, Ex symbol) {
  const auto id = static_cast<ValueId>(graph_->values.size());
  const at::Tensor fake = number_fake(symbol->type);
  graph_->values.push_back(describe(id, fake));
  graph_->values.back().name = std::move(name);
  graph_->values.back().type = number_type(symbol->type);
  graph_->inputs.push_back(id);
  know(fake, id);
  learn_number(symbol, id);
  return id;
}

}  // namespace stator::tracer
