#include "core/shapes/node.h"

#include "core/shapes/current.h"
#include "core/shapes/float_markers.h"
#include "core/shapes/layout.h"

namespace stator::shapes {

Ex Node::operand(const c10::SymNode& node) {
  if (const Expr own = expression_of(node.get())) {
    if (own->env == &env()) return own;
    // A constant belongs to no capture.
    if (own->is_constant()) return env().constant(own->constant);
  }
  if (auto number = node->constant_int()) return env().constant(*number);
  if (auto truth = node->constant_bool()) return env().constant(*truth);
  raise_undecided("a symbolic number that is not of this capture");
}

std::vector<Ex> Node::operands(Nodes nodes) {
  std::vector<Ex> exprs;
  for (const c10::SymNode& node : nodes) exprs.push_back(operand(node));
  return exprs;
}

/// A layout that is not known gives a truth that is not known.
c10::SymNode Node::layout(Ex truth) { return to_node(truth != nullptr ? truth : env().add_unbacked(Type::Bool)); }

c10::SymNode Node::made(Op op, Ex result) {
  if (result == nullptr) raise_undecided(std::string(op_name(op)) + " of " + question_text(expr));
  return to_node(result);
}

c10::SymNode Node::unary(Op op) { return made(op, env().apply(op, expr)); }

c10::SymNode Node::binary(Op op, const c10::SymNode& other) { return made(op, env().apply(op, expr, operand(other))); }

c10::SymNode Node::sum(Nodes terms) {
  std::vector<Ex> parts = operands(terms);
  if (parts.empty()) return to_node(env().constant(int64_t{0}));
  // By halves: the cost of a sum is its length.
  while (parts.size() > 1) {
    std::vector<Ex> sums;
    for (size_t i = 0; i < parts.size(); i += 2) {
      Ex both = i + 1 < parts.size() ? env().apply(Op::Add, parts[i], parts[i + 1]) : parts[i];
      if (both == nullptr) return made(Op::Add, nullptr);
      sums.push_back(both);
    }
    parts = std::move(sums);
  }
  return to_node(parts[0]);
}

c10::SymNode Node::round_digits(int64_t digits) {
  // An integer stays as it is; other digits of integers have no operator.
  if (is_int() && digits >= 0) return to_node(expr);
  return made(Op::RoundDigits, env().apply(Op::RoundDigits, expr, env().constant(digits)));
}

c10::SymNode Node::is_integer() {
  if (is_int()) return to_node(env().constant(true));
  Ex rest = env().apply(Op::Mod, expr, env().constant(1.0));
  return made(Op::Mod, rest != nullptr ? env().apply(Op::Eq, rest, env().constant(0.0)) : nullptr);
}

c10::SymNode Node::sym_ite(const c10::SymNode& then_value, const c10::SymNode& else_value) {
  return made(Op::Ite, env().apply(Op::Ite, expr, operand(then_value), operand(else_value)));
}

c10::SymNode Node::is_contiguous(Nodes sizes, Nodes strides) {
  return layout(shapes::is_contiguous(env(), operands(sizes), operands(strides)));
}

c10::SymNode Node::is_channels_last_contiguous_2d(Nodes sizes, Nodes strides) {
  return layout(is_channels_last_contiguous(env(), operands(sizes), operands(strides), 2));
}

c10::SymNode Node::is_channels_last_contiguous_3d(Nodes sizes, Nodes strides) {
  return layout(is_channels_last_contiguous(env(), operands(sizes), operands(strides), 3));
}

c10::SymNode Node::is_channels_last_strides_2d(Nodes sizes, Nodes strides) {
  return layout(has_channels_last_strides(env(), operands(sizes), operands(strides), 2));
}

c10::SymNode Node::is_channels_last_strides_3d(Nodes sizes, Nodes strides) {
  return layout(has_channels_last_strides(env(), operands(sizes), operands(strides), 3));
}

c10::SymNode Node::is_non_overlapping_and_dense(Nodes sizes, Nodes strides) {
  return layout(shapes::is_non_overlapping_and_dense(env(), operands(sizes), operands(strides)));
}

int64_t Node::guard_int(const char*, int64_t) {
  if (auto number = env().specialize(expr).int64()) return *number;
  raise_undecided("the value of " + question_text(expr));
}

double Node::guard_float(const char*, int64_t) {
  if (FloatMarkers* markers = FloatMarkers::current(); markers != nullptr && is_float() && expr->has_unbacked)
    return markers->mark(expr);
  if (const Value number = env().specialize(expr); number.is_float()) return number.real();
  raise_undecided("the value of " + question_text(expr));
}

bool Node::guard_bool(const char*, int64_t) {
  if (auto truth = env().decide(expr)) return *truth;
  raise_undecided(question_text(expr));
}

bool Node::expect_true(const char* file, int64_t) {
  AssertSink* sink = AssertSink::current();
  // A kernel repeats its own checks in each run. A check of the program must become a node, or no run makes it.
  const std::string_view place = file != nullptr ? file : "";
  const bool is_kernel = place.ends_with(".cpp") || place.ends_with(".h");
  if (const auto answer = env().decide(expr)) return *answer;
  if (sink == nullptr || is_kernel) {
    env().note_check(expr);
    return true;
  }
  sink->asserted(expr);
  return env().assume(expr);
}

bool Node::guard_size_oblivious(const char*, int64_t) {
  if (auto truth = env().guard_size_oblivious(expr)) return *truth;
  raise_undecided(question_text(expr));
}

std::optional<bool> Node::constant_bool() {
  return is_bool() && expr->is_constant() ? std::optional(expr->constant.truth()) : std::nullopt;
}

std::optional<int64_t> Node::maybe_as_int() { return is_int() ? env().simplify(expr)->int_constant() : std::nullopt; }

}  // namespace stator::shapes
