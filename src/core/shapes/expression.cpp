#include "core/shapes/expression.h"

#include <algorithm>
#include <array>
#include <cinttypes>
#include <cstdio>
#include <map>

#include "core/base/check.h"

namespace stator::shapes {
namespace {

constexpr std::array<const char*, static_cast<size_t>(Op::ToBool) + 1> kNames = {
    "constant", "symbol", "opaque", "add", "sub", "mul", "truediv", "floordiv", "mod", "pow", "min", "max",   "lt",
    "le",       "eq",     "ne",     "gt",  "ge",  "and", "or",      "not",      "neg", "abs", "int", "float", "bool",
};

using Wide = __int128;

int64_t saturated(Wide value) { return static_cast<int64_t>(std::clamp<Wide>(value, INT64_MIN, INT64_MAX)); }

std::string number_text(const Number& number) {
  if (const auto* whole = std::get_if<int64_t>(&number)) return std::to_string(*whole);
  if (const auto* truth = std::get_if<bool>(&number)) return *truth ? "True" : "False";
  char text[40];
  // Hexadecimal: equal texts are equal bits.
  std::snprintf(text, sizeof(text), "%a", std::get<double>(number));
  return text;
}

/// Whether computing it of operands that were computed may fail.
bool own_failure(const Expression& expr) {
  const auto fits = [](const Range& range) { return range.low > INT64_MIN && range.high < INT64_MAX; };
  const auto is_float = [](const Expr& e) { return e->type == Type::Float; };
  // Beside a float an integer becomes one, which holds 53 bits.
  constexpr int64_t kExact = int64_t{1} << 53;
  const auto exact = [&](const Expr& e) {
    return e->type != Type::Int || (e->range.low >= -kExact && e->range.high <= kExact);
  };
  const bool floats = expr.op == Op::TrueDiv || std::any_of(expr.args.begin(), expr.args.end(), is_float);
  if (floats && !std::all_of(expr.args.begin(), expr.args.end(), exact)) return true;
  switch (expr.op) {
    case Op::Add:
    case Op::Sub:
    case Op::Mul:
    case Op::Neg:
    case Op::Abs:
      return expr.type == Type::Int && !fits(expr.range);
    case Op::TrueDiv:
    case Op::FloorDiv:
    case Op::Mod: {
      const Expr& by = expr.args[1];
      if (by->type == Type::Float) return !by->is_constant() || std::get<double>(by->constant) == 0;
      const bool smallest = expr.op != Op::TrueDiv && by->range.low <= -1 && expr.args[0]->range.low == INT64_MIN;
      return smallest || (by->range.low <= 0 && by->range.high >= 0);
    }
    case Op::Pow:
      return true;
    case Op::ToInt:
      return is_float(expr.args[0]);
    case Op::ToFloat:
      return !exact(expr.args[0]);
    default:
      return false;
  }
}

Expr make(Op op, Type type, std::vector<Expr> args, Range range, const std::string& name) {
  // So that work on an expression is bounded, however a loop makes it grow.
  constexpr size_t kLongest = 300;
  auto made = std::make_shared<Expression>();
  made->op = op;
  made->type = type;
  made->range = range;
  made->text = name + "(";
  for (size_t i = 0; i < args.size(); ++i) made->text += (i != 0 ? ", " : "") + args[i]->text;
  made->text += ")";
  made->args = std::move(args);
  made->fails = op != Op::Opaque && (std::any_of(made->args.begin(), made->args.end(), may_fail) || own_failure(*made));
  if (made->text.size() > kLongest) {
    static thread_local uint64_t count = 0;
    made->text = "e" + std::to_string(count++);
    made->sealed = true;
  }
  return made;
}

std::optional<int64_t> whole(const Expr& expr) {
  if (!expr->is_constant() || expr->type != Type::Int) return std::nullopt;
  return std::get<int64_t>(expr->constant);
}

/// A sum of multiples of other expressions, by their texts, and a constant. 64 bits hold all coefficients.
struct Sum {
  std::map<std::string, std::pair<Expr, int64_t>> terms;
  int64_t constant = 0;
  bool fits = true;

  void add(const Expr& term, int64_t times) {
    auto& [expr, count] = terms.try_emplace(term->text, term, 0).first->second;
    fits = fits && !__builtin_add_overflow(count, times, &count);
    if (count == 0) terms.erase(term->text);
  }

  void add_scaled(const Expr& expr, int64_t times) {
    if (auto value = whole(expr)) {
      int64_t scaled = 0;
      fits = fits && !__builtin_mul_overflow(*value, times, &scaled) &&
             !__builtin_add_overflow(constant, scaled, &constant);
    } else if (expr->op == Op::Add && !expr->sealed) {
      for (const Expr& part : expr->args) add_scaled(part, times);
    } else if (auto factor = expr->op == Op::Mul && !expr->sealed ? whole(expr->args[0]) : std::nullopt) {
      int64_t scaled = 0;
      fits = fits && !__builtin_mul_overflow(*factor, times, &scaled);
      if (fits) add_scaled(expr->args[1], scaled);
    } else {
      add(expr, times);
    }
  }

  Range range() const {
    Wide low = constant, high = constant;
    for (const auto& [text, term] : terms) {
      const auto& [expr, times] = term;
      const Wide a = Wide(expr->range.low) * times, b = Wide(expr->range.high) * times;
      // What is unknown stays so, however it is scaled.
      const bool no_low = expr->range.low == INT64_MIN, no_high = expr->range.high == INT64_MAX;
      low += (times > 0 ? no_low : no_high) ? Wide(INT64_MIN) * 4 : std::min(a, b);
      high += (times > 0 ? no_high : no_low) ? Wide(INT64_MAX) * 4 : std::max(a, b);
    }
    return {saturated(low), saturated(high)};
  }

  Expr build() const {
    Expr result;
    auto append = [&](const Expr& part) {
      if (!result) {
        result = part;
        return;
      }
      Wide low = Wide(result->range.low) + part->range.low, high = Wide(result->range.high) + part->range.high;
      if (result->range.low == INT64_MIN || part->range.low == INT64_MIN) low = INT64_MIN;
      if (result->range.high == INT64_MAX || part->range.high == INT64_MAX) high = INT64_MAX;
      result = make(Op::Add, Type::Int, {result, part}, {saturated(low), saturated(high)}, "add");
    };
    for (const auto& [text, term] : terms) {
      const auto& [expr, times] = term;
      if (times == 1) {
        append(expr);
      } else {
        Sum alone;
        alone.terms.emplace(text, term);
        append(make(Op::Mul, Type::Int, {shapes::constant(times), expr}, alone.range(), "mul"));
      }
    }
    if (constant != 0 || !result) append(shapes::constant(constant));
    return result;
  }
};

Range product(const Range& a, const Range& b) {
  const auto unknown = [](const Range& r) { return r.low == INT64_MIN || r.high == INT64_MAX; };
  const bool positive = a.low >= 0 && b.low >= 0;
  if (unknown(a) || unknown(b)) return positive ? Range{saturated(Wide(a.low) * b.low), INT64_MAX} : Range{};
  const Wide corners[] = {Wide(a.low) * b.low, Wide(a.low) * b.high, Wide(a.high) * b.low, Wide(a.high) * b.high};
  return {saturated(*std::min_element(std::begin(corners), std::end(corners))),
          saturated(*std::max_element(std::begin(corners), std::end(corners)))};
}

Range range_of(Op op, const Expr& a, const Expr& b) {
  const Range &x = a->range, &y = b ? b->range : a->range;
  switch (op) {
    case Op::Mul:
      return product(x, y);
    case Op::Min:
      return {std::min(x.low, y.low), std::min(x.high, y.high)};
    case Op::Max:
      return {std::max(x.low, y.low), std::max(x.high, y.high)};
    case Op::FloorDiv:
      if (auto by = whole(b); by && *by > 0 && x.low >= 0)
        return {x.low / *by, x.high == INT64_MAX ? INT64_MAX : x.high / *by};
      return {};
    case Op::Mod:
      if (auto by = whole(b); by && *by > 0) return {0, *by - 1};
      return {};
    case Op::Abs:
      return x.low >= 0 ? x : Range{0, INT64_MAX};
    case Op::ToInt:
      return a->type == Type::Bool ? Range{0, 1} : Range{};
    default:
      return {};
  }
}

bool is_comparison(Op op) { return op >= Op::Lt && op <= Op::Ge; }

std::optional<bool> compared(Op op, const Range& difference) {
  const auto [low, high] = difference;
  switch (op) {
    case Op::Lt:
      if (high < 0) return true;
      if (low >= 0) return false;
      break;
    case Op::Le:
      if (high <= 0) return true;
      if (low > 0) return false;
      break;
    case Op::Gt:
      if (low > 0) return true;
      if (high <= 0) return false;
      break;
    case Op::Ge:
      if (low >= 0) return true;
      if (high < 0) return false;
      break;
    case Op::Eq:
    case Op::Ne:
      if (low > 0 || high < 0) return op == Op::Ne;
      if (low == 0 && high == 0) return op == Op::Eq;
      break;
    default:
      break;
  }
  return std::nullopt;
}

Expr as_int(const Expr& expr) { return expr->type == Type::Bool ? apply(Op::ToInt, expr) : expr; }

Expr int_result(Op op, const Expr& a, const Expr& b) {
  if (op == Op::Add || op == Op::Sub) {
    Sum sum;
    sum.add_scaled(a, 1);
    sum.add_scaled(b, op == Op::Add ? 1 : -1);
    if (sum.fits) return sum.build();
  }
  if (op == Op::Mul) {
    const Expr &number = whole(a) ? a : b, &other = whole(a) ? b : a;
    if (auto times = whole(number)) {
      Sum sum;
      sum.add_scaled(other, *times);
      if (sum.fits) return sum.build();
    }
    if (b->text < a->text) return make(op, Type::Int, {b, a}, range_of(op, a, b), op_name(op));
  }
  if (op == Op::FloorDiv && whole(b) == 1) return a;
  if ((op == Op::Min || op == Op::Max) && a->text == b->text) return a;
  if (op == Op::Min || op == Op::Max) {
    const Op first_wins = op == Op::Min ? Op::Le : Op::Ge;
    if (auto first = decide(apply(first_wins, a, b))) return *first ? a : b;
  }
  return make(op, Type::Int, {a, b}, range_of(op, a, b), op_name(op));
}

/// The type of Python's result; none where it depends on the values, or where there is no such operator.
std::optional<Type> result_type(Op op, Type a, Type b) {
  const bool has_float = a == Type::Float || b == Type::Float;
  switch (op) {
    case Op::Add:
    case Op::Sub:
    case Op::Mul:
      return has_float ? Type::Float : Type::Int;
    case Op::FloorDiv:
    case Op::Mod:
      return has_float ? Type::Float : Type::Int;
    case Op::TrueDiv:
      return Type::Float;
    case Op::Min:
    case Op::Max:
      return a == b ? std::optional(a) : std::nullopt;
    case Op::And:
    case Op::Or:
      return a == Type::Bool && b == Type::Bool ? std::optional(Type::Bool) : std::nullopt;
    case Op::Not:
    case Op::ToBool:
      return Type::Bool;
    case Op::Neg:
    case Op::Abs:
      return a == Type::Float ? Type::Float : Type::Int;
    case Op::ToInt:
      return Type::Int;
    case Op::ToFloat:
      return Type::Float;
    default:
      return is_comparison(op) ? std::optional(Type::Bool) : std::nullopt;
  }
}

/// Of integers, a negative exponent makes a float.
std::optional<Type> power_type(const Expr& base, const Expr& exponent) {
  if (base->type == Type::Float || exponent->type == Type::Float) return Type::Float;
  const Range& range = as_int(exponent)->range;
  if (range.low >= 0) return Type::Int;
  return range.high < 0 ? std::optional(Type::Float) : std::nullopt;
}

}  // namespace

const char* op_name(Op op) { return kNames[static_cast<size_t>(op)]; }

std::optional<Op> find_op(const std::string& name) {
  for (size_t i = static_cast<size_t>(Op::Add); i < kNames.size(); ++i)
    if (name == kNames[i]) return static_cast<Op>(i);
  return std::nullopt;
}

Expr constant(Number value) {
  auto made = std::make_shared<Expression>();
  made->constant = value;
  made->type = static_cast<Type>(value.index());
  made->text = number_text(value);
  if (const auto* number = std::get_if<int64_t>(&value)) made->range = {*number, *number};
  return made;
}

Expr symbol(Type type, Range range) {
  static thread_local uint64_t count = 0;
  auto made = std::make_shared<Expression>();
  made->op = Op::Symbol;
  made->type = type;
  made->range = range;
  made->text = "u" + std::to_string(count++);
  return made;
}

Expr opaque(const std::string& name, std::vector<Expr> args, Range range) {
  return make(Op::Opaque, Type::Int, std::move(args), range, name);
}

Expr apply(Op op, const Expr& a, const Expr& b) {
  STATOR_CHECK(a && (b || is_unary(op)), "an operator without its operands");
  const auto type = op == Op::Pow ? power_type(a, b) : result_type(op, a->type, b ? b->type : a->type);
  if (!type) return nullptr;
  if (a->is_constant() && (!b || b->is_constant())) {
    try {
      return constant(compute(op, a->constant, b ? b->constant : Number()));
    } catch (const std::domain_error&) {
      return nullptr;
    }
  }
  if ((op == Op::ToInt && a->type == Type::Int) || (op == Op::ToFloat && a->type == Type::Float) ||
      (op == Op::ToBool && a->type == Type::Bool))
    return a;
  if (op == Op::Neg && a->type != Type::Float) return int_result(Op::Mul, constant(int64_t{-1}), as_int(a));
  if (op == Op::Abs && a->type == Type::Int && a->range.low >= 0) return a;
  const bool on_ints = a->type != Type::Float && (!b || b->type != Type::Float);
  if (*type == Type::Int && b) return int_result(op, as_int(a), as_int(b));
  if (is_comparison(op) && on_ints) {
    Sum difference;
    difference.add_scaled(as_int(a), 1);
    difference.add_scaled(as_int(b), -1);
    if (difference.fits)
      if (auto known = compared(op, difference.range())) return constant(*known);
  }
  std::vector<Expr> args = {a};
  if (b) args.push_back(b);
  return make(op, *type, std::move(args), *type == Type::Int ? range_of(op, a, b) : Range{}, op_name(op));
}

Expr divided(const Expr& a, const Expr& b) {
  Sum sum;
  sum.add_scaled(a, 1);
  const auto times = whole(b);
  if (!times && sum.constant == 0 && sum.terms.size() == 1 && sum.terms.begin()->first == b->text)
    return constant(sum.terms.begin()->second.second);
  bool divides = sum.fits && times && *times > 0 && sum.constant % *times == 0;
  for (const auto& [text, term] : sum.terms) divides = divides && term.second % *times == 0;
  if (!divides) return apply(Op::FloorDiv, a, b);
  sum.constant /= *times;
  for (auto& [text, term] : sum.terms) term.second /= *times;
  return sum.build();
}

std::optional<bool> decide(const Expr& truth) {
  if (!truth || truth->sealed) return std::nullopt;
  if (truth->is_constant() && truth->type == Type::Bool) return std::get<bool>(truth->constant);
  if (truth->op == Op::Not && truth->args[0]->type == Type::Bool) {
    auto inner = decide(truth->args[0]);
    return inner ? std::optional(!*inner) : std::nullopt;
  }
  if (truth->op == Op::ToBool && truth->args[0]->type == Type::Int)
    return decide(apply(Op::Ne, truth->args[0], constant(int64_t{0})));
  if (truth->op == Op::And || truth->op == Op::Or) {
    const bool ends = truth->op == Op::Or;  // the truth of one side that decides
    auto a = decide(truth->args[0]), b = decide(truth->args[1]);
    if ((a && *a == ends) || (b && *b == ends)) return ends;
    if (a && b) return !ends;
  }
  return std::nullopt;
}

}  // namespace stator::shapes
