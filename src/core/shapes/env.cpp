#include "core/shapes/env.h"

#include <algorithm>

#include "core/base/check.h"
#include "core/shapes/evaluate.h"

namespace stator::shapes {

EnvPtr::EnvPtr(ShapeEnv* env) : env_(env) {
  if (env_ != nullptr) env_->owners_.fetch_add(1, std::memory_order_relaxed);
}

EnvPtr::~EnvPtr() {
  if (env_ != nullptr && env_->owners_.fetch_sub(1, std::memory_order_acq_rel) == 1) delete env_;
}

EnvPtr ShapeEnv::make(EnvOptions options) { return EnvPtr(new ShapeEnv(options)); }

Ex ShapeEnv::intern(Expression& key) {
  if (Ex found = storage_.find(key)) return found;
  key.env = this;
  uint64_t tree_size = 1;
  for (Ex operand : key) {
    STATOR_CHECK(operand->env == this, "an operand of another environment");
    key.depth = std::max(key.depth, operand->depth + 1);
    tree_size += operand->tree_size;
    key.has_unbacked = key.has_unbacked || operand->has_unbacked;
    recent(operand);
  }
  key.tree_size = static_cast<uint32_t>(std::min<uint64_t>(tree_size, UINT32_MAX));
  if (key.is_constant()) {
    key.hint = key.constant;
  } else if (key.op != Op::Symbol && !key.has_unbacked) {
    key.hint = evaluate_operation(&key, [](Ex operand) -> const Value& { return operand->hint; });
  }
  Expression* made = storage_.add(key);
  made->derived = derive(made);
  return made;
}

Ex ShapeEnv::make_node(Op op, Type type, std::span<const Ex> operands) {
  Expression key;
  key.op = op;
  key.type = type;
  key.count = static_cast<uint32_t>(operands.size());
  key.operands = operands.data();
  return intern(key);
}

Ex ShapeEnv::constant(const Value& value) {
  if (!value || (value.type() == Type::Int && !fits_int64(value.integer()))) return nullptr;
  Expression key;
  key.type = value.type();
  key.constant = value;
  return intern(key);
}

std::string ShapeEnv::next_name(char letter) {
  for (;;) {
    std::string name = letter + std::to_string(next_numbers_[letter]++);
    if (!by_name_.contains(name)) return name;
  }
}

Ex ShapeEnv::add_symbol(SymbolInfo info, const Value& hint) {
  SymbolInfo& made = all_symbols_.emplace_back(std::move(info));
  Expression key;
  key.op = Op::Symbol;
  key.type = made.type;
  key.symbol = &made;
  key.has_unbacked = !made.is_backed;
  key.hint = hint;
  made.expr = intern(key);
  symbols_.push_back(&made);
  by_name_[made.name] = made.expr;
  return made.expr;
}

Ex ShapeEnv::add_unbacked(Type type, Range range, bool is_size) {
  if (is_size) range.low = std::max<WideInt>(range.low, 0);
  SymbolInfo info{next_name(type == Type::Float ? 'f' : 'u'), nullptr, type, false, is_size, range, range, false};
  return add_symbol(std::move(info), {});
}

Ex ShapeEnv::named_symbol(const std::string& name) {
  if (auto found = by_name_.find(name); found != by_name_.end()) return found->second;
  const Range all{INT64_MIN, INT64_MAX};
  return add_symbol({name, nullptr, name[0] == 'f' ? Type::Float : Type::Int, false, false, all, all, false}, {});
}

Backed ShapeEnv::add_backed(const BackedSpec& spec) {
  const bool has_policy = options_.zero_one && spec.is_size;
  if (has_policy && (spec.hint == 0 || spec.hint == 1)) return {constant(spec.hint), kNoInput};
  const Range natural{spec.is_size ? 0 : INT64_MIN, INT64_MAX};
  Range range{std::max(natural.low, spec.range.low), std::min(natural.high, spec.range.high)};
  if (has_policy) range.low = std::max<WideInt>(range.low, 2);
  Ex expr = nullptr;
  if (options_.duck_shaping && spec.shared && spec.is_size) {
    for (const InputInfo& input : inputs_)
      if (input.symbol->symbol->is_shared && input.symbol->hint == Value::of_int(spec.hint)) expr = input.symbol;
  }
  if (expr == nullptr) {
    SymbolInfo info{next_name('s'), nullptr, Type::Int, true,
                    spec.is_size,   natural, range,     spec.shared && spec.is_size};
    expr = add_symbol(std::move(info), Value::of_int(spec.hint));
  } else if (range.low > expr->symbol->range.low || range.high < expr->symbol->range.high) {
    for (auto [op, bound] : {std::pair(Op::Ge, range.low), std::pair(Op::Le, range.high)}) {
      Ex truth = compare_form(op, expr, bound);
      if (truth == nullptr || truth->is_constant()) continue;
      guards_.push_back({truth, {spec.tag, "the range of " + spec.source}});
      add_fact(truth, true);
    }
  }
  inputs_.push_back({expr, spec.tag, spec.source});
  return {expr, static_cast<uint32_t>(inputs_.size() - 1)};
}

Backed ShapeEnv::add_backed_float(double hint, std::string source, uint64_t tag) {
  SymbolInfo info{next_name('s'), nullptr, Type::Float, true, false, {}, {}, false};
  Ex expr = add_symbol(std::move(info), Value::of_float(hint));
  inputs_.push_back({expr, tag, std::move(source)});
  return {expr, static_cast<uint32_t>(inputs_.size() - 1)};
}

ShapeEnv::Mark ShapeEnv::mark() const {
  return {symbols_.size(), inputs_.size(), guards_.size(), asserts_.size(),
          checks_.size(),  facts_.mark(),  next_numbers_};
}

void ShapeEnv::rollback(const Mark& mark) {
  facts_.rollback(mark.facts);
  for (size_t i = mark.symbols; i < symbols_.size(); ++i) by_name_.erase(symbols_[i]->name);
  symbols_.resize(mark.symbols);
  inputs_.resize(mark.inputs);
  guards_.resize(mark.guards);
  asserts_.resize(mark.asserts);
  checks_.resize(mark.checks);
  next_numbers_ = mark.next_numbers;
  ++generation_;
  changed();
}

void ShapeEnv::forget_facts(size_t mark) {
  if (facts_.mark() <= mark) return;
  facts_.rollback(mark);
  ++generation_;
  changed();
}

std::string ShapeEnv::describe() const {
  std::vector<std::string> lines;
  auto number = [](WideInt bound) {
    return bound <= -kInfinite ? std::string("-inf") : bound >= kInfinite ? "inf" : wide_text(bound);
  };
  auto interval = [&](const Range& range) { return "[" + number(range.low) + ", " + number(range.high) + "]"; };
  for (const SymbolInfo* symbol : symbols_) {
    lines.push_back("symbol " + symbol->name + " " + interval(symbol->range) + (symbol->is_backed ? " backed" : "") +
                    (symbol->is_size ? " size" : "") + " hint " + value_text(symbol->expr->hint));
  }
  for (const InputInfo& input : inputs_)
    lines.push_back("input " + input.symbol->symbol->name + " " + std::to_string(input.tag) + " " + input.source);
  for (const auto& [form, fact] : facts_.forms()) {
    lines.push_back("form " + to_python(form) + " in " + interval(fact.range) + " is " +
                    std::to_string(fact.congruence.remainder) + " mod " + std::to_string(fact.congruence.modulus));
  }
  for (const auto& [truth, value] : facts_.truths())
    lines.push_back("truth " + to_python(truth) + (value ? " holds" : " does not hold"));
  for (const auto& [symbol, by] : facts_.replacements())
    lines.push_back("equal " + to_python(symbol) + " " + to_python(by));
  std::sort(lines.begin(), lines.end());
  for (const Guard& guard : guards_) lines.push_back("guard " + to_python(guard.truth) + " " + guard.where.text);
  for (const Guard& assert : asserts_) lines.push_back("assert " + to_python(assert.truth) + " " + assert.where.text);
  std::string text;
  for (const std::string& line : lines) text += line + "\n";
  return text;
}

}  // namespace stator::shapes
