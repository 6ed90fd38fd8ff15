// Builds a small network as a graph, prints it, parses it back and runs it. Then traces the same network and prints the
// operators below autograd. Uses no Python.

#include <ATen/ops/equal.h>
#include <ATen/ops/linear.h>
#include <ATen/ops/rand.h>
#include <ATen/ops/relu.h>

#include <iostream>

#include "core/backend/backend.h"
#include "core/graph/text.h"
#include "core/graph/verify.h"
#include "core/tracer/tracer.h"

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

/// Traces the network on fakes, prints the operators below autograd, and runs them. False if the result is not eager's.
bool show_trace(const at::Tensor& input, const at::Tensor& weight, const at::Tensor& bias) {
  if (!fake::install().empty() || !tracer::install().empty()) return false;
  tracer::Tracer tracer("traced");
  tracer.record_below();
  auto x = tracer.add_input(input, "x"), w = tracer.add_input(weight, "weight"), b = tracer.add_input(bias, "bias");
  at::Tensor result;
  {
    tracer::TraceScope recording(tracer);
    result = at::relu(at::linear(x, w, b));
  }
  auto graph = tracer.finish({result});
  std::cout << graph::to_text(*graph->below);
  auto output = backend::compile_reference(graph->below)->run({input, weight, bias})[0];
  return at::equal(output, at::relu(at::linear(input, weight, bias)));
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
  return same && b.grad().defined() && show_trace(input, w, b) ? 0 : 1;
}
