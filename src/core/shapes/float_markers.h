#pragma once

#include <utility>
#include <vector>

#include "core/shapes/expr.h"

namespace stator::shapes {

/// While one is alive, code of this thread that reads a symbolic float gets a marker: a double that no program has, one
/// for each read. Torch's bindings read one where an operator takes a plain float. The tracer finds the marker among
/// the operator's arguments, and puts the expression in its place. A marker that no operator took reached other code:
/// the caller must not use what that code computed (`all_taken`).
class STATOR_API FloatMarkers {
 public:
  FloatMarkers();
  ~FloatMarkers();
  FloatMarkers(const FloatMarkers&) = delete;

  bool all_taken() const { return made_.empty(); }

  /// The innermost of this thread, null if there is none or it is suspended.
  static FloatMarkers* current();
  double mark(const Expr& expr);
  /// The expression of a marker, once; null for other numbers.
  Expr take(double number);

  /// Shape functions must not read a number that depends on data: they get no markers while one of these is alive.
  class STATOR_API Suspended {
   public:
    Suspended();
    ~Suspended();
    Suspended(const Suspended&) = delete;

   private:
    FloatMarkers* before_;
  };

 private:
  FloatMarkers* before_;
  std::vector<std::pair<double, Expr>> made_;
};

}  // namespace stator::shapes
