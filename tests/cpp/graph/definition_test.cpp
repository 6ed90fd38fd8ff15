#include "core/graph/definition.h"

#include <ATen/TensorOperators.h>
#include <ATen/ops/arange.h>
#include <ATen/ops/equal.h>
#include <ATen/ops/ones.h>
#include <ATen/ops/zeros.h>
#include <gtest/gtest.h>
#include <torch/library.h>

#include "core/backend/backend.h"
#include "core/fake/fake_tensor.h"
#include "core/graph/aliasing.h"
#include "core/graph/text.h"
#include "core/tracer/tracer.h"

namespace stator::graph {
namespace {

TORCH_LIBRARY_FRAGMENT(stator_test, library) {
  library.def("sizes", [](const at::Tensor& tensor) { return tensor.sizes().vec(); });
  library.def("place", [](const at::Tensor& tensor) { return tensor.device(); });
}

TensorMeta meta_at(const Graph& graph, uint32_t node, ValueId value) {
  return graph.definitions.meta(graph.definition_of(node, value));
}

std::vector<int64_t> numbers(const std::vector<Dim>& dims) {
  std::vector<int64_t> found;
  for (const Dim& dim : dims) found.push_back(dim.number);
  return found;
}

class Definitions : public ::testing::Test {
 protected:
  Definitions() {
    fake::install();
    tracer::install();
  }
  tracer::Tracer tracer_{"g"};
};

TEST_F(Definitions, WritesHaveMetadataBeforeAndAfter) {
  auto x = tracer_.add_input(at::ones({2, 3}), "x"), w = tracer_.add_input(at::ones({6}).requires_grad_(), "w");
  at::Tensor y;
  {
    tracer::TraceScope scope(tracer_);
    y = x.relu();
    y.t_();
    y.resize_({6});
    y.mul_(w);
  }
  auto graph = tracer_.finish({y});
  const ValueId value = graph->outputs[0];
  graph->drop_fakes();
  ASSERT_EQ(graph->nodes.size(), 4u);
  EXPECT_EQ(numbers(meta_at(*graph, 0, value).sizes), (std::vector<int64_t>{2, 3}));
  EXPECT_EQ(numbers(meta_at(*graph, 1, value).sizes), (std::vector<int64_t>{3, 2}));
  EXPECT_EQ(numbers(meta_at(*graph, 1, value).strides), (std::vector<int64_t>{1, 3}));
  EXPECT_EQ(numbers(meta_at(*graph, 2, value).sizes), (std::vector<int64_t>{6}));
  EXPECT_FALSE(meta_at(*graph, 2, value).requires_grad);
  EXPECT_TRUE(meta_at(*graph, 3, value).requires_grad);
  const std::string text = to_text(*graph);
  EXPECT_NE(text.find("%relu: float32[3, 2]{1, 3} = aten::t_(%relu)"), std::string::npos) << text;
  EXPECT_EQ(to_text(*from_text(text)), text);
}

TEST_F(Definitions, WritesToWhatIsNotReturned) {
  auto x = tracer_.add_input(at::ones({2}), "x"), w = tracer_.add_input(at::ones({2}).requires_grad_(), "w");
  at::Tensor y;
  {
    tracer::TraceScope scope(tracer_);
    y = x.relu();
    static const auto add = c10::Dispatcher::singleton().findSchemaOrThrow("aten::_foreach_add_", "List");
    torch::jit::Stack stack{c10::List<at::Tensor>({y}), c10::List<at::Tensor>({w}), at::Scalar(1)};
    add.callBoxed(&stack);
  }
  auto graph = tracer_.finish({y});
  EXPECT_FALSE(meta_at(*graph, 0, graph->outputs[0]).requires_grad);
  EXPECT_TRUE(meta_at(*graph, 1, graph->outputs[0]).requires_grad);
  const std::string text = to_text(*graph);
  EXPECT_NE(text.find("then (%relu: float32[2] grad)"), std::string::npos) << text;
  EXPECT_EQ(to_text(*from_text(text)), text);
}

TEST(Values, HaveTypes) {
  const std::string text = R"(graph "g" (%x: float32[2, 3]) {
  state 0 grad
  %n: int = aten::sym_size.int(%x, 1)
  %sizes: list = stator_test::sizes(%x)
  %a: int64[u0]{1} = aten::arange(%n)
  %e: float32[2, 3] = aten::expand(%x, %sizes)
  %d: object = stator_test::place(%x)
  %z: float32[2] = aten::zeros([2], device=%d)
  %s: float = stator::number("mul", %n, 0.5)
  %m: float32[2, 3] = aten::mul.Tensor(%e, %s)
  return (%a, %m, %n, %z)
}
)";
  auto graph = from_text(text);
  EXPECT_EQ(to_text(*graph), text);
  EXPECT_EQ(graph->values[1].type, ValueType::Integer);
  EXPECT_EQ(graph->values[2].type, ValueType::List);
  auto x = at::ones({2, 3});
  auto made = backend::compile_reference(graph)->run({x});
  EXPECT_TRUE(at::equal(made[0], at::arange(3)));
  EXPECT_TRUE(at::equal(made[1], x * 1.5));
  EXPECT_EQ(made[2].item<int64_t>(), 3);
  EXPECT_TRUE(made[2].unsafeGetTensorImpl()->is_wrapped_number());
  EXPECT_TRUE(at::equal(made[3], at::zeros({2})));
}

TEST(Values, OfWrongTypesAreRefused) {
  auto problem = [](const std::string& body) -> std::string {
    try {
      from_text("graph \"g\" (%x) {\n state 0 grad\n" + body + "\nreturn ()\n}");
      return "";
    } catch (const TextError& error) {
      return error.what();
    }
  };
  EXPECT_NE(problem("%n = aten::sym_size.int(%x, 0)").find("a value of type tensor for a return of type"),
            std::string::npos);
  EXPECT_NE(problem("%n: float = aten::sym_size.int(%x, 0)").find("a value of type float"), std::string::npos);
  EXPECT_NE(problem("%l: list = stator_test::sizes(%x)\n%y = aten::relu(%l)").find("a value of type list where"),
            std::string::npos);
  EXPECT_NE(problem("%y: what = aten::relu(%x)").find("no type: what"), std::string::npos);
}

TEST(Aliasing, IsToldByStorageAndBySchema) {
  auto graph = from_text(R"(graph "g" (%x, %y) {
    state 0 grad
    %v = aten::t(%x)
    %s = aten::add.Tensor(%x, %y)
    %x = aten::add_.Tensor(%x, %y)
    return (%v, %s)
  })");
  using Alias = Aliasing::Alias;
  const Aliasing by_schema(*graph);
  EXPECT_EQ(by_schema.aliases_of(graph->nodes[0]), (std::vector<Alias>{{2, 0}}));
  EXPECT_TRUE(by_schema.aliases_of(graph->nodes[1]).empty());
  EXPECT_EQ(by_schema.aliases_of(graph->nodes[2]), (std::vector<Alias>{{0, 0}}));
  // Inputs that are one memory, as a capture may find them.
  auto x = at::ones({2, 2});
  graph->values[0].fake = x;
  graph->values[1].fake = x.view({4});
  graph->values[2].fake = x.t();
  graph->values[3].fake = x + x;
  const Aliasing by_storage(*graph);
  EXPECT_EQ(by_storage.aliases_of(graph->nodes[2]), (std::vector<Alias>{{0, 0}, {0, 1}}));
  EXPECT_EQ(by_storage.inputs_sharing(2), (std::vector<uint32_t>{0, 1}));
  EXPECT_TRUE(by_storage.inputs_sharing(3).empty());
  EXPECT_TRUE(by_storage.is_written(x));
  EXPECT_FALSE(by_storage.is_written(graph->values[3].fake));
}

}  // namespace
}  // namespace stator::graph
