#include "core/graph/verify.h"

#include <algorithm>
#include <sstream>

#include "core/base/check.h"

namespace stator::graph {
namespace {

using c10::TypeKind;

bool is_tensor(const c10::Type& type) {
  if (type.kind() == TypeKind::OptionalType) return is_tensor(*type.expectRef<c10::OptionalType>().getElementType());
  return type.kind() == TypeKind::TensorType;
}

bool is_tensor_list(const c10::Type& type) {
  if (type.kind() == TypeKind::OptionalType) {
    return is_tensor_list(*type.expectRef<c10::OptionalType>().getElementType());
  }
  return type.kind() == TypeKind::ListType && is_tensor(*type.expectRef<c10::ListType>().getElementType());
}

bool is_number_list(const c10::Type& type) {
  if (type.kind() == TypeKind::OptionalType) {
    return is_number_list(*type.expectRef<c10::OptionalType>().getElementType());
  }
  return type.kind() == TypeKind::ListType && is_number(*type.expectRef<c10::ListType>().getElementType());
}

template <class... Parts>
std::string join(const Parts&... parts) {
  std::ostringstream text;
  (text << ... << parts);
  return text.str();
}

class Verifier {
 public:
  explicit Verifier(const Graph& graph) : graph_(graph), defined_(graph.values.size()) {}

  std::string run() {
    for (auto id : graph_.inputs) {
      if (id >= defined_.size()) return join("input ", id, " is no value");
      if (defined_[id]) return join("value ", id, " is an input twice");
      if (graph_.values[id].producer != UINT32_MAX) return join("input ", id, " has a producer");
      defined_[id] = true;
    }
    if (auto problem = locations(); !problem.empty()) return problem;
    for (uint32_t n = 0; n < graph_.nodes.size(); ++n) {
      if (auto problem = node(n); !problem.empty()) {
        return join("node ", n, " (", graph_.nodes[n].op.operator_name(), "): ", problem);
      }
    }
    for (auto id : graph_.outputs) {
      if (auto problem = use(id); !problem.empty()) return "output: " + problem;
    }
    return {};
  }

 private:
  std::string locations() const {
    if (graph_.locations.empty()) return "no location 0";
    for (size_t i = 0; i < graph_.locations.size(); ++i) {
      auto caller = graph_.locations[i].caller;
      if (caller != 0 && caller >= i) return join("location ", i, " is called from a later one");
    }
    return {};
  }

  std::string use(ValueId id) const {
    if (id >= defined_.size()) return join("value ", id, " does not exist");
    if (!defined_[id]) return join("value ", id, " is used before it is defined");
    return {};
  }

  std::string argument(const Argument& argument, const c10::Type& type) const {
    switch (argument.kind) {
      case Argument::Kind::Value:
        if (!is_tensor(type) && !is_number(type)) return join("a tensor where ", type.str(), " is wanted");
        return use(argument.value);
      case Argument::Kind::Constant:
        return constant_fits(argument.constant, type) ? "" : join("a constant that is no ", type.str());
      case Argument::Kind::List:
        break;
    }
    if (!is_tensor_list(type) && !is_number_list(type)) {
      return join("a list of tensors where ", type.str(), " is wanted");
    }
    const auto* list = &type;
    if (type.kind() == TypeKind::OptionalType) list = type.expectRef<c10::OptionalType>().getElementType().get();
    const auto& element = *list->expectRef<c10::ListType>().getElementType();
    for (const auto& item : argument.items) {
      if (item.kind == Argument::Kind::List) return "a list inside a list";
      if (auto problem = this->argument(item, element); !problem.empty()) return problem;
    }
    return {};
  }

  std::string result(const Result& result, const c10::Type& type, uint32_t n) {
    if (!result.is_list && result.values.size() != 1) return "a single return with another number of values than one";
    if (result.is_list != is_tensor_list(type)) return join("a list and ", type.str(), " confused");
    for (auto id : result.values) {
      if (id == kNoValue) continue;
      if (id >= defined_.size()) return join("value ", id, " does not exist");
      if (!result.is_list && !is_tensor(type)) return join("a value for a return of type ", type.str());
      bool fresh = graph_.values[id].producer == n;
      if (fresh && defined_[id]) return join("value ", id, " is defined twice");
      if (!fresh && !defined_[id]) return join("value ", id, " is returned but belongs to another node");
      defined_[id] = true;
    }
    return {};
  }

  std::string node(uint32_t n) {
    const auto& node = graph_.nodes[n];
    const auto& schema = node.op.schema();
    if (node.args.size() != schema.arguments().size()) {
      return join(node.args.size(), " arguments, not ", schema.arguments().size());
    }
    if (node.results.size() != schema.returns().size()) {
      return join(node.results.size(), " results, not ", schema.returns().size());
    }
    for (size_t i = 0; i < node.args.size(); ++i) {
      auto problem = argument(node.args[i], *schema.arguments()[i].type());
      if (!problem.empty()) return join("argument ", schema.arguments()[i].name(), ": ", problem);
    }
    for (size_t i = 0; i < node.results.size(); ++i) {
      auto problem = result(node.results[i], *schema.returns()[i].type(), n);
      if (!problem.empty()) return join("result ", i, ": ", problem);
    }
    if (node.state >= graph_.states.size()) return join("no state ", node.state);
    if (node.location >= graph_.locations.size()) return join("no location ", node.location);
    return {};
  }

  const Graph& graph_;
  std::vector<bool> defined_;
};

}  // namespace

bool is_number(const c10::Type& type) {
  switch (type.kind()) {
    case TypeKind::OptionalType:
      return is_number(*type.expectRef<c10::OptionalType>().getElementType());
    case TypeKind::IntType:
    case TypeKind::SymIntType:
    case TypeKind::FloatType:
    case TypeKind::SymFloatType:
    case TypeKind::BoolType:
    case TypeKind::SymBoolType:
    case TypeKind::NumberType:
      return true;
    default:
      return false;
  }
}

bool constant_fits(const c10::IValue& value, const c10::Type& type) {
  switch (type.kind()) {
    case TypeKind::OptionalType:
      return value.isNone() || constant_fits(value, *type.expectRef<c10::OptionalType>().getElementType());
    case TypeKind::TensorType:
      return value.isTensor();
    case TypeKind::IntType:
    case TypeKind::SymIntType:
      return value.isInt();
    case TypeKind::FloatType:
    case TypeKind::SymFloatType:
      return value.isDouble();
    case TypeKind::BoolType:
    case TypeKind::SymBoolType:
      return value.isBool();
    case TypeKind::NumberType:
      return value.isScalar();
    case TypeKind::StringType:
      return value.isString();
    case TypeKind::DeviceObjType:
      return value.isDevice();
    case TypeKind::AnyType:
      return value.isPyObject();
    case TypeKind::ListType: {
      // Tensors in lists are arguments of their own, so that values and constants can mix.
      const auto& element = *type.expectRef<c10::ListType>().getElementType();
      if (is_tensor(element) || !value.isList()) return false;
      auto items = value.toListRef();
      return std::all_of(items.begin(), items.end(), [&](const auto& item) { return constant_fits(item, element); });
    }
    default:
      return false;
  }
}

std::string find_problem(const Graph& graph) { return Verifier(graph).run(); }

void verify(const Graph& graph) {
  auto problem = find_problem(graph);
  STATOR_CHECK(problem.empty(), "malformed graph ", graph.name, ": ", problem);
}

}  // namespace stator::graph
