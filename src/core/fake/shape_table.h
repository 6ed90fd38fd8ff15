#pragma once

#include <c10/util/ArrayRef.h>

#include "core/base/export.h"
#include "core/fake/rule.h"

/// The shape column of the operator table (core/ops/operators.def). Each family file includes its own part of the table
/// and registers it; the table is complete before the first operator runs on a fake and read-only afterwards.
namespace stator::fake {

struct CompositeAnswer;

/// What the shape column of a row says. At most one of the groups is set; none: `by_torch`.
struct Shape {
  constexpr Shape() = default;
  constexpr Shape(Rule own) : rule(own) {}

  Rule rule = nullptr;                     ///< of an elementwise row: of its functional overloads
  Rule in_place = nullptr, out = nullptr;  ///< elementwise rows only

  const char* refused = nullptr;  ///< why the operator can't be answered without data
  const CompositeAnswer* composite = nullptr;

  Rule symbolic = nullptr;  ///< for symbolic sizes and numbers only; torch answers for plain ones, as for `by_torch`

  Rule cuda = nullptr;  ///< for calls with a CUDA tensor; the rest of the row is for other calls
};

inline constexpr Shape by_torch;
constexpr Shape refused(const char* reason) {
  Shape shape;
  shape.refused = reason;
  return shape;
}

constexpr Shape for_symbols(Rule rule) {
  Shape shape;
  shape.symbolic = rule;
  return shape;
}

/// `rule` answers calls with a CUDA tensor, where the CUDA kernel gives other results than the kernel that the rest of
/// the row describes.
constexpr Shape on_cuda(Rule rule, Shape elsewhere) {
  elsewhere.cuda = rule;
  return elsewhere;
}

struct ShapeRow {
  const char* name;
  Shape shape;
};

/// Adds the rows of one family. Called from `register_<family>()` only; the rows must outlive the process.
void add_shapes(c10::ArrayRef<ShapeRow> rows);
/// Calls `register_<family>()` of every family in families.def. Called once, by `install`.
void register_families();

/// The shape of one overload, with `in_place` and `out` resolved to `rule`. `by_torch` where no row names the overload.
STATOR_API Shape find_shape(const c10::OperatorName& name);

/// All registered names; for tests.
STATOR_API std::vector<std::string_view> shape_names();

}  // namespace stator::fake

// A family file includes its rows where these macros make a ShapeRow of each.
#define STATOR_OPERATOR(name, traits, ...) {name, __VA_ARGS__},
#define STATOR_ELEMENTWISE(name, traits, ...) {name, __VA_ARGS__},
