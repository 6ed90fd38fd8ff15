#include "core/graph/defaults.h"

#include <algorithm>
#include <cmath>

#include "core/base/check.h"

namespace stator::graph {
namespace {

bool same_number(double a, double b) {
  if (std::isnan(a) || std::isnan(b)) return std::isnan(a) && std::isnan(b);
  return a == b && std::signbit(a) == std::signbit(b);
}

}  // namespace

bool same_constant(const c10::IValue& a, const c10::IValue& b) {
  if (a.isDouble() && b.isDouble()) return same_number(a.toDouble(), b.toDouble());
  if (a.isComplexDouble() && b.isComplexDouble()) {
    auto x = a.toComplexDouble(), y = b.toComplexDouble();
    return same_number(x.real(), y.real()) && same_number(x.imag(), y.imag());
  }
  if (a.isList() && b.isList()) {
    auto x = a.toListRef(), y = b.toListRef();
    return x.size() == y.size() && std::equal(x.begin(), x.end(), y.begin(), same_constant);
  }
  if (a.isNone()) return b.isNone();
  if (a.isBool()) return b.isBool() && a.toBool() == b.toBool();
  if (a.isInt()) return b.isInt() && a.toInt() == b.toInt();
  if (a.isString()) return b.isString() && a.toStringRef() == b.toStringRef();
  if (a.isDevice()) return b.isDevice() && a.toDevice() == b.toDevice();
  return false;
}

NeededArguments needed_arguments(const Node& node) {
  const auto& declared = node.op.schema().arguments();
  STATOR_CHECK(declared.size() == node.args.size(), "wrong number of arguments of ", node.op.schema().name());
  NeededArguments needed;
  for (size_t i = 0; i < declared.size(); ++i) {
    const auto& fallback = declared[i].default_value();
    if (node.args[i].kind == Argument::Kind::Constant && fallback && same_constant(node.args[i].constant, *fallback)) {
      continue;
    }
    if (declared[i].kwarg_only()) {
      needed.keywords.push_back(i);
    } else {
      needed.positional = i + 1;
    }
  }
  return needed;
}

}  // namespace stator::graph
