#include "core/passes/functionalize.h"

#include "core/graph/verify.h"
#include "core/passes/functionalization/functionalizer.h"

namespace stator::passes {

Functionalized functionalize(const graph::Graph& graph, WriteBack write_back) {
  Functionalizer pass(graph, write_back);
  auto made = pass.run();
  graph::verify(*made);
  return pass.take(std::move(made));
}

}  // namespace stator::passes
