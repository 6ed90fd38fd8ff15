#include "core/graph/scanner.h"

#include <algorithm>
#include <cctype>
#include <charconv>
#include <limits>

#include "core/base/text.h"
#include "core/graph/text.h"

namespace stator::graph {

void Scanner::skip_blanks() {
  while (at_ < text_.size()) {
    if (std::isspace(static_cast<unsigned char>(text_[at_])) != 0) {
      ++at_;
    } else if (text_[at_] == '#') {
      at_ = std::min(text_.find('\n', at_), text_.size());
    } else {
      return;
    }
  }
}

template <class Test>
std::string Scanner::take_while(const Test& test) {
  auto start = at_;
  while (at_ < text_.size() && test(text_[at_])) ++at_;
  return std::string(text_.substr(start, at_ - start));
}

bool Scanner::at_end() { return peek() == '\0'; }

char Scanner::peek() {
  skip_blanks();
  return at_ < text_.size() ? text_[at_] : '\0';
}

bool Scanner::accept(std::string_view what) {
  skip_blanks();
  if (!text_.substr(at_).starts_with(what)) return false;
  at_ += what.size();
  return true;
}

void Scanner::expect(std::string_view what) {
  if (!accept(what)) fail(concat({"expected '", what, "'"}));
}

bool Scanner::accept_word(std::string_view word) {
  skip_blanks();
  if (!text_.substr(at_).starts_with(word)) return false;
  auto end = at_ + word.size();
  if (end < text_.size() && (is_word(text_[end]) || text_[end] == ':')) return false;
  at_ = end;
  return true;
}

std::string Scanner::identifier() {
  skip_blanks();
  if (at_ < text_.size() && std::isdigit(static_cast<unsigned char>(text_[at_])) != 0) fail("expected a name");
  auto word = take_while(is_word);
  if (word.empty()) fail("expected a name");
  return word;
}

std::string Scanner::operator_name() {
  auto name = identifier();
  while (at_ < text_.size() && (text_[at_] == ':' || text_[at_] == '.')) {
    bool scope = text_[at_] == ':';
    if (scope && !text_.substr(at_).starts_with("::")) fail("expected '::'");
    name += scope ? "::" : ".";
    at_ += scope ? 2 : 1;
    auto part = take_while(is_word);
    if (part.empty()) fail("expected a name");
    name += part;
  }
  return name;
}

std::string Scanner::string() {
  expect("\"");
  std::string out;
  while (at_ < text_.size() && text_[at_] != '"') {
    char ch = text_[at_++];
    if (ch == '\\') {
      if (at_ == text_.size()) break;
      ch = text_[at_++];
      if (ch == 'n') {
        ch = '\n';
      } else if (ch != '"' && ch != '\\') {
        fail("unknown escape in a string");
      }
    }
    out += ch;
  }
  if (at_ == text_.size()) fail("a string without end");
  ++at_;
  return out;
}

int64_t Scanner::integer() {
  auto text = number();
  int64_t value = 0;
  auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size()) fail(concat({"expected an integer, not '", text, "'"}));
  return value;
}

uint32_t Scanner::index() {
  auto value = integer();
  if (value < 0 || value >= std::numeric_limits<uint32_t>::max()) fail("an index out of range");
  return static_cast<uint32_t>(value);
}

std::string Scanner::number() {
  skip_blanks();
  auto text = take_while([](char ch) { return ch == '-'; });
  text += take_while([](char ch) { return is_word(ch) || ch == '.'; });
  // The sign of an exponent belongs to the number.
  while (!text.empty() && (text.back() == 'e' || text.back() == 'E') && at_ < text_.size() &&
         (text_[at_] == '-' || text_[at_] == '+')) {
    text += text_[at_++];
    text += take_while(is_word);
  }
  if (text.empty()) fail("expected a number");
  return text;
}

std::string Scanner::expression() {
  skip_blanks();
  int depth = 0;
  auto text = take_while([&](char ch) {
    if (ch == '(' || ch == '[') ++depth;
    if (depth == 0 && (ch == ',' || ch == ']' || ch == '}' || ch == '\n')) return false;
    if (ch == ')' || ch == ']') --depth;
    return true;
  });
  while (!text.empty() && text.back() == ' ') text.pop_back();
  return text;
}

void Scanner::fail(const std::string& message) const {
  auto before = text_.substr(0, at_);
  auto line = 1 + std::count(before.begin(), before.end(), '\n');
  auto last = before.rfind('\n');
  auto column = 1 + before.size() - (last == std::string_view::npos ? 0 : last + 1);
  throw TextError(concat({"line ", std::to_string(line), ", column ", std::to_string(column), ": ", message}));
}

}  // namespace stator::graph
