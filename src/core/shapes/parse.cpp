#include <cctype>
#include <charconv>
#include <limits>
#include <string>

#include "core/shapes/env.h"

namespace stator::shapes {
namespace {

/// Recursive descent over Python's grammar of expressions. Null is an error, and ends the parse.
class ExprParser {
 public:
  ExprParser(ShapeEnv* env, std::string_view text) : env_(env), text_(text) {}
  Ex parse();

 private:
  Ex choice();
  Ex disjunction();
  Ex conjunction();
  Ex inversion();
  Ex comparison();
  Ex binary(size_t level);
  Ex factor();
  Ex power();
  Ex atom();
  Ex number();
  Ex name();
  Ex call(const std::string& function);

  void skip() {
    while (at_ < text_.size() && std::isspace(static_cast<unsigned char>(text_[at_])) != 0) ++at_;
  }
  bool accept(std::string_view token);
  bool accept_word(std::string_view word);
  std::string identifier();
  Ex combine(Op op, Ex a, Ex b) { return a != nullptr && b != nullptr ? env_->apply(op, a, b) : nullptr; }

  ShapeEnv* env_;
  std::string_view text_;
  size_t at_ = 0;
  int depth_ = 0;
  std::unordered_map<std::string, Ex> names_;
};

struct Infix {
  std::string_view token;
  Op op;
};
/// Loosest first; within a level, longer tokens first.
constexpr Infix kLevels[][5] = {
    {{"|", Op::BitOr}},
    {{"^", Op::BitXor}},
    {{"&", Op::BitAnd}},
    {{"<<", Op::Shl}, {">>", Op::Shr}},
    {{"+", Op::Add}, {"-", Op::Sub}},
    {{"//", Op::FloorDiv}, {"/", Op::TrueDiv}, {"%", Op::Mod}, {"*", Op::Mul}},
};

bool ExprParser::accept(std::string_view token) {
  skip();
  if (!text_.substr(at_).starts_with(token)) return false;
  if (token == "*" && text_.substr(at_).starts_with("**")) return false;
  at_ += token.size();
  return true;
}

bool ExprParser::accept_word(std::string_view word) {
  skip();
  const std::string_view rest = text_.substr(at_);
  if (!rest.starts_with(word)) return false;
  if (rest.size() > word.size() &&
      (std::isalnum(static_cast<unsigned char>(rest[word.size()])) != 0 || rest[word.size()] == '_'))
    return false;
  at_ += word.size();
  return true;
}

std::string ExprParser::identifier() {
  skip();
  const size_t start = at_;
  while (at_ < text_.size()) {
    const auto letter = static_cast<unsigned char>(text_[at_]);
    if (std::isalpha(letter) == 0 && letter != '_' && (at_ == start || std::isdigit(letter) == 0)) break;
    ++at_;
  }
  return std::string(text_.substr(start, at_ - start));
}

Ex ExprParser::parse() {
  Ex result = nullptr;
  if (accept("[")) {
    for (;;) {
      const size_t before = at_;
      const std::string name = identifier();
      const bool is_definition = !name.empty() && accept(":=");
      if (!is_definition) at_ = before;
      result = choice();
      if (result == nullptr) return nullptr;
      if (!is_definition) break;
      names_[name] = result;
      if (!accept(",")) return nullptr;
    }
    if (!accept("]") || !accept("[") || !accept("-1") || !accept("]")) return nullptr;
  } else {
    result = choice();
  }
  skip();
  return at_ == text_.size() ? result : nullptr;
}

Ex ExprParser::choice() {
  constexpr int kDeepest = 2000;
  if (++depth_ > kDeepest) return nullptr;
  Ex first = disjunction();
  if (first != nullptr && accept_word("if")) {
    Ex condition = disjunction();
    if (condition == nullptr || !accept_word("else")) return nullptr;
    Ex second = choice();
    first = second != nullptr ? env_->apply(Op::Ite, condition, first, second) : nullptr;
  }
  --depth_;
  return first;
}

Ex ExprParser::disjunction() {
  Ex result = conjunction();
  while (result != nullptr && accept_word("or")) result = combine(Op::Or, result, conjunction());
  return result;
}

Ex ExprParser::conjunction() {
  Ex result = inversion();
  while (result != nullptr && accept_word("and")) result = combine(Op::And, result, inversion());
  return result;
}

Ex ExprParser::inversion() {
  if (!accept_word("not")) return comparison();
  Ex operand = inversion();
  return operand != nullptr ? env_->apply(Op::Not, operand) : nullptr;
}

Ex ExprParser::comparison() {
  constexpr Infix kComparisons[] = {{"<=", Op::Le}, {">=", Op::Ge}, {"==", Op::Eq},
                                    {"!=", Op::Ne}, {"<", Op::Lt},  {">", Op::Gt}};
  Ex left = binary(0);
  if (left == nullptr) return nullptr;
  for (const auto& [token, op] : kComparisons)
    if (accept(token)) return combine(op, left, binary(0));
  return left;
}

Ex ExprParser::binary(size_t level) {
  if (level == std::size(kLevels)) return factor();
  Ex result = binary(level + 1);
  for (bool found = true; found && result != nullptr;) {
    found = false;
    for (const auto& [token, op] : kLevels[level]) {
      if (token.empty() || !accept(token)) continue;
      result = combine(op, result, binary(level + 1));
      found = true;
      break;
    }
  }
  return result;
}

Ex ExprParser::factor() {
  if (!accept("-")) return power();
  // The sign is read as part of the number, because the smallest int64 has no positive counterpart.
  if (at_ < text_.size() && std::isdigit(static_cast<unsigned char>(text_[at_])) != 0) {
    --at_;
    return number();
  }
  Ex operand = factor();
  return operand != nullptr ? env_->apply(Op::Neg, operand) : nullptr;
}

Ex ExprParser::power() {
  Ex base = atom();
  if (base == nullptr || !accept("**")) return base;
  return combine(Op::Pow, base, factor());
}

Ex ExprParser::number() {
  const size_t start = at_;
  if (text_[at_] == '-') ++at_;
  bool is_float = false;
  while (at_ < text_.size()) {
    const char letter = text_[at_];
    const bool is_sign = (letter == '+' || letter == '-') && text_[at_ - 1] == 'e';
    if (std::isdigit(static_cast<unsigned char>(letter)) == 0 && letter != '.' && letter != 'e' && !is_sign) break;
    is_float = is_float || letter == '.' || letter == 'e';
    ++at_;
  }
  const char *first = text_.data() + start, *last = text_.data() + at_;
  if (is_float) {
    double value = 0;
    const auto read = std::from_chars(first, last, value);
    return read.ptr == last && read.ec == std::errc() ? env_->constant(value) : nullptr;
  }
  int64_t value = 0;
  const auto read = std::from_chars(first, last, value);
  return read.ptr == last && read.ec == std::errc() ? env_->constant(value) : nullptr;
}

Ex ExprParser::call(const std::string& function) {
  if (function == "float" && accept("'")) {
    const bool is_nan = accept_word("nan");
    if ((!is_nan && !accept_word("inf")) || !accept("'") || !accept(")")) return nullptr;
    return env_->constant(is_nan ? std::numeric_limits<double>::quiet_NaN() : std::numeric_limits<double>::infinity());
  }
  auto op = find_op(function);
  if (!op) return nullptr;
  Ex result = nullptr;
  for (bool first = true; !accept(")"); first = false) {
    if (!first && op == Op::Round) op = Op::RoundDigits;
    if (!first && (is_unary(*op) || !accept(","))) return nullptr;
    Ex operand = choice();
    if (operand == nullptr) return nullptr;
    result = first ? operand : combine(*op, result, operand);
    if (result == nullptr) return nullptr;
  }
  if (result == nullptr) return nullptr;
  return is_unary(*op) ? env_->apply(*op, result) : result;
}

Ex ExprParser::name() {
  std::string found = identifier();
  if (found.empty()) return nullptr;
  if (found == "True" || found == "False") return env_->constant(found == "True");
  if ((found == "math" || found == "int") && accept(".")) found = identifier();
  if (accept("(")) return call(found);
  if (auto part = names_.find(found); part != names_.end()) return part->second;
  return env_->named_symbol(found);
}

Ex ExprParser::atom() {
  skip();
  if (at_ >= text_.size()) return nullptr;
  if (std::isdigit(static_cast<unsigned char>(text_[at_])) != 0) return number();
  if (!accept("(")) return name();
  Ex inner = choice();
  return inner != nullptr && accept(")") ? inner : nullptr;
}

}  // namespace

Ex ShapeEnv::parse(std::string_view text) { return ExprParser(this, text).parse(); }

}  // namespace stator::shapes
