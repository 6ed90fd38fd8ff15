#include "core/shapes/sym_node.h"

#include <stdexcept>
#include <utility>
#include <vector>

#include "core/base/check.h"
#include "core/shapes/current.h"
#include "core/shapes/data_scope.h"
#include "core/shapes/node.h"

namespace stator::shapes {
namespace {

Undecided undecided = nullptr;
Unwrap unwrap_node = nullptr;

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

void raise_undecided(const std::string& question) {
  if (undecided != nullptr) undecided(question);
  throw std::runtime_error("a number depends on data: " + question);
}

std::string question_text(Ex expr) {
  constexpr uint32_t kLarge = 60;
  return expr->tree_size <= kLarge ? to_python(expr) : "a long expression";
}

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

std::optional<int64_t> captured_number(const c10::SymInt& number) {
  if (auto plain = number.maybe_as_int()) return plain;
  const Expr expr = expression_of(number);
  return expr ? expr->hint.int64() : std::nullopt;
}

c10::SymInt new_size(const c10::SymInt& most) {
  ShapeEnv* env = env_for_sizes();
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
  // The operator raises for a size below 0: guards decide about backed ones before the graph runs.
  if (!expr->has_unbacked && env.decide(is_size) == false) {
    if (auto negative = env.specialize(expr).int64()) return *negative;
  }
  env.note_check(is_size);
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
