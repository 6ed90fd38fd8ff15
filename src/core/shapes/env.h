#pragma once

#include <atomic>
#include <deque>
#include <functional>
#include <optional>
#include <span>
#include <stdexcept>
#include <string>
#include <unordered_map>
#include <vector>

#include "core/base/export.h"
#include "core/shapes/expr.h"
#include "core/shapes/facts.h"
#include "core/shapes/storage.h"

namespace stator::shapes {

class Sum;

/// Where in the program a guard or an assert comes from. The caller chooses the meaning of `tag`.
struct Location {
  uint64_t tag = 0;
  std::string text;
  bool operator==(const Location&) const = default;
};

struct EnvOptions {
  /// Sizes with equal hints share a symbol.
  bool duck_shaping = true;
  /// Sizes 0 and 1 are constants, and symbols of sizes are at least 2.
  bool zero_one = true;
};

/// How to make a backed symbol.
struct BackedSpec {
  int64_t hint = 0;
  std::string source;  // for messages: "x.size(0)"
  uint64_t tag = 0;    // the caller's number of the source
  bool is_size = true;
  bool shared = true;  // duck shaping may give it the symbol of another source
  Range range;         // what the user stated; intersected with the range of the policy
};

inline constexpr uint32_t kNoInput = UINT32_MAX;

struct Backed {
  Ex expr = nullptr;          // a symbol; a constant under the 0/1 policy
  uint32_t input = kNoInput;  // the place of the source's value in the inputs of compiled guards; none for a constant
};

struct SymbolInfo {
  std::string name;
  Ex expr = nullptr;
  Type type = Type::Int;
  bool is_backed = false;
  bool is_size = false;    // a size of a tensor: not negative; see `guard_size_oblivious`
  Range natural;           // what the source guarantees
  Range range;             // what was stated when the symbol was made, a part of `natural`
  bool is_shared = false;  // duck shaping may give it to other sources
};

/// A source of a backed symbol. Sources that share a symbol must have equal values.
struct InputInfo {
  Ex symbol = nullptr;
  uint64_t tag = 0;
  std::string source;
};

/// A truth over backed symbols that a call must satisfy, or one over unbacked symbols that a run must assert.
struct Guard {
  Ex truth = nullptr;
  Location where;
  bool is_value = false;  // the program or an operator needed the value itself: the guard is an equality
};

/// A question that needs a guard was asked after `ShapeEnv::freeze`.
class STATOR_API FrozenError : public std::logic_error {
 public:
  using std::logic_error::logic_error;
};

/// The symbols, expressions and facts of one capture. One thread at a time may use it; only the count of its owners is
/// atomic. Functions that make expressions give null if Python would raise for all values, if the type of the result
/// depends on the values, or if a coefficient does not fit 64 bits.
class STATOR_API ShapeEnv {
 public:
  static EnvPtr make(EnvOptions options = {});
  ShapeEnv(const ShapeEnv&) = delete;

  // ---- symbols
  Backed add_backed(const BackedSpec& spec);
  /// A float with a hint, as an input of compiled guards: the bits of the double.
  Backed add_backed_float(double hint, std::string source, uint64_t tag);
  /// Named u0, u1, ...; floats f0, f1, ....
  Ex add_unbacked(Type type, Range range = {INT64_MIN, INT64_MAX}, bool is_size = false);
  /// The symbol of this name, which is made if it is missing: unbacked and without a range. For parsers.
  Ex named_symbol(const std::string& name);
  const std::vector<const SymbolInfo*>& symbols() const { return symbols_; }
  const std::vector<InputInfo>& inputs() const { return inputs_; }

  // ---- expressions
  Ex constant(const Value& value);
  Ex constant(int64_t value) { return constant(Value::of_int(value)); }
  Ex constant(double value) { return constant(Value::of_float(value)); }
  Ex constant(bool value) { return constant(Value::of_bool(value)); }
  /// Python's operator; unary ones take `a` alone, Op::Ite three operands. Every operand is computed.
  Ex apply(Op op, Ex a, Ex b = nullptr, Ex c = nullptr);
  /// `a / b`, where `b` is known to divide `a`.
  Ex quotient(Ex a, Ex b);
  /// With the symbols on the left replaced. Null as for `apply`.
  Ex substitute(Ex expr, const std::unordered_map<Ex, Ex>& by);
  /// With the equalities that are known by now, and the simplifications that other facts allow.
  Ex simplify(Ex expr);
  /// Parses what `to_python` writes; symbols that do not exist yet are made. Null if it is not an expression.
  Ex parse(std::string_view text);
  /// The values for the present facts.
  const Derived& derived(Ex expr);

  // ---- questions
  /// The answer, if it follows from facts. Never adds a guard.
  std::optional<bool> known(Ex truth);
  /// The answer from facts, or else from the hints; the latter adds a guard. None if there is an unbacked symbol.
  std::optional<bool> decide(Ex truth);
  /// The value for the hints; a guard asserts it. None if there is an unbacked symbol.
  Value specialize(Ex expr);
  /// Adds a truth that the run asserts (`torch._check`). False if it is known to be false. Over backed symbols alone it
  /// is a guard instead, and the result is that of `decide`.
  bool assume(Ex truth);
  /// Adds a truth that an operator of the program checks itself in the run: no assert is needed. A truth that
  /// contradicts the facts is ignored.
  void learn(Ex truth);
  /// Notes a truth over unbacked symbols that an operator of the program checks itself in the run. It does not become a
  /// fact.
  void note_check(Ex truth);
  /// In the order of the calls; a truth may stand there repeatedly.
  const std::vector<Ex>& checks() const { return checks_; }
  /// As the functions of these names in torch.fx.experimental.symbolic_shapes.
  bool guard_or(Ex truth, bool otherwise) { return decide(truth).value_or(otherwise); }
  bool statically_known_true(Ex truth) { return known(truth).value_or(false); }
  /// The answer that holds for sizes of at least 2, if the facts alone give none.
  std::optional<bool> guard_size_oblivious(Ex truth);

  // ---- guards
  /// Called when a guard or an assert is added, which is `asked()` then.
  void set_locator(std::function<Location()> locator) { locator_ = std::move(locator); }
  Ex asked() const { return asked_; }
  /// In the order of the questions.
  const std::vector<Guard>& guards() const { return guards_; }
  const std::vector<Guard>& asserts() const { return asserts_; }
  /// The guards that a call must satisfy, without those that follow from the others; ranges of symbols included.
  std::vector<Guard> final_guards();
  /// From now on, a question that needs a new guard throws FrozenError.
  void freeze() { is_frozen_ = true; }
  bool is_frozen() const { return is_frozen_; }

  // ---- speculation
  struct Mark {
    size_t symbols, inputs, guards, asserts, checks, facts;
    std::unordered_map<char, uint32_t> next_numbers;
  };
  Mark mark() const;
  /// Removes the symbols, facts and guards that were added since. Expressions made since must not be used again.
  void rollback(const Mark& mark);
  /// The same for facts alone: guards and symbols stay. What a forgotten fact answered is asked again.
  size_t facts_mark() const { return facts_.mark(); }
  void forget_facts(size_t mark);
  /// Symbols, facts, guards and asserts as text, sorted: equal for equal environments.
  std::string describe() const;
  bool operator==(const ShapeEnv& other) const { return describe() == other.describe(); }

  size_t num_expressions() const { return storage_.size(); }

 private:
  friend class EnvPtr;
  friend class Sum;
  friend class Product;

  explicit ShapeEnv(EnvOptions options) : options_(options) {}

  // storage: env.cpp, derive.cpp
  Ex intern(Expression& key);
  Ex make_node(Op op, Type type, std::span<const Ex> operands);
  Ex add_symbol(SymbolInfo info, const Value& hint);
  std::string next_name(char letter);
  Derived derive(Ex expr);
  void add_form_fact(Ex expr, Derived* made);
  bool operation_may_fail(Ex expr);
  /// The values for the present facts, or for fewer if the expression is large: cheap if facts are added often.
  const Derived& recent(Ex expr) {
    constexpr uint32_t kSmall = 32;
    if (is_current(expr)) return expr->derived;
    return expr->derived.generation == generation_ && expr->tree_size > kSmall ? expr->derived : derived(expr);
  }
  bool is_current(Ex expr) const { return expr->derived.generation == generation_ && expr->derived.epoch == epoch_; }

  // rules: build.cpp, divide.cpp, compare.cpp, logic.cpp
  Ex as_int(Ex expr);
  Ex settled(Ex expr);
  Ex sorted_node(Op op, Type type, Ex a, Ex b);
  Ex int_result(Op op, Ex a, Ex b);
  Ex scaled(Ex expr, WideInt times);
  Ex add(Ex a, Ex b, WideInt times);
  Ex multiply(Ex a, Ex b);
  Ex power(Ex base, Ex exponent);
  Ex extremum(Op op, Ex a, Ex b);
  Ex bits(Op op, Ex a, Ex b);
  Ex unary(Op op, Ex a);
  Ex choice(Ex condition, Ex a, Ex b);
  Ex floor_quotient(Ex a, Ex b);
  Ex quotient_by(Ex a, int64_t by);
  Ex remainder(Ex a, Ex b);
  Ex remainder_by(Ex a, int64_t by);
  Ex exact_quotient(Ex a, Ex b);
  Ex comparison(Op op, Ex a, Ex b);
  Ex compare_ints(Op op, Ex a, Ex b);
  Ex compare_to_zero(Op op, Sum difference);
  Ex compare_form(Op op, Ex form, WideInt bound);
  Ex compare_to_float(Op op, Ex a, double b);
  Ex logic(Op op, Ex a, Ex b);
  Ex negation(Ex truth);
  bool expand(Ex expr, WideInt times, int* budget, Sum* sum);
  bool expand_product(Ex product, WideInt times, int* budget, Sum* sum);
  Ex rebuild(Ex expr, std::span<const Ex> operands);

  // questions: known.cpp, learn.cpp
  std::optional<bool> known_by_ranges(Ex truth);
  std::optional<bool> known_by_forms(Ex truth);
  template <class F>
  std::optional<bool> known_logic(Ex truth, const F& known);
  Range range_by_forms(Ex form);
  void add_fact(Ex truth, bool value);
  void add_comparison(Op op, Ex form, WideInt bound);
  void add_form(Ex form, const FormFact& fact);
  void add_remainder(Ex remainder, WideInt value);
  bool add_replacement(Ex form, WideInt value);
  void replace_symbol(Ex symbol, Ex by);
  void changed() { ++epoch_; }
  Location locate(Ex truth) {
    asked_ = truth;
    return locator_ ? locator_() : Location{};
  }

  const EnvOptions options_;
  std::atomic<uint32_t> owners_ = 0;
  Storage storage_;
  std::deque<SymbolInfo> all_symbols_;  // those that a rollback removed too: expressions refer to them
  std::vector<const SymbolInfo*> symbols_;
  std::vector<InputInfo> inputs_;
  std::unordered_map<std::string, Ex> by_name_;
  std::unordered_map<char, uint32_t> next_numbers_;  // by the first letter of the name
  Facts facts_;
  std::vector<Guard> guards_;
  std::vector<Guard> asserts_;
  std::vector<Ex> checks_;
  std::function<Location()> locator_;
  uint32_t epoch_ = 1;       // counts changes of facts
  uint32_t generation_ = 1;  // counts removals of facts: what was derived before may be wrong
  Ex asked_ = nullptr;
  bool is_frozen_ = false;
  bool uses_policy_ = true;    // false while `final_guards` looks for what the ranges of symbols imply
  bool is_oblivious_ = false;  // while a question is answered for sizes of at least 2
};

}  // namespace stator::shapes
