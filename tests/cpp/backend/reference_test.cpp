#include <ATen/core/Tensor.h>
#include <ATen/ops/equal.h>
#include <ATen/ops/mm.h>
#include <ATen/ops/ones.h>
#include <ATen/ops/rand.h>
#include <ATen/ops/zeros.h>
#include <c10/core/AutogradState.h>
#include <c10/core/GradMode.h>
#include <c10/core/InferenceMode.h>
#include <gtest/gtest.h>

#include "../graph/build.h"
#include "core/backend/backend.h"
#include "core/graph/exec_state.h"

namespace stator {
namespace {

using namespace testing;
using graph::ExecState;
using graph::Graph;

std::shared_ptr<Graph> new_graph(int num_inputs) {
  auto graph = std::make_shared<Graph>();
  graph->states.push_back({});
  for (int i = 0; i < num_inputs; ++i) graph->add_input(std::string("x").append(std::to_string(i)), {});
  return graph;
}

std::vector<at::Tensor> run(const std::shared_ptr<Graph>& graph, std::vector<at::Tensor> inputs) {
  return backend::compile_reference(graph)->run(std::move(inputs));
}

at::Tensor wrapped(double number) {
  auto tensor = at::zeros({}, at::kDouble).fill_(number);
  tensor.unsafeGetTensorImpl()->set_wrapped_number(true);
  return tensor;
}

graph::ValueId add(Graph& g, graph::Argument a, graph::Argument b, uint32_t state = 0) {
  return call(g, op("add", "Tensor"), {std::move(a), std::move(b), c(1)}, state);
}

TEST(Reference, WrappedNumbersKeepTheDtype) {
  auto g = new_graph(1);
  g->outputs = {add(*g, v(0), c(wrapped(1.5)))};
  auto out = run(g, {at::ones({2}, at::kFloat)});
  EXPECT_EQ(out[0].scalar_type(), at::kFloat);
  EXPECT_EQ(out[0][1].item<float>(), 2.5f);
}

TEST(Reference, AnInputGivenBackIsThatVeryTensor) {
  auto g = new_graph(2);
  auto sum = add(*g, v(0), v(1));
  g->outputs = {1, sum, 1, sum};
  auto a = at::ones({2}), b = at::ones({2});
  auto out = run(g, {a, b});
  EXPECT_TRUE(out[0].is_same(b));
  EXPECT_TRUE(out[2].is_same(b));
  EXPECT_TRUE(out[1].is_same(out[3]));
}

TEST(Reference, InPlaceReturnsTheSameObject) {
  auto g = new_graph(1);
  call_in_place(*g, op("add_", "Tensor"), {v(0), v(0), c(1)});
  call_in_place(*g, op("mul_", "Tensor"), {v(0), c(wrapped(3))});
  g->outputs = {0};
  auto a = at::ones({2});
  auto version = a._version();
  auto out = run(g, {a});
  EXPECT_TRUE(out[0].is_same(a));
  EXPECT_EQ(a[0].item<float>(), 6);
  EXPECT_EQ(a._version(), version + 2);
}

TEST(Reference, ListsOfTensorsGoInAndOut) {
  auto g = new_graph(2);
  auto cat = call(*g, op("cat"), {list({v(0), v(1), v(0)}), c(0)});
  auto& split = g->add_node(op("split", "Tensor"));
  split.args = {v(cat), c(2), c(0)};
  split.results.push_back({true, {}});
  for (int i = 0; i < 3; ++i) {
    auto id = g->add_result_value(1, {});
    g->nodes[1].results[0].values.push_back(id);
  }
  auto parts = g->nodes[1].results[0].values;
  g->outputs = {parts[2], parts[0]};
  auto out = run(g, {at::ones({2}), at::zeros({2})});
  EXPECT_EQ(out[0].sum().item<float>(), 2);
  auto wrong_length = at::ones({5});
  EXPECT_THROW(run(g, {wrong_length, at::zeros({2})}), c10::Error);
  EXPECT_EQ(backend::failed_node(), 1u);
}

TEST(Reference, OptionalListsKeepTheirHoles) {
  auto g = new_graph(2);
  g->outputs = {call(*g, op("index", "Tensor"), {v(0), list({c({}), v(1)})})};
  auto x = at::rand({3, 4});
  auto index = at::ones({2}, at::kLong);
  auto out = run(g, {x, index});
  EXPECT_TRUE(at::equal(out[0].select(1, 0), x.select(1, 1)));
  EXPECT_EQ(out[0].size(1), 2);
}

TEST(Reference, IntermediatesDieAtTheirLastUse) {
  auto g = new_graph(1);
  auto first = add(*g, v(0), v(0));
  auto second = add(*g, v(first), v(first));
  g->outputs = {add(*g, v(second), v(second))};
  auto x = at::ones({2});
  auto executable = backend::compile_reference(g);
  std::vector<at::Tensor> inputs{x};
  auto out = executable->run(std::move(inputs));
  EXPECT_EQ(out[0][0].item<float>(), 8);
  EXPECT_EQ(x.use_count(), 1u);
}

TEST(Reference, GradientsFlowAndDetachedRegionsDoNot) {
  auto g = new_graph(1);
  auto no_grad = g->intern_state({.grad_mode = false});
  auto doubled = add(*g, v(0), v(0), no_grad);
  g->outputs = {call(*g, op("mul", "Tensor"), {v(doubled), v(0)}), doubled};
  auto x = at::ones({2}).requires_grad_();
  auto out = run(g, {x});
  EXPECT_FALSE(out[1].requires_grad());
  out[0].sum().backward();
  EXPECT_EQ(x.grad()[0].item<float>(), 2);
  EXPECT_TRUE(c10::GradMode::is_enabled());
}

TEST(Reference, AnErrorRestoresTheThread) {
  auto g = new_graph(2);
  auto state = g->intern_state(
      {.grad_mode = false, .inference_mode = true, .autocast = {{at::kCPU, at::kBFloat16}}, .autocast_cache = false});
  g->outputs = {call(*g, op("mm"), {v(0), v(1)}, state)};
  auto before = graph::current_state();
  auto keys = c10::impl::tls_local_dispatch_key_set();
  EXPECT_THROW(run(g, {at::ones({2, 3}), at::ones({2, 3})}), c10::Error);
  EXPECT_EQ(graph::current_state(), before);
  auto after = c10::impl::tls_local_dispatch_key_set();
  EXPECT_EQ(after.included_, keys.included_);
  EXPECT_EQ(after.excluded_, keys.excluded_);
  EXPECT_FALSE(graph::in_autocast_block());
  EXPECT_THROW(run(g, {at::ones({2, 3})}), c10::Error);
  EXPECT_EQ(backend::failed_node(), backend::kNoNode);
}

TEST(Reference, AFailureTellsItsOperatorAndLine) {
  auto g = new_graph(2);
  auto caller = g->add_location({"model.py", "forward", 10, 0});
  auto line = g->add_location({"layers.py", "matmul", 3, caller});
  auto sum = add(*g, v(0), v(0));
  g->outputs = {call(*g, op("mm"), {v(sum), v(1)})};
  g->nodes[1].location = line;
  EXPECT_THROW(run(g, {at::ones({2, 3}), at::ones({2, 3})}), c10::Error);
  auto failed = backend::failed_op(*g);
  ASSERT_TRUE(failed);
  EXPECT_EQ(failed->node, 1u);
  EXPECT_EQ(c10::toString(failed->op), "aten::mm");
  ASSERT_EQ(failed->lines.size(), 2u);
  EXPECT_EQ(failed->lines[0].file, "model.py");
  EXPECT_EQ(failed->lines[0].line, 10);
  EXPECT_EQ(failed->lines[1].function, "matmul");
  EXPECT_FALSE(backend::failed_op(*new_graph(2))) << "another graph did not fail";
  EXPECT_THROW(run(g, {at::ones({2, 3})}), c10::Error);
  EXPECT_FALSE(backend::failed_op(*g)) << "no operator was running";
}

TEST(Reference, AutocastRegions) {
  auto g = new_graph(2);
  auto on = g->intern_state({.autocast = {{at::kCPU, at::kBFloat16}}});
  auto low = call(*g, op("mm"), {v(0), v(1)}, on);
  auto high = call(*g, op("mm"), {v(0), v(1)});
  g->outputs = {low, high};
  auto out = run(g, {at::rand({2, 2}), at::rand({2, 2})});
  EXPECT_EQ(out[0].scalar_type(), at::kBFloat16);
  EXPECT_EQ(out[1].scalar_type(), at::kFloat);
}

// Inside one autocast region a parameter is cast once, even if it changes; a new region casts it again.
TEST(Reference, CastsAreSharedInsideARegionOnly) {
  for (bool same_region : {true, false}) {
    auto g = new_graph(2);
    auto off = g->intern_state({.grad_mode = false});
    auto first = g->intern_state({.autocast = {{at::kCPU, at::kBFloat16}}});
    auto second = g->intern_state({.autocast = {{at::kCPU, at::kBFloat16}}, .autocast_region = same_region ? 0u : 1u});
    auto one = call(*g, op("mm"), {v(0), v(1)}, first);
    call_in_place(*g, op("mul_", "Tensor"), {v(1), c(wrapped(2))}, off);
    auto two = call(*g, op("mm"), {v(0), v(1)}, second);
    g->outputs = {one, two};
    auto out = run(g, {at::ones({1, 1}), at::ones({1, 1}).requires_grad_()});
    EXPECT_EQ(out[1].item<float>(), same_region ? 1 : 2);
  }
}

TEST(Reference, InferenceModeBothWays) {
  auto g = new_graph(1);
  auto inference = g->intern_state({.grad_mode = false, .inference_mode = true});
  auto inner = add(*g, v(0), v(0), inference);
  auto outer = add(*g, v(0), v(0));
  g->outputs = {inner, outer};
  auto x = at::ones({2}).requires_grad_();
  auto out = run(g, {x});
  EXPECT_TRUE(out[0].is_inference());
  EXPECT_FALSE(out[1].is_inference());
  EXPECT_TRUE(out[1].requires_grad());
  c10::InferenceMode ambient;
  out = run(g, {x});
  EXPECT_TRUE(out[0].is_inference());
  EXPECT_FALSE(out[1].is_inference());
  EXPECT_TRUE(out[1].requires_grad());
  EXPECT_TRUE(c10::InferenceMode::is_enabled());
}

// Without autograd kernels: views stay views, versions are counted, and later gradients are right.
TEST(Reference, ViewsAndVersionsWithoutGrad) {
  auto g = new_graph(1);
  auto view = call(*g, op("select", "int"), {v(0), c(0), c(1)});
  call_in_place(*g, op("add_", "Tensor"), {v(view), v(view), c(1)});
  auto detached = call(*g, op("detach"), {v(0)});
  g->outputs = {view, detached};
  auto x = at::ones({2, 3});
  auto version = x._version();
  auto out = run(g, {x});
  EXPECT_TRUE(out[0].is_view());
  EXPECT_TRUE(out[0]._base().is_same(x));
  EXPECT_EQ(x._version(), version + 1);
  EXPECT_EQ(out[0]._version(), version + 1);
  auto factor = at::ones({3}).requires_grad_();
  out[0].mul_(factor);
  EXPECT_TRUE(x.requires_grad());
  x.sum().backward();
  EXPECT_EQ(factor.grad()[0].item<float>(), 2);
}

TEST(Reference, ViewsOfParametersInNoGradStayForbiddenToWrite) {
  auto g = new_graph(1);
  auto no_grad = g->intern_state({.grad_mode = false});
  g->outputs = {call(*g, op("select", "int"), {v(0), c(0), c(1)}, no_grad)};
  auto x = at::ones({2, 3}).requires_grad_().mul(1);
  auto out = run(g, {x});
  EXPECT_TRUE(out[0].requires_grad());  // as in eager
  EXPECT_THROW(out[0].mul_(2), c10::Error);
}

TEST(Reference, DetachInPlaceIsNotSkipped) {
  auto g = new_graph(1);
  auto view = call(*g, op("select", "int"), {v(0), c(0), c(1)});
  call_in_place(*g, op("detach_"), {v(view)});
  g->outputs = {view};
  EXPECT_THROW(run(g, {at::ones({2, 3})}), c10::Error);
}

}  // namespace
}  // namespace stator
