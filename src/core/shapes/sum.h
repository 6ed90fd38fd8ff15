#pragma once

#include <vector>

#include "core/shapes/env.h"

namespace stator::shapes {

/// A sum while it is built: multiples of terms, sorted by `compare_structure`, and a constant.
class Sum {
 public:
  struct Term {
    Ex expr;
    WideInt times;
  };

  explicit Sum(ShapeEnv* env) : env_(env) {}
  /// Adds `times * expr`. Linear in the number of terms of both.
  void add(Ex expr, WideInt times);
  void add(WideInt constant);

  const std::vector<Term>& terms() const { return terms_; }
  WideInt constant() const { return constant_; }
  /// False if a number did not fit 128 bits. The sum is then meaningless.
  bool fits() const { return fits_; }
  /// The greatest common divisor of the coefficients; 0 if there are none.
  WideInt content() const;
  /// Whether the first coefficient other than zero is negative.
  bool is_negative() const;
  /// Multiplies everything by -1.
  void negate();
  /// Divides the coefficients, which are multiples of `by`. Leaves the constant.
  void divide_terms(WideInt by);
  void set_constant(WideInt constant) { constant_ = constant; }
  /// The interval that follows from the terms alone.
  Range range() const;
  /// Null if a coefficient or the constant does not fit 64 bits.
  Ex build() const;

 private:
  void merge(const Ex* exprs, const int64_t* numbers, size_t count, WideInt times);
  void add_term(Ex expr, WideInt times);
  static bool is_dropped(const Term& term);

  ShapeEnv* env_;
  std::vector<Term> terms_;
  WideInt constant_ = 0;
  bool fits_ = true;
};

/// A product while it is built: powers of factors, sorted, and a coefficient.
class Product {
 public:
  struct Factor {
    Ex expr;
    int64_t power;
  };

  explicit Product(ShapeEnv* env) : env_(env) {}
  void multiply(Ex expr, int64_t power = 1);
  /// Divides by `expr ** power`; false, with nothing changed, if the product does not have it as a factor.
  bool cancel(Ex expr, int64_t power);
  /// Takes the factors that both products have, and that are known not to be zero, out of both, and multiplies `common`
  /// by them. Returns whether there were any. All must fit.
  bool cancel_common(Product& other, Product* common);

  std::vector<Factor>& factors() { return factors_; }
  WideInt coefficient() const { return coefficient_; }
  void set_coefficient(WideInt coefficient) { coefficient_ = coefficient; }
  bool fits() const { return fits_; }
  /// Without the coefficient; null if there is no factor.
  Ex term() const;
  Ex build() const;

 private:
  void add_factor(Ex expr, int64_t power);

  ShapeEnv* env_;
  std::vector<Factor> factors_;
  WideInt coefficient_ = 1;
  bool fits_ = true;
};

}  // namespace stator::shapes
