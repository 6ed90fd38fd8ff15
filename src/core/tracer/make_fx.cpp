#include "core/tracer/make_fx.h"

#include <exception>

#include "core/fake/fake_tensor.h"

namespace stator {

TracedFunction make_fx(const TensorFunction& function, const std::vector<at::Tensor>& inputs,
                       tracer::FunctionTracerOptions options) {
  if (const std::string reason = tracer::install_function_tracer(); !reason.empty()) throw fake::Unsupported(reason);
  tracer::FunctionTracer tracer("function", options);
  std::vector<at::Tensor> fakes, results;
  for (const at::Tensor& input : inputs) fakes.push_back(tracer.add_input(input, "x" + std::to_string(fakes.size())));
  fake::take_poison();  // of what used fakes of an earlier trace
  tracer.add_gradients();
  std::exception_ptr raised;
  {
    const tracer::FunctionTraceScope scope(tracer);
    try {
      results = function(fakes);
    } catch (...) {
      raised = std::current_exception();
    }
  }
  tracer.settle_gradients();
  // A failure of the trace counts even if the function handled it.
  const std::string poison = fake::is_poisoned() ? fake::take_poison() : std::string();
  if (tracer.failure()) throw fake::Unsupported(tracer.failure()->message);
  if (!poison.empty()) throw fake::Unsupported(poison);
  if (raised) std::rethrow_exception(raised);
  std::vector<graph::ValueId> outputs;
  for (const at::Tensor& result : results) outputs.push_back(tracer.output(result));
  auto graph = tracer.finish(std::move(outputs));
  return {std::move(graph), tracer.attributes()};
}

}  // namespace stator
