// Builds a small network as a graph, prints it, reads it back and runs it: all without Python.

#include <ATen/ops/equal.h>
#include <ATen/ops/linear.h>
#include <ATen/ops/rand.h>
#include <ATen/ops/relu.h>

#include <iostream>

#include "core/backend/backend.h"
#include "core/graph/text.h"
#include "core/graph/verify.h"

using namespace stator;

namespace {

graph::ValueId call(graph::Graph& graph, const char* op, std::vector<graph::Argument> args) {
  auto index = static_cast<uint32_t>(graph.nodes.size());
  auto& node = graph.add_node(c10::Dispatcher::singleton().findSchemaOrThrow(op, ""));
  node.args = std::move(args);
  auto result = graph.add_result_value(index, {});
  node.results.push_back({false, {result}});
  return result;
}

}  // namespace

int main() {
  using graph::Argument;
  graph::Graph network;
  network.name = "network";
  network.states.push_back({});
  auto x = network.add_input("x", {});
  auto weight = network.add_input("weight", {});
  auto bias = network.add_input("bias", {});
  auto hidden =
      call(network, "aten::linear", {Argument::of_value(x), Argument::of_value(weight), Argument::of_value(bias)});
  network.outputs = {call(network, "aten::relu", {Argument::of_value(hidden)})};
  graph::verify(network);

  auto text = graph::to_text(network);
  std::cout << text;

  auto executable = backend::compile_reference(graph::from_text(text));
  auto input = at::rand({2, 3});
  auto w = at::rand({4, 3}).requires_grad_();
  auto b = at::rand({4}).requires_grad_();
  auto output = executable->run({input, w, b})[0];
  output.sum().backward();
  bool same = at::equal(output, at::relu(at::linear(input, w, b)));
  std::cout << "output " << output.sizes() << (same ? " equals" : " differs from") << " eager's; gradient of the bias "
            << b.grad().sizes() << "\n";
  return same && b.grad().defined() ? 0 : 1;
}
