#pragma once

#include <cctype>
#include <cstdint>
#include <string>
#include <string_view>

/// Reads the text form character by character: skips blanks and comments, and knows the position for errors.
namespace stator::graph {

/// Letters, digits and underscores.
inline bool is_word(char ch) { return std::isalnum(static_cast<unsigned char>(ch)) != 0 || ch == '_'; }

class Scanner {
 public:
  explicit Scanner(std::string_view text) : text_(text) {}

  bool at_end();
  /// The next non-blank character, not consumed; 0 at the end.
  char peek();
  bool accept(std::string_view what);
  void expect(std::string_view what);
  /// Accepts a complete word, not the beginning of a longer one.
  bool accept_word(std::string_view word);
  /// Letters, digits and underscores; may not begin with a digit.
  std::string identifier();
  /// A name of an operator's kind: identifiers joined by `::` and `.`.
  std::string operator_name();
  std::string string();
  int64_t integer();
  uint32_t index();
  /// The characters of a number literal (`-1`, `2.5e-3`, `inf`, `nan`).
  std::string number();

  /// The characters up to a comma or the end of the brackets around it, without blanks at the end.
  std::string expression();

  /// Throws TextError at the current position.
  [[noreturn]] void fail(const std::string& message) const;

 private:
  void skip_blanks();
  template <class Test>
  std::string take_while(const Test& test);

  std::string_view text_;
  size_t at_ = 0;
};

}  // namespace stator::graph
