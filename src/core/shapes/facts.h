#pragma once

#include <optional>
#include <unordered_map>
#include <vector>

#include "core/shapes/expr.h"

namespace stator::shapes {

/// What is known of one linear form: a sum without an addend whose coefficients have no common divisor, the first one
/// positive; or a single term.
struct FormFact {
  Range range;
  Congruence congruence;
  bool operator==(const FormFact&) const = default;
};

/// The facts of an environment. Every change is logged, so that it can be undone.
class Facts {
 public:
  const FormFact* find_form(Ex form) const;
  std::optional<bool> find_truth(Ex truth) const;
  /// What a symbol was found to be equal to; null if nothing.
  Ex find_replacement(Ex symbol) const;
  /// The forms of several terms that have this term; null if there are none.
  const std::vector<Ex>* forms_with(Ex term) const;
  bool has_sums() const { return !by_term_.empty(); }

  void set_form(Ex form, const FormFact& fact);
  void set_truth(Ex truth, bool value);
  void set_replacement(Ex symbol, Ex by);

  const std::unordered_map<Ex, FormFact>& forms() const { return forms_; }
  const std::unordered_map<Ex, bool>& truths() const { return truths_; }
  const std::unordered_map<Ex, Ex>& replacements() const { return replacements_; }

  size_t mark() const { return log_.size(); }
  void rollback(size_t mark);

 private:
  struct Change {
    enum class Kind : uint8_t { Form, Truth, Replacement } kind;
    Ex key;
    std::optional<FormFact> before;  // of a form: none if it is new
  };

  std::unordered_map<Ex, FormFact> forms_;
  std::unordered_map<Ex, bool> truths_;
  std::unordered_map<Ex, Ex> replacements_;
  std::unordered_map<Ex, std::vector<Ex>> by_term_;
  std::vector<Change> log_;
};

/// Both facts hold. None if there is no such number.
std::optional<FormFact> intersection(const FormFact& a, const FormFact& b);
std::optional<Congruence> intersection(const Congruence& a, const Congruence& b);
/// The range without the ends that the congruence excludes.
Range narrowed(Range range, const Congruence& congruence);

}  // namespace stator::shapes
