#include "core/shapes/sym_node.h"

#include <ATen/core/Scalar.h>

#include <atomic>
#include <stdexcept>
#include <unordered_map>
#include <utility>

#include "core/base/check.h"
#include "core/shapes/float_markers.h"

namespace stator::shapes {
namespace {

Undecided undecided = nullptr;
std::atomic<int64_t> live_nodes = 0;

[[noreturn]] void raise_undecided(const std::string& question) {
  if (undecided != nullptr) undecided(question);
  throw std::runtime_error("a number depends on data: " + question);
}

class Node final : public c10::SymNodeImpl {
 public:
  explicit Node(Expr e) : expr(std::move(e)) { live_nodes.fetch_add(1, std::memory_order_relaxed); }
  ~Node() override { live_nodes.fetch_sub(1, std::memory_order_relaxed); }
  const Expr expr;

  bool is_int() override { return expr->type == Type::Int; }
  bool is_float() override { return expr->type == Type::Float; }
  bool is_bool() override { return expr->type == Type::Bool; }
  bool has_hint() override { return false; }
  std::string str() override { return expr->text; }
  c10::SymNode clone() override { return to_node(expr); }
  c10::SymNode wrap_int(int64_t number) override { return to_node(constant(number)); }
  c10::SymNode wrap_float(double number) override { return to_node(constant(number)); }
  c10::SymNode wrap_bool(bool truth) override { return to_node(constant(truth)); }

  c10::SymNode add(const c10::SymNode& other) override { return binary(Op::Add, other); }
  c10::SymNode sub(const c10::SymNode& other) override { return binary(Op::Sub, other); }
  c10::SymNode mul(const c10::SymNode& other) override { return binary(Op::Mul, other); }
  c10::SymNode truediv(const c10::SymNode& other) override { return binary(Op::TrueDiv, other); }
  c10::SymNode floordiv(const c10::SymNode& other) override { return binary(Op::FloorDiv, other); }
  c10::SymNode mod(const c10::SymNode& other) override { return binary(Op::Mod, other); }
  c10::SymNode pow(const c10::SymNode& other) override { return binary(Op::Pow, other); }
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
  c10::SymNode sym_float() override { return unary(Op::ToFloat); }

  // Shape functions compare sizes and strides themselves. Torch's own questions about layouts get an unknown answer.
  using Nodes = c10::ArrayRef<c10::SymNode>;
  c10::SymNode is_contiguous(Nodes, Nodes) override { return unknown_bool(); }
  c10::SymNode is_channels_last_contiguous_2d(Nodes, Nodes) override { return unknown_bool(); }
  c10::SymNode is_channels_last_contiguous_3d(Nodes, Nodes) override { return unknown_bool(); }
  c10::SymNode is_channels_last_strides_2d(Nodes, Nodes) override { return unknown_bool(); }
  c10::SymNode is_channels_last_strides_3d(Nodes, Nodes) override { return unknown_bool(); }
  c10::SymNode is_non_overlapping_and_dense(Nodes, Nodes) override { return unknown_bool(); }

  int64_t guard_int(const char*, int64_t) override {
    if (auto number = constant_int()) return *number;
    raise_undecided("the value of " + expr->text);
  }
  double guard_float(const char*, int64_t) override {
    if (expr->is_constant() && is_float()) return std::get<double>(expr->constant);
    if (FloatMarkers* markers = FloatMarkers::current(); markers != nullptr && is_float()) return markers->mark(expr);
    raise_undecided("the value of " + expr->text);
  }
  bool guard_bool(const char*, int64_t) override {
    if (auto truth = decide(expr)) return *truth;
    raise_undecided(expr->text);
  }
  bool guard_size_oblivious(const char* file, int64_t line) override { return guard_bool(file, line); }
  bool guard_or_false(const char*, int64_t) override { return decide(expr).value_or(false); }
  bool guard_or_true(const char*, int64_t) override { return decide(expr).value_or(true); }
  bool statically_known_true(const char*, int64_t) override { return decide(expr).value_or(false); }
  // A check that the operator makes again in the run, on real numbers.
  bool expect_true(const char*, int64_t) override { return decide(expr).value_or(true); }
  int64_t int_() override { return guard_int(nullptr, 0); }
  bool bool_() override { return guard_bool(nullptr, 0); }

  std::optional<int64_t> constant_int() override {
    if (!expr->is_constant() || !is_int()) return std::nullopt;
    return std::get<int64_t>(expr->constant);
  }
  std::optional<bool> constant_bool() override { return is_bool() ? decide(expr) : std::nullopt; }
  std::optional<int64_t> maybe_as_int() override { return constant_int(); }
  bool is_constant() override { return expr->is_constant(); }
  bool is_symbolic() override { return !expr->is_constant(); }

 private:
  static c10::SymNode unknown_bool() { return to_node(symbol(Type::Bool)); }

  c10::SymNode made(Op op, Expr result) {
    if (!result) raise_undecided(std::string(op_name(op)) + " of " + expr->text);
    return to_node(std::move(result));
  }
  c10::SymNode unary(Op op) { return made(op, apply(op, expr)); }
  c10::SymNode binary(Op op, const c10::SymNode& other) {
    Expr right = expression_of(other.get());
    if (!right)
      if (auto number = other->constant_int()) right = constant(*number);
    if (!right) raise_undecided("a symbolic number that is not Stator's");
    return made(op, apply(op, expr, right));
  }
};

thread_local std::unordered_map<std::string, std::weak_ptr<const Expression>> by_text;

void remember(const Expr& expr) {
  constexpr size_t kMany = 256;
  if (by_text.size() > kMany) std::erase_if(by_text, [](const auto& entry) { return entry.second.expired(); });
  by_text[expr->text] = expr;
}

}  // namespace

void set_undecided(Undecided handler) { undecided = handler; }
bool has_symbols() { return live_nodes.load(std::memory_order_relaxed) > 0; }

c10::SymNode to_node(Expr expr) {
  if (expr->type != Type::Int) remember(expr);
  return c10::make_intrusive<Node>(std::move(expr));
}

c10::SymInt to_sym_int(const Expr& expr) {
  if (expr->is_constant()) return std::get<int64_t>(expr->constant);
  return c10::SymInt(to_node(expr));
}

Expr expression_of(const c10::SymNodeImpl* node) {
  if (node == nullptr) return nullptr;
  if (const auto* own = dynamic_cast<const Node*>(node)) return own->expr;
  auto* other = const_cast<c10::SymNodeImpl*>(node);
  if (!has_symbols() || other->is_int()) return nullptr;
  auto found = by_text.find(other->_graph_repr());
  return found == by_text.end() ? nullptr : found->second.lock();
}

Expr expression_of(const c10::SymInt& number) {
  if (!number.is_heap_allocated()) return constant(number.as_int_unchecked());
  return expression_of(number.toSymNodeImplUnowned());
}

c10::SymInt new_size(const c10::SymInt& most) {
  const Expr bound = expression_of(most);
  return to_sym_int(symbol(Type::Int, {0, bound ? bound->range.high : INT64_MAX}));
}

c10::SymInt as_size(const c10::SymInt& number) {
  if (!number.is_heap_allocated()) return number;
  const Expr expr = expression_of(number);
  if (!expr || expr->range.low >= 0) return simplified(number);
  return to_sym_int(opaque("size", {expr}, {0, expr->range.high}));
}

c10::SymInt quotient(const c10::SymInt& a, const c10::SymInt& b) {
  const Expr x = expression_of(a), y = expression_of(b);
  if (!x || !y) raise_undecided("a symbolic number that is not Stator's");
  const Expr result = divided(x, y);
  if (!result) raise_undecided(x->text + " divided by " + y->text);
  return to_sym_int(result);
}

c10::SymInt position_in(const c10::SymInt& index, const c10::SymInt& size) {
  const Expr place = expression_of(index), extent = expression_of(size);
  if (!place || !extent) raise_undecided("a symbolic number that is not Stator's");
  if (place->is_constant() && place->range.low == INT64_MAX) return size;
  if (place->range.low >= 0) return to_sym_int(apply(Op::Min, place, extent));
  if (auto number = place->is_constant() ? index.maybe_as_int() : std::nullopt) {
    // Counted from the end, and not before the beginning.
    return to_sym_int(apply(Op::Max, apply(Op::Add, extent, constant(*number)), constant(int64_t{0})));
  }
  return to_sym_int(opaque("position", {place, extent}, {0, extent->range.high}));
}

c10::SymInt simplified(const c10::SymInt& number) {
  if (!number.is_heap_allocated()) return number;
  auto plain = number.maybe_as_int();
  return plain ? c10::SymInt(*plain) : number;
}

std::optional<bool> known(const c10::SymBool& truth) { return truth.maybe_as_bool(); }

}  // namespace stator::shapes
