#include "bindings/graph_listing.h"

#include <unordered_map>
#include <unordered_set>

#include "bindings/graph_bindings.h"
#include "core/graph/defaults.h"
#include "core/graph/names.h"
#include "core/passes/regions.h"
#include "core/shapes/env.h"
#include "core/shapes/traversal.h"

namespace stator::bindings {
namespace {

Ref result_object(const graph::Result& result, PyObject* value_type) {
  if (!result.is_list) return value_object(result.values[0], value_type);
  return list_of(result.values, [&](graph::ValueId id) { return value_object(id, value_type); });
}

Ref node_object(const graph::Node& node, PyObject* value_type) {
  const auto& declared = node.op.schema().arguments();
  auto needed = graph::needed_arguments(node);
  auto object_of = [&](size_t i) { return argument_object(node.args[i], *declared[i].real_type(), value_type); };
  auto args = owned(PyTuple_New(static_cast<Py_ssize_t>(needed.positional)));
  for (size_t i = 0; i < needed.positional; ++i) {
    PyTuple_SET_ITEM(args.get(), static_cast<Py_ssize_t>(i), object_of(i).release());
  }
  auto keywords = owned(PyDict_New());
  for (size_t i : needed.keywords) {
    if (PyDict_SetItemString(keywords.get(), declared[i].name().c_str(), object_of(i).get()) < 0) throw PythonError();
  }
  auto results = owned(PyTuple_New(static_cast<Py_ssize_t>(node.results.size())));
  for (size_t i = 0; i < node.results.size(); ++i) {
    PyTuple_SET_ITEM(results.get(), static_cast<Py_ssize_t>(i), result_object(node.results[i], value_type).release());
  }
  const auto& name = node.op.operator_name();
  return owned(Py_BuildValue("(ssOOOII)", name.name.c_str(), name.overload_name.c_str(), args.get(), keywords.get(),
                             results.get(), node.state, node.location));
}

Ref state_object(const graph::ExecState& state) {
  auto devices = list_of(state.autocast, [](const auto& entry) {
    auto dtype = dtype_object(entry.second);
    return owned(Py_BuildValue("(sO)", c10::DeviceTypeName(entry.first, true).c_str(), dtype.get()));
  });
  return owned(Py_BuildValue("(OOOOI)", state.grad_mode ? Py_True : Py_False, state.inference_mode ? Py_True : Py_False,
                             devices.get(), state.autocast_cache ? Py_True : Py_False, state.autocast_region));
}

}  // namespace

Ref list_nodes(const graph::Graph& graph, PyObject* value_type) {
  return list_of(graph.nodes, [&](const graph::Node& node) { return node_object(node, value_type); });
}

Ref list_states(const graph::Graph& graph) { return list_of(graph.states, state_object); }

Ref list_locations(const graph::Graph& graph) {
  return list_of(graph.locations, [](const graph::Location& at) {
    return owned(Py_BuildValue("(ssiIss)", at.file.c_str(), at.function.c_str(), at.line, at.caller,
                               at.module_path.c_str(), at.module_class.c_str()));
  });
}

Ref list_names(const graph::Graph& graph) {
  return list_of(graph::value_names(graph), [](const std::string& name) { return text_object(name); });
}

Ref list_types(const graph::Graph& graph) {
  return list_of(graph.values, [](const graph::ValueInfo& value) { return text_object(graph::type_name(value.type)); });
}

namespace {

Ref bound_object(shapes::WideInt bound) {
  if (bound <= INT64_MIN || bound >= INT64_MAX) return Ref::borrow(Py_None);
  return owned(PyLong_FromLongLong(static_cast<int64_t>(bound)));
}

}  // namespace

Ref symbol_object(shapes::Ex symbol) {
  constexpr const char* kTypes[] = {"int", "float", "bool"};
  const shapes::Range range = symbol->env->derived(symbol).range;
  auto hint = symbol->hint.int64() ? owned(PyLong_FromLongLong(*symbol->hint.int64())) : Ref::borrow(Py_None);
  auto least = bound_object(range.low), greatest = bound_object(range.high);
  return owned(Py_BuildValue("(ssOOO)", symbol->symbol->name.c_str(), kTypes[static_cast<size_t>(symbol->type)],
                             hint.get(), least.get(), greatest.get()));
}

Ref list_symbols(const graph::Graph& graph) {
  std::vector<shapes::Ex> symbols;
  std::unordered_set<shapes::Ex> seen;
  auto visit = [&](const shapes::Expr& number) {
    shapes::post_order(
        number->env->simplify(number), [&](shapes::Ex part) { return seen.contains(part); },
        [&](shapes::Ex part) {
          seen.insert(part);
          if (part->op == shapes::Op::Symbol) symbols.push_back(part);
        });
  };
  graph.definitions.for_each_symbolic(visit);
  for (const graph::ValueInfo& value : graph.values)
    if (value.number) visit(value.number);
  return list_of(symbols, symbol_object);
}

Ref list_size_checks(const graph::Graph& graph) {
  shapes::ShapeEnv* env = nullptr;
  graph.definitions.for_each_symbolic([&](const shapes::Expr& number) { env = number->env; });
  std::vector<shapes::Ex> checks;
  std::unordered_set<shapes::Ex> seen;
  if (env != nullptr)
    for (shapes::Ex check : env->checks())
      if (seen.insert(check).second) checks.push_back(check);
  return list_of(checks, [](shapes::Ex check) { return text_object(shapes::to_python(check)); });
}

Ref list_regions(const graph::Graph& graph, PyObject* value_type) {
  std::unordered_map<const graph::Graph*, Ref> wrapped;
  return list_of(passes::shared_regions(graph), [&](const passes::RegionCall& call) {
    Ref& body = wrapped[call.body.get()];
    if (!body) body = owned(wrap_graph(call.body));
    const Ref operands = list_values(call.operands, value_type);
    const Ref results = list_of(call.results, [&](const passes::RegionCall::Made& made) {
      return owned(Py_BuildValue("(OI)", value_object(made.value, value_type).get(), made.node));
    });
    return owned(Py_BuildValue("(IIOOO)", call.first, call.count, body.get(), operands.get(), results.get()));
  });
}

Ref list_values(const std::vector<graph::ValueId>& ids, PyObject* value_type) {
  return list_of(ids, [&](graph::ValueId id) { return value_object(id, value_type); });
}

}  // namespace stator::bindings
