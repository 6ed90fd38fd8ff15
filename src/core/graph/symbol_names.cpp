#include "core/graph/symbol_names.h"

#include <algorithm>
#include <cctype>

#include "core/graph/scanner.h"

namespace stator::graph {
namespace {

bool is_digit(char ch) { return std::isdigit(static_cast<unsigned char>(ch)) != 0; }

bool is_symbol(std::string_view word) {
  return word.size() > 1 && (word[0] == 'u' || word[0] == 'e') && std::all_of(word.begin() + 1, word.end(), is_digit);
}

}  // namespace

std::string SymbolNames::renamed(std::string_view expression) {
  std::string text;
  for (size_t i = 0; i < expression.size();) {
    size_t end = i;
    while (end < expression.size() && is_word(expression[end])) ++end;
    if (end == i) {
      text += expression[i++];
      continue;
    }
    const std::string word(expression.substr(i, end - i));
    i = end;
    if (!is_symbol(word)) {
      text += word;
      continue;
    }
    const auto [known, is_new] = names_.try_emplace(word);
    if (is_new) known->second = "u" + std::to_string(names_.size() - 1);
    text += known->second;
  }
  return text;
}

}  // namespace stator::graph
