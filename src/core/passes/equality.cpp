#include <ATen/ops/equal.h>

#include <algorithm>
#include <sstream>

#include "core/graph/aliasing.h"
#include "core/graph/defaults.h"
#include "core/graph/symbol_names.h"
#include "core/passes/simplify.h"

namespace stator::passes {

using graph::Argument;
using graph::kNoValue;
using graph::ValueId;

namespace {

bool same_data(const at::Tensor& a, const at::Tensor& b) {
  if (!a.defined() || !b.defined()) return a.defined() == b.defined();
  if (a.is_same(b)) return true;
  return a.scalar_type() == b.scalar_type() && a.device() == b.device() && a.sizes() == b.sizes() &&
         a.strides() == b.strides() &&
         a.unsafeGetTensorImpl()->is_wrapped_number() == b.unsafeGetTensorImpl()->is_wrapped_number() &&
         (at::equal(a, b) ||
          (a.numel() == 1 && at::isFloatingType(a.scalar_type()) && a.item().toDouble() != a.item().toDouble() &&
           b.item().toDouble() != b.item().toDouble()));
}

/// Compares two graphs node by node. Two values correspond if they are the same result of corresponding nodes, or the
/// inputs at the same position.
class Comparison {
 public:
  Comparison(const graph::Graph& a, const graph::Graph& b) : a_(a), b_(b), other_(a.values.size(), kNoValue) {}

  std::string run() {
    if (a_.inputs.size() != b_.inputs.size()) return count("inputs", a_.inputs.size(), b_.inputs.size());
    for (size_t i = 0; i < a_.inputs.size(); ++i) {
      other_[a_.inputs[i]] = b_.inputs[i];
      if (auto found = values(a_.inputs[i], b_.inputs[i]); !found.empty()) return text("input ", i, ": ", found);
    }
    for (size_t n = 0; n < std::min(a_.nodes.size(), b_.nodes.size()); ++n)
      if (auto found = nodes(a_.nodes[n], b_.nodes[n]); !found.empty()) return text("node ", n, ": ", found);
    if (a_.nodes.size() != b_.nodes.size()) return count("nodes", a_.nodes.size(), b_.nodes.size());
    if (a_.outputs.size() != b_.outputs.size()) return count("outputs", a_.outputs.size(), b_.outputs.size());
    for (size_t i = 0; i < a_.outputs.size(); ++i)
      if (other_[a_.outputs[i]] != b_.outputs[i]) return text("output ", i, " is another value");
    if (static_cast<bool>(a_.below) != static_cast<bool>(b_.below)) return "only one has a list below autograd";
    if (!a_.below) return {};
    auto found = find_difference(*a_.below, *b_.below);
    return found.empty() ? found : "below autograd: " + found;
  }

 private:
  template <class... Parts>
  static std::string text(const Parts&... parts) {
    std::ostringstream out;
    (out << ... << parts);
    return out.str();
  }
  static std::string count(const char* what, size_t a, size_t b) { return text(a, " and ", b, " ", what); }

  std::string values(ValueId a, ValueId b) {
    const graph::ValueInfo &x = a_.values[a], &y = b_.values[b];
    if (x.type != y.type) return text("a ", graph::type_name(x.type), " and a ", graph::type_name(y.type));
    return definitions(x.definition, y.definition);
  }

  std::string definitions(graph::DefinitionId a, graph::DefinitionId b) {
    if (a == graph::kNoDefinition || b == graph::kNoDefinition) return {};
    const std::string x = describe(a_.definitions.meta(a), names_a_), y = describe(b_.definitions.meta(b), names_b_);
    return x == y ? std::string() : text(x, " and ", y);
  }

  static std::string describe(const graph::TensorMeta& meta, graph::SymbolNames& names) {
    std::ostringstream out;
    out << meta.dtype << " on " << meta.device << (meta.requires_grad ? " with grad" : "");
    for (const auto* dims : {&meta.sizes, &meta.strides}) {
      out << " [";
      for (const graph::Dim& dim : *dims) out << (dim.symbol ? names.renamed(dim.text()) : dim.text()) << " ";
      out << "]";
    }
    return out.str();
  }

  std::string nodes(const graph::Node& a, const graph::Node& b) {
    if (a.op != b.op) return text(a.op.operator_name(), " and ", b.op.operator_name());
    const std::string name = c10::toString(a.op.operator_name());
    if (!(a_.states.at(a.state) == b_.states.at(b.state))) return name + " in different states";
    for (size_t i = 0; i < a.args.size(); ++i)
      if (!arguments(a.args[i], b.args[i]))
        return text(name, ": argument ", a.op.schema().arguments()[i].name(), " differs");
    for (size_t r = 0; r < a.results.size(); ++r) {
      const auto &x = a.results[r].values, &y = b.results[r].values;
      if (x.size() != y.size()) return count("results", x.size(), y.size());
      for (size_t i = 0; i < x.size(); ++i) {
        if ((x[i] == kNoValue) != (y[i] == kNoValue)) return text(name, ": result ", r, " is a value in one only");
        if (x[i] == kNoValue) continue;
        if (other_[x[i]] != kNoValue && other_[x[i]] != y[i]) return text(name, ": result ", r, " is another value");
        other_[x[i]] = y[i];
        if (auto found = values(x[i], y[i]); !found.empty()) return text(name, ": ", found);
      }
    }
    return {};
  }

  bool arguments(const Argument& a, const Argument& b) {
    if (a.kind != b.kind) return false;
    switch (a.kind) {
      case Argument::Kind::Value:
        return other_[a.value] == b.value;
      case Argument::Kind::Graph:
        return find_difference(*a.graph(), *b.graph()).empty();
      case Argument::Kind::List:
        return std::equal(a.items.begin(), a.items.end(), b.items.begin(), b.items.end(),
                          [&](const Argument& x, const Argument& y) { return arguments(x, y); });
      case Argument::Kind::Constant:
        break;
    }
    if (a.constant.isTensor() && b.constant.isTensor()) return same_data(a.constant.toTensor(), b.constant.toTensor());
    if (a.constant.isPyObject() && b.constant.isPyObject())
      return a.constant.toPyObjectHolder()->getPyObject() == b.constant.toPyObjectHolder()->getPyObject();
    return graph::same_constant(a.constant, b.constant);
  }

  const graph::Graph &a_, &b_;
  std::vector<ValueId> other_;  // by value of `a`: the value of `b`
  graph::SymbolNames names_a_, names_b_;
};

}  // namespace

std::string find_difference(const graph::Graph& a, const graph::Graph& b) { return Comparison(a, b).run(); }

}  // namespace stator::passes
