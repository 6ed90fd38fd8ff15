#include "core/graph/verify.h"

#include <algorithm>
#include <sstream>

#include "core/base/check.h"
#include "core/graph/control_ops.h"
#include "core/shapes/number_ops.h"

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
  return type.kind() == TypeKind::ListType && is_number_type(*type.expectRef<c10::ListType>().getElementType());
}

bool is_list(const c10::Type& type) {
  if (type.kind() == TypeKind::OptionalType) return is_list(*type.expectRef<c10::OptionalType>().getElementType());
  return type.kind() == TypeKind::ListType;
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
      if (id >= defined_.size()) return join("input ", id, " is not a value");
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
      case Argument::Kind::Value: {
        if (auto problem = use(argument.value); !problem.empty()) return problem;
        const ValueType given = graph_.values[argument.value].type;
        return value_fits(given, type)
                   ? ""
                   : join("a value of type ", type_name(given), " where ", type.str(), " is wanted");
      }
      case Argument::Kind::Constant:
        return constant_fits(argument.constant, type) ? "" : join("a constant that is not of type ", type.str());
      case Argument::Kind::Graph:
        if (type.kind() != TypeKind::AnyType) return join("a sub-graph where ", type.str(), " is wanted");
        return find_problem(*argument.graph());
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

  /// Tensors and numbers are turned into each other where an operator wants the other.
  static bool value_fits(ValueType given, const c10::Type& type) {
    const bool is_either = given == ValueType::Tensor || holds_number(given);
    if (is_tensor(type) || is_number_type(type)) return is_either;
    if (is_either) return false;
    return (given == ValueType::List) == is_list(type);
  }

  static bool result_fits(const Node& node, ValueType made, const c10::Type& type) {
    switch (type.kind()) {
      case TypeKind::IntType:
      case TypeKind::SymIntType:
        return made == ValueType::Integer;
      case TypeKind::FloatType:
      case TypeKind::SymFloatType:
        return made == ValueType::Float;
      case TypeKind::BoolType:
      case TypeKind::SymBoolType:
        return made == ValueType::Truth;
      case TypeKind::NumberType:
        return holds_number(made);
      default:
        break;
    }
    if (is_tensor(type)) return made == ValueType::Tensor || (holds_number(made) && shapes::is_number_op(node.op));
    return made == (is_list(type) ? ValueType::List : ValueType::Object);
  }

  std::string result(const Result& result, const c10::Type& type, uint32_t n) {
    if (!result.is_list && result.values.size() != 1) return "a single return with another number of values than one";
    if (result.is_list != is_tensor_list(type)) return join("a list and ", type.str(), " confused");
    for (auto id : result.values) {
      if (id == kNoValue) continue;
      if (id >= defined_.size()) return join("value ", id, " does not exist");
      const ValueType made = graph_.values[id].type;
      // An operator that gets a number as a tensor may return that very tensor.
      const bool is_same_number = holds_number(made) && is_tensor(type) && graph_.values[id].producer != n;
      if (!is_same_number && (result.is_list ? made != ValueType::Tensor : !result_fits(graph_.nodes[n], made, type)))
        return join("a value of type ", type_name(made), " for a return of type ", type.str());
      bool fresh = graph_.values[id].producer == n;
      if (fresh && defined_[id]) return join("value ", id, " is defined twice");
      if (!fresh && !defined_[id]) return join("value ", id, " is returned but belongs to another node");
      defined_[id] = true;
    }
    return {};
  }

  static std::string sub_graphs(const Node& node) {
    const bool is_control = is_control_op(node.op);
    const auto& declared = node.op.schema().arguments();
    for (size_t i = 0; i < node.args.size(); ++i) {
      const bool is_graph = node.args[i].kind == Argument::Kind::Graph;
      if (is_graph && !is_control) return "a sub-graph as an argument of an operator that runs none";
      if (!is_graph && is_control && declared[i].type()->kind() == TypeKind::AnyType)
        return join("argument ", declared[i].name(), " must be a sub-graph");
    }
    return is_control ? find_control_problem(node) : std::string();
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
    if (auto problem = sub_graphs(node); !problem.empty()) return problem;
    if (node.first_definition + node.num_definitions > graph_.definitions.size()) return "no such definitions";
    if (node.state >= graph_.states.size()) return join("no state ", node.state);
    if (node.location >= graph_.locations.size()) return join("no location ", node.location);
    return {};
  }

  const Graph& graph_;
  std::vector<bool> defined_;
};

}  // namespace

bool is_number_type(const c10::Type& type) {
  switch (type.kind()) {
    case TypeKind::OptionalType:
      return is_number_type(*type.expectRef<c10::OptionalType>().getElementType());
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
      // Tensors in lists are separate arguments, so that values and constants can be mixed.
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
