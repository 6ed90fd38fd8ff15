#pragma once

#include <map>
#include <optional>
#include <string>
#include <utility>

#include "core/shapes/expression.h"

namespace stator::shapes {

/// An integer expression as a constant plus multiples of other expressions, sorted by their texts. Equal sums have
/// equal terms, whatever the order in which they were written.
class STATOR_API LinearSum {
 public:
  /// Adds `times * expr`. Sums and constant multiples inside of `expr` are taken apart.
  void add(const Expr& expr, int64_t times);

  /// False if a coefficient or the constant does not fit 64 bits. The sum is then meaningless.
  bool fits() const { return fits_; }
  Range range() const;
  Expr build() const;

  /// The factor `n` if the sum is `n * expr` with nothing added.
  std::optional<int64_t> multiple_of(const Expr& expr) const;
  /// Divides by a positive number. False, with the sum unchanged, unless it divides the constant and all coefficients.
  bool divide(int64_t by);

 private:
  struct Term {
    Expr expr;
    int64_t times;
  };

  void add_term(const Expr& term, int64_t times);

  std::map<std::string, Term> terms_;  // by the text of the expression
  int64_t constant_ = 0;
  bool fits_ = true;
};

}  // namespace stator::shapes
