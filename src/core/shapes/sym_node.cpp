#include "core/shapes/sym_node.h"

#include <stdexcept>
#include <utility>
#include <vector>

#include "core/base/check.h"
#include "core/shapes/current.h"
#include "core/shapes/float_markers.h"
#include "core/shapes/layout.h"

namespace stator::shapes {
namespace {

Undecided undecided = nullptr;
Unwrap unwrap_node = nullptr;

[[noreturn]] void raise_undecided(const std::string& question) {
  if (undecided != nullptr) undecided(question);
  throw std::runtime_error("a number depends on data: " + question);
}

/// Questions about long expressions are cut.
std::string question_text(Ex expr) {
  constexpr uint32_t kLarge = 60;
  return expr->tree_size <= kLarge ? to_python(expr) : "a long expression";
}

class Node final : public c10::SymNodeImpl {
 public:
  explicit Node(Ex e) : expr(e) {}
  const Expr expr;

  bool is_int() override { return expr->type == Type::Int; }
  bool is_float() override { return expr->type == Type::Float; }
  bool is_bool() override { return expr->type == Type::Bool; }
  bool has_hint() override { return static_cast<bool>(expr->hint); }
  std::string str() override { return to_python(expr); }
  c10::SymNode clone() override { return to_node(expr); }
  c10::SymNode wrap_int(int64_t number) override { return to_node(env().constant(number)); }
  c10::SymNode wrap_float(double number) override { return to_node(env().constant(number)); }
  c10::SymNode wrap_bool(bool truth) override { return to_node(env().constant(truth)); }

  c10::SymNode add(const c10::SymNode& other) override { return binary(Op::Add, other); }
  c10::SymNode sub(const c10::SymNode& other) override { return binary(Op::Sub, other); }
  c10::SymNode mul(const c10::SymNode& other) override { return binary(Op::Mul, other); }
  c10::SymNode truediv(const c10::SymNode& other) override { return binary(Op::TrueDiv, other); }
  c10::SymNode float_truediv(const c10::SymNode& other) override { return binary(Op::TrueDiv, other); }
  c10::SymNode int_truediv(const c10::SymNode& other) override { return binary(Op::TrueDiv, other); }
  c10::SymNode floordiv(const c10::SymNode& other) override { return binary(Op::FloorDiv, other); }
  c10::SymNode int_floordiv(const c10::SymNode& other) override { return binary(Op::FloorDiv, other); }
  c10::SymNode mod(const c10::SymNode& other) override { return binary(Op::Mod, other); }
  c10::SymNode pow(const c10::SymNode& other) override { return binary(Op::Pow, other); }
  c10::SymNode float_pow(const c10::SymNode& other) override { return binary(Op::Pow, other); }
  c10::SymNode pow_by_natural(const c10::SymNode& other) override { return binary(Op::Pow, other); }
  c10::SymNode eq(const c10::SymNode& other) override { return binary(Op::Eq, other); }
  c10::SymNode ne(const c10::SymNode& other) override { return binary(Op::Ne, other); }
  c10::SymNode gt(const c10::SymNode& other) override { return binary(Op::Gt, other); }
  c10::SymNode lt(const c10::SymNode& other) override { return binary(Op::Lt, other); }
  c10::SymNode le(const c10::SymNode& other) override { return binary(Op::Le, other); }
  c10::SymNode ge(const c10::SymNode& other) override { return binary(Op::Ge, other); }
  c10::SymNode sym_min(const c10::SymNode& other) override { return binary(Op::Min, other); }
  c10::SymNode sym_max(const c10::SymNode& other) override { return binary(Op::Max, other); }
  c10::SymNode sym_and(const c10::SymNode& other) override { return binary(Op::And, other); }
  c10::SymNode sym_or(const c10::SymNode& other) override { return binary(Op::Or, other); }
  c10::SymNode sym_not() override { return unary(Op::Not); }
  c10::SymNode neg() override { return unary(Op::Neg); }
  c10::SymNode ceil() override { return unary(Op::Ceil); }
  c10::SymNode floor() override { return unary(Op::Floor); }
  c10::SymNode sym_float() override { return unary(Op::ToFloat); }
  c10::SymNode sym_ite(const c10::SymNode& then_value, const c10::SymNode& else_value) override {
    return made(Op::Ite, env().apply(Op::Ite, expr, operand(then_value), operand(else_value)));
  }

  using Nodes = c10::ArrayRef<c10::SymNode>;
  c10::SymNode is_contiguous(Nodes sizes, Nodes strides) override {
    return layout(shapes::is_contiguous(env(), operands(sizes), operands(strides)));
  }
  c10::SymNode is_channels_last_contiguous_2d(Nodes sizes, Nodes strides) override {
    return layout(is_channels_last_contiguous(env(), operands(sizes), operands(strides), 2));
  }
  c10::SymNode is_channels_last_contiguous_3d(Nodes sizes, Nodes strides) override {
    return layout(is_channels_last_contiguous(env(), operands(sizes), operands(strides), 3));
  }
  c10::SymNode is_channels_last_strides_2d(Nodes sizes, Nodes strides) override {
    return layout(has_channels_last_strides(env(), operands(sizes), operands(strides), 2));
  }
  c10::SymNode is_channels_last_strides_3d(Nodes sizes, Nodes strides) override {
    return layout(has_channels_last_strides(env(), operands(sizes), operands(strides), 3));
  }
  c10::SymNode is_non_overlapping_and_dense(Nodes sizes, Nodes strides) override {
    return layout(shapes::is_non_overlapping_and_dense(env(), operands(sizes), operands(strides)));
  }

  int64_t guard_int(const char*, int64_t) override {
    if (auto number = env().specialize(expr).int64()) return *number;
    raise_undecided("the value of " + question_text(expr));
  }
  double guard_float(const char*, int64_t) override {
    if (FloatMarkers* markers = FloatMarkers::current(); markers != nullptr && is_float() && expr->has_unbacked)
      return markers->mark(expr);
    if (const Value number = env().specialize(expr); number.is_float()) return number.real();
    raise_undecided("the value of " + question_text(expr));
  }
  bool guard_bool(const char*, int64_t) override {
    if (auto truth = env().decide(expr)) return *truth;
    raise_undecided(question_text(expr));
  }
  bool guard_size_oblivious(const char*, int64_t) override {
    if (auto truth = env().guard_size_oblivious(expr)) return *truth;
    raise_undecided(question_text(expr));
  }
  bool guard_or_false(const char*, int64_t) override { return env().guard_or(expr, false); }
  bool guard_or_true(const char*, int64_t) override { return env().guard_or(expr, true); }
  bool statically_known_true(const char*, int64_t) override { return env().statically_known_true(expr); }
  // A check that the operator makes again in the run, on real numbers.
  bool expect_true(const char*, int64_t) override { return env().guard_or(expr, true); }
  int64_t int_() override { return guard_int(nullptr, 0); }
  bool bool_() override { return guard_bool(nullptr, 0); }

  std::optional<int64_t> constant_int() override { return expr->int_constant(); }
  std::optional<bool> constant_bool() override {
    return is_bool() && expr->is_constant() ? std::optional(expr->constant.truth()) : std::nullopt;
  }
  std::optional<int64_t> maybe_as_int() override {
    return is_int() ? env().simplify(expr)->int_constant() : std::nullopt;
  }
  bool is_constant() override { return expr->is_constant(); }
  bool is_symbolic() override { return !expr->is_constant(); }

 private:
  ShapeEnv& env() const { return *expr->env; }

  Ex operand(const c10::SymNode& node) {
    if (const Expr own = expression_of(node.get())) {
      if (own->env == &env()) return own;
      // A constant belongs to no capture.
      if (own->is_constant()) return env().constant(own->constant);
    }
    if (auto number = node->constant_int()) return env().constant(*number);
    if (auto truth = node->constant_bool()) return env().constant(*truth);
    raise_undecided("a symbolic number that is not of this capture");
  }
  std::vector<Ex> operands(Nodes nodes) {
    std::vector<Ex> exprs;
    for (const c10::SymNode& node : nodes) exprs.push_back(operand(node));
    return exprs;
  }
  /// A layout that is not known gives a truth that is not known.
  c10::SymNode layout(Ex truth) { return to_node(truth != nullptr ? truth : env().add_unbacked(Type::Bool)); }

  c10::SymNode made(Op op, Ex result) {
    if (result == nullptr) raise_undecided(std::string(op_name(op)) + " of " + question_text(expr));
    return to_node(result);
  }
  c10::SymNode unary(Op op) { return made(op, env().apply(op, expr)); }
  c10::SymNode binary(Op op, const c10::SymNode& other) { return made(op, env().apply(op, expr, operand(other))); }
};

/// The environment of two numbers of which one is symbolic.
ShapeEnv& env_of(const Expr& a, const Expr& b) {
  if (!a && !b) raise_undecided("a symbolic number that is not of this capture");
  return *(a ? a : b)->env;
}

Ex in_env(ShapeEnv& env, const Expr& expr, const c10::SymInt& number) {
  if (expr && expr->env == &env) return expr;
  if (auto plain = number.maybe_as_int()) return env.constant(*plain);
  raise_undecided("a symbolic number that is not of this capture");
}

}  // namespace

void set_undecided(Undecided handler) { undecided = handler; }
void set_unwrap(Unwrap unwrap) { unwrap_node = unwrap; }

c10::SymNode to_node(Ex expr) { return c10::make_intrusive<Node>(expr); }

c10::SymInt to_sym_int(Ex expr) {
  if (auto number = expr->int_constant()) return *number;
  return c10::SymInt(to_node(expr));
}

Expr expression_of(const c10::SymNodeImpl* node) {
  if (node == nullptr) return nullptr;
  if (const auto* own = dynamic_cast<const Node*>(node)) return own->expr;
  if (unwrap_node == nullptr) return nullptr;
  const c10::SymNode inner = unwrap_node(const_cast<c10::SymNodeImpl*>(node));
  const auto* own = dynamic_cast<const Node*>(inner.get());
  return own != nullptr ? own->expr : Expr();
}

Expr expression_of(const c10::SymInt& number) {
  return number.is_heap_allocated() ? expression_of(number.toSymNodeImplUnowned()) : Expr();
}

c10::SymInt new_size(const c10::SymInt& most) {
  ShapeEnv* env = current_env();
  STATOR_CHECK(env != nullptr, "no environment for symbols");
  const Expr bound = expression_of(most);
  WideInt high = INT64_MAX;
  if (bound) high = std::min(high, bound->env->derived(bound).range.high);
  if (auto plain = most.maybe_as_int()) high = *plain;
  Ex size = env->add_unbacked(Type::Int, {0, high}, /*is_size=*/true);
  if (bound && bound->env == env) env->learn(env->apply(Op::Le, size, bound));
  return to_sym_int(size);
}

c10::SymInt as_size(const c10::SymInt& number) {
  const Expr expr = expression_of(number);
  if (!expr) return number;
  ShapeEnv& env = *expr->env;
  Ex zero = env.constant(int64_t{0}), is_size = env.apply(Op::Ge, expr, zero);
  if (is_size == nullptr || env.known(is_size)) return simplified(number);
  // What an operator outside of a trace checks is checked by no run.
  if (&env != current_env()) return to_sym_int(env.apply(Op::Max, expr, zero));
  env.learn(is_size);
  return simplified(number);
}

c10::SymInt quotient(const c10::SymInt& a, const c10::SymInt& b) {
  const Expr x = expression_of(a), y = expression_of(b);
  ShapeEnv& env = env_of(x, y);
  Ex number = in_env(env, x, a), by = in_env(env, y, b);
  if (Ex result = env.quotient(number, by)) return to_sym_int(result);
  raise_undecided(question_text(number) + " divided by " + question_text(by));
}

c10::SymInt position_in(const c10::SymInt& index, const c10::SymInt& size) {
  if (index.maybe_as_int() == INT64_MAX) return size;
  const Expr x = expression_of(index), y = expression_of(size);
  ShapeEnv& env = env_of(x, y);
  Ex place = in_env(env, x, index), extent = in_env(env, y, size), zero = env.constant(int64_t{0});
  auto clamped = [&](Ex from_start) -> Ex {
    Ex low = from_start != nullptr ? env.apply(Op::Max, from_start, zero) : nullptr;
    return low != nullptr ? env.apply(Op::Min, low, extent) : nullptr;
  };
  Ex is_negative = env.apply(Op::Lt, place, zero), from_end = env.apply(Op::Add, place, extent);
  const auto counts_from_end = is_negative != nullptr ? env.known(is_negative) : std::nullopt;
  Ex result = nullptr;
  if (counts_from_end) {
    result = clamped(*counts_from_end ? from_end : place);
  } else if (is_negative != nullptr && from_end != nullptr) {
    result = clamped(env.apply(Op::Ite, is_negative, from_end, place));
  }
  if (result == nullptr) raise_undecided("position " + question_text(place) + " of " + question_text(extent));
  return to_sym_int(result);
}

c10::SymInt simplified(const c10::SymInt& number) {
  if (!number.is_heap_allocated()) return number;
  const Expr expr = expression_of(number);
  if (expr) {
    Ex simple = expr->env->simplify(expr);
    return simple == expr.get() && !simple->is_constant() ? number : to_sym_int(simple);
  }
  auto plain = number.maybe_as_int();
  return plain ? c10::SymInt(*plain) : number;
}

bool depends_on_data(c10::SymIntArrayRef numbers) {
  return std::any_of(numbers.begin(), numbers.end(), [](const c10::SymInt& number) {
    if (number.maybe_as_int()) return false;
    const Expr expr = expression_of(number);
    return !expr || expr->has_unbacked;
  });
}

std::optional<bool> known(const c10::SymBool& truth) {
  if (auto plain = truth.maybe_as_bool()) return plain;
  const Expr expr = expression_of(truth.toSymNodeImplUnowned());
  return expr ? expr->env->known(expr) : std::nullopt;
}

}  // namespace stator::shapes
