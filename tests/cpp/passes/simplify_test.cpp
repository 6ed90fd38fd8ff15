#include "core/passes/simplify.h"

#include <ATen/TensorOperators.h>
#include <ATen/ops/equal.h>
#include <ATen/ops/ones.h>
#include <gtest/gtest.h>

#include "core/backend/backend.h"
#include "core/fake/fake_tensor.h"
#include "core/graph/aliasing.h"
#include "core/graph/text.h"
#include "core/graph/verify.h"
#include "core/passes/functionalize.h"
#include "core/passes/replay.h"
#include "core/tracer/tracer.h"

namespace stator::passes {
namespace {

using Names = std::vector<std::string>;

class Passes : public ::testing::Test {
 protected:
  void SetUp() override {
    ASSERT_EQ(fake::install(), "");
    ASSERT_EQ(tracer::install(), "");
  }
  static std::shared_ptr<graph::Graph> parse(const std::string& body, const std::string& outputs) {
    return graph::from_text("graph \"g\" (%x: float32[2, 3]) {\n  state 0 no_grad\n" + body + "  return (" + outputs +
                            ")\n}\n");
  }
  static Names ops(const graph::Graph& graph) {
    Names names;
    for (const graph::Node& node : graph.nodes) names.push_back(node.op.operator_name().name.substr(6));
    return names;
  }
  static std::vector<at::Tensor> run(std::shared_ptr<graph::Graph> graph, const at::Tensor& input) {
    return backend::compile_reference(std::move(graph))->run({input});
  }
};

TEST_F(Passes, DeadCodeGoesWithItsWrites) {
  auto graph = parse(
      "  %a: float32[2, 3] = aten::sin(%x)\n"
      "  %b: float32[2, 3] = aten::cos(%x)\n"
      "  %v: float32[3] = aten::select.int(%b, 0, 0)\n"
      "  %v = aten::add_.Tensor(%v, %v)\n",
      "%a");
  EXPECT_EQ(eliminate_dead_code(*graph), 3);
  EXPECT_EQ(ops(*graph), (Names{"sin"}));
  graph::verify(*graph);
}

TEST_F(Passes, AWriteThroughAViewIsSeenByItsBase) {
  auto graph = parse(
      "  %b: float32[2, 3] = aten::cos(%x)\n"
      "  %v: float32[3] = aten::select.int(%b, 0, 0)\n"
      "  %v = aten::add_.Tensor(%v, %v)\n",
      "%b");
  EXPECT_EQ(eliminate_dead_code(*graph), 0);
}

TEST_F(Passes, RunningStatisticsAreWritten) {
  auto graph = graph::from_text(
      "graph \"g\" (%x: float32[2, 3], %mean: float32[3], %var: float32[3]) {\n  state 0 no_grad\n"
      "  %y: float32[2, 3], %m: float32[3], %v: float32[3] = aten::native_batch_norm(%x, None, None, %mean, %var, "
      "True, "
      "0.1, 1e-05)\n"
      "  return (%x)\n}\n");
  EXPECT_TRUE(graph::writes_argument(graph->nodes[0], 3));
  EXPECT_FALSE(graph::writes_argument(graph->nodes[0], 0));
  EXPECT_EQ(eliminate_dead_code(*graph), 0);
  graph->nodes[0].args[5] = graph::Argument::of_constant(false);
  EXPECT_EQ(eliminate_dead_code(*graph), 1);
}

TEST_F(Passes, CommonSubexpressionsRespectWrites) {
  auto graph = parse(
      "  %a: float32[2, 3] = aten::sin(%x)\n"
      "  %b: float32[2, 3] = aten::sin(%x)\n"
      "  %x = aten::neg_(%x)\n"
      "  %c: float32[2, 3] = aten::sin(%x)\n"
      "  %d: float32[2, 3] = aten::add.Tensor(%a, %b)\n"
      "  %e: float32[2, 3] = aten::add.Tensor(%c, %d)\n",
      "%e");
  EXPECT_EQ(merge_common_subexpressions(*graph), 1);
  EXPECT_EQ(ops(*graph), (Names{"sin", "neg_", "sin", "add", "add"}));
  graph::verify(*graph);
}

TEST_F(Passes, ConstantsAreFolded) {
  auto graph = parse(
      "  %c: float32[3] = aten::full([3], 2.0)\n"
      "  %d: float32[3] = aten::neg(%c)\n"
      "  %y: float32[2, 3] = aten::mul.Tensor(%x, %d)\n",
      "%y");
  EXPECT_EQ(fold_constants(*graph, 2), 0);
  EXPECT_EQ(fold_constants(*graph), 2);
  EXPECT_TRUE(at::equal(run(graph, at::ones({2, 3}))[0], at::ones({2, 3}) * -2));
}

TEST_F(Passes, DifferencesAreNamed) {
  auto a = parse("  %a: float32[2, 3] = aten::sin(%x)\n", "%a");
  auto b = parse("  %other: float32[2, 3] = aten::sin(%x)\n", "%other");
  auto c = parse("  %a: float32[2, 3] = aten::cos(%x)\n", "%a");
  EXPECT_EQ(find_difference(*a, *b), "");
  EXPECT_EQ(find_difference(*a, *c), "node 0: aten::sin and aten::cos");
}

TEST_F(Passes, RetracedGraphsHaveFakes) {
  auto graph = parse("  %t: float32[3, 2] = aten::t(%x)\n", "%t");
  auto again = retrace(*graph);
  EXPECT_EQ(again->definitions.meta(again->values[again->outputs[0]].definition).strides[1].number, 3);
  EXPECT_EQ(graph::memory_of(again->values[again->outputs[0]].fake),
            graph::memory_of(again->values[again->inputs[0]].fake));
}

TEST_F(Passes, WritesBecomeScatters) {
  auto graph = parse(
      "  %y: float32[2, 3] = aten::sin(%x)\n"
      "  %v: float32[3] = aten::select.int(%y, 0, 1)\n"
      "  %v = aten::add_.Tensor(%v, %v)\n"
      "  %x = aten::neg_(%x)\n",
      "%y");
  auto made = functionalize(*graph);
  EXPECT_EQ(ops(*made.graph), (Names{"sin", "select", "add", "select_scatter", "neg", "copy_"}));
  ASSERT_EQ(made.mutations.size(), 1);
  EXPECT_EQ(made.mutations[0].input, 0);
  EXPECT_TRUE(made.on_copies.empty());
  at::Tensor x = at::ones({2, 3}), y = at::ones({2, 3});
  EXPECT_TRUE(at::equal(run(made.graph, x)[0], run(graph, y)[0]));
  EXPECT_TRUE(at::equal(x, y));
  auto pure = functionalize(*graph, WriteBack::AsOutputs);
  EXPECT_EQ(ops(*pure.graph), (Names{"sin", "select", "add", "select_scatter", "neg"}));
  EXPECT_EQ(pure.graph->outputs.size(), 2);
}

}  // namespace
}  // namespace stator::passes
