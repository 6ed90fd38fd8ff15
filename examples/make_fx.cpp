// Traces a libtorch module with its gradients, prints the graph and runs it. Uses no Python.

#include <torch/torch.h>

#include <iostream>

#include "core/backend/backend.h"
#include "core/graph/text.h"
#include "core/tracer/make_fx.h"

namespace {

struct Network : torch::nn::Module {
  Network()
      : hidden(register_module("hidden", torch::nn::Linear(4, 8))),
        out(register_module("out", torch::nn::Linear(8, 2))) {}
  torch::Tensor forward(const torch::Tensor& x) { return out(torch::relu(hidden(x))); }
  torch::nn::Linear hidden, out;
};

}  // namespace

int main() {
  torch::manual_seed(0);
  Network network;
  auto step = [&](const std::vector<at::Tensor>& inputs) -> std::vector<at::Tensor> {
    const auto loss = torch::mse_loss(network.forward(inputs[0]), inputs[1]);
    auto results = torch::autograd::grad({loss}, network.parameters());
    results.insert(results.begin(), loss.detach());
    return results;
  };

  const std::vector<at::Tensor> sample = {torch::randn({3, 4}), torch::randn({3, 2})};
  const auto traced = stator::make_fx(step, sample);
  std::cout << stator::graph::to_text(*traced.graph);

  // The graph takes the inputs of the function, then the tensors from outside: here the parameters.
  std::vector<at::Tensor> inputs = {torch::randn({3, 4}), torch::randn({3, 2})};
  const auto expected = step(inputs);
  inputs.insert(inputs.end(), traced.attributes.begin(), traced.attributes.end());
  const torch::NoGradGuard no_grad;
  const auto results = stator::backend::compile_reference(traced.graph)->run(inputs);
  for (size_t i = 0; i < expected.size(); ++i)
    if (!torch::allclose(results[i], expected[i])) return 1;
  std::cout << "the graph computes what the module computes: " << results.size() << " results\n";
  return 0;
}
