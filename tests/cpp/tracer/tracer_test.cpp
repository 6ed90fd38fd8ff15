#include "core/tracer/tracer.h"

#include <ATen/Context.h>
#include <ATen/ops/add.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/equal.h>
#include <ATen/ops/full.h>
#include <ATen/ops/linear.h>
#include <ATen/ops/ones.h>
#include <ATen/ops/rand.h>
#include <ATen/ops/zeros.h>
#include <c10/core/GradMode.h>
#include <gtest/gtest.h>

#include <thread>

#include "core/backend/backend.h"
#include "core/graph/exec_state.h"
#include "core/graph/text.h"
#include "core/graph/verify.h"

namespace stator::tracer {
namespace {

class TracerTest : public ::testing::Test {
 protected:
  void SetUp() override {
    ASSERT_EQ(fake::install(), "");
    ASSERT_EQ(install(), "");
    (void)fake::take_poison();
  }
  void TearDown() override {
    auto after = c10::impl::tls_local_dispatch_key_set();
    EXPECT_EQ(after.included_, keys_.included_);
    EXPECT_EQ(after.excluded_, keys_.excluded_);
  }

  std::vector<at::Tensor> replay(std::vector<at::Tensor> inputs) {
    EXPECT_EQ(graph::find_problem(tracer_.graph()), "");
    return backend::compile_reference(tracer_.share_graph())->run(std::move(inputs));
  }

  size_t num_nodes() { return tracer_.graph().nodes.size(); }
  std::string op_name(size_t n) { return c10::toString(tracer_.graph().nodes[n].op.operator_name()); }

  Tracer tracer_{"test"};
  c10::impl::LocalDispatchKeySet keys_ = c10::impl::tls_local_dispatch_key_set();
};

TEST_F(TracerTest, CutsAPartOut) {
  auto x = at::rand({2, 3}), w = at::rand({2, 3});
  auto fx = tracer_.add_input(x, "x"), fw = tracer_.add_input(w, "w");
  at::Tensor before, inner, made;
  {
    TraceScope scope(tracer_);
    before = fx.add(fx);
  }
  auto mark = tracer_.mark();
  {
    TraceScope scope(tracer_);
    inner = before.mul(fw);
    fw.add_(inner);
    made = inner.sin();
  }
  auto part = tracer_.cut(mark, {made, before, fw});
  EXPECT_EQ(num_nodes(), 1u);
  EXPECT_EQ(graph::find_problem(*part.graph), "");
  ASSERT_EQ(part.inputs.size(), 2u);
  EXPECT_TRUE(part.inputs[0].is_same(before) && part.inputs[1].is_same(fw));
  // A tensor that existed before is not an output: the caller already has it.
  ASSERT_EQ(part.made.size(), 1u);
  EXPECT_TRUE(part.made[0].is_same(made));
  EXPECT_EQ(tracer_.value_of(made), graph::kNoValue);
  EXPECT_NE(tracer_.value_of(fw), graph::kNoValue);

  auto a = at::rand({2, 3}), b = at::rand({2, 3}), kept = b.clone();
  auto results = backend::compile_reference(part.graph)->run({a, b});
  ASSERT_EQ(results.size(), 1u);
  EXPECT_TRUE(at::equal(results[0], a.mul(kept).sin()));
  EXPECT_TRUE(at::equal(b, kept.add(a.mul(kept))));
}

TEST_F(TracerTest, RecordsCompositesWholeAndReplays) {
  auto x = at::rand({2, 3}), w = at::rand({4, 3}).requires_grad_(), b = at::rand({4}).requires_grad_();
  auto fx = tracer_.add_input(x, "x"), fw = tracer_.add_input(w, "w"), fb = tracer_.add_input(b, "b");
  at::Tensor y;
  {
    TraceScope scope(tracer_);
    y = at::linear(fx, fw, fb).mul(2.5);
  }
  ASSERT_EQ(num_nodes(), 2u);
  EXPECT_EQ(op_name(0), "aten::linear");
  EXPECT_EQ(y.sizes(), (std::vector<int64_t>{2, 4}));
  EXPECT_TRUE(y.requires_grad());
  tracer_.graph().outputs = {tracer_.value_of(y)};
  auto out = replay({x, w, b})[0];
  EXPECT_TRUE(at::equal(out, at::linear(x, w, b).mul(2.5)));
  out.sum().backward();
  EXPECT_TRUE(b.grad().defined());
}

TEST_F(TracerTest, InPlaceAndOutNameTheSameValue) {
  auto x = at::ones({2});
  auto fx = tracer_.add_input(x, "x");
  {
    TraceScope scope(tracer_);
    auto& same = fx.add_(fx);
    EXPECT_TRUE(same.is_same(fx));
    auto out = at::zeros({2});
    at::add_out(out, fx, fx);
    tracer_.graph().outputs = {tracer_.value_of(out), tracer_.value_of(same)};
  }
  EXPECT_EQ(num_nodes(), 3u);
  auto out = replay({x});
  EXPECT_TRUE(out[1].is_same(x));
  EXPECT_EQ(out[0][0].item<float>(), 4);
}

TEST_F(TracerTest, WrappedNumbersStayNumbers) {
  auto x = at::ones({2}, at::kHalf);
  auto fx = tracer_.add_input(x, "x");
  auto two = at::full({}, 2.0, at::kDouble);
  two.unsafeGetTensorImpl()->set_wrapped_number(true);
  {
    TraceScope scope(tracer_);
    auto y = at::add(fx, two);
    EXPECT_EQ(y.scalar_type(), at::kHalf);
    tracer_.graph().outputs = {tracer_.value_of(y)};
  }
  EXPECT_EQ(replay({x})[0].scalar_type(), at::kHalf);
}

TEST_F(TracerTest, ListsAndOptionalLists) {
  auto x = at::rand({4, 2}), i = at::ones({3}, at::kLong);
  auto fx = tracer_.add_input(x, "x"), fi = tracer_.add_input(i, "i");
  {
    TraceScope scope(tracer_);
    auto parts = at::cat({fx, fx}, 1).split(1, 1);
    EXPECT_EQ(parts.size(), 4u);
    auto picked = fx.index({std::nullopt, fi});
    tracer_.graph().outputs = {tracer_.value_of(parts[3]), tracer_.value_of(picked)};
  }
  auto out = replay({x, i});
  EXPECT_TRUE(at::equal(out[0], x.slice(1, 1, 2)));
  EXPECT_TRUE(at::equal(out[1], x.index({std::nullopt, i})));
}

TEST_F(TracerTest, UnknownTensorsAreRefusedAndPoison) {
  auto fx = tracer_.add_input(at::ones({2}), "x");
  auto real = at::ones({2});
  {
    TraceScope scope(tracer_);
    EXPECT_THROW(at::add(fx, real), fake::Unsupported);
  }
  EXPECT_TRUE(fake::is_poisoned());
  EXPECT_NE(fake::take_poison().find("not an input"), std::string::npos);
  EXPECT_EQ(num_nodes(), 0u);
}

TEST_F(TracerTest, GeneratorsAreRefused) {
  TraceScope scope(tracer_);
  EXPECT_THROW(at::rand({2}, at::Generator(at::globalContext().defaultGenerator(at::kCPU))), fake::Unsupported);
  (void)fake::take_poison();
}

TEST_F(TracerTest, AFailingOpLeavesNoNode) {
  auto fx = tracer_.add_input(at::ones({2, 3}), "x");
  {
    TraceScope scope(tracer_);
    EXPECT_ANY_THROW(fx.mm(fx));
  }
  (void)fake::take_poison();
  EXPECT_EQ(num_nodes(), 0u);
}

TEST_F(TracerTest, StatesOfNodes) {
  auto x = at::ones({2}).requires_grad_();
  auto fx = tracer_.add_input(x, "x");
  at::Tensor held;
  {
    c10::AutoGradMode off(false);
    TraceScope scope(tracer_);
    held = fx.mul(fx);
  }
  {
    TraceScope scope(tracer_);
    auto y = held.mul(fx);
    tracer_.graph().outputs = {tracer_.value_of(y)};
  }
  EXPECT_FALSE(tracer_.graph().states[tracer_.graph().nodes[0].state].grad_mode);
  EXPECT_TRUE(tracer_.graph().states[tracer_.graph().nodes[1].state].grad_mode);
  replay({x})[0].sum().backward();
  EXPECT_EQ(x.grad()[0].item<float>(), 1);
}

TEST_F(TracerTest, RollbackKeepsOlderValuesAndLaterInputs) {
  auto x = at::ones({2});
  auto fx = tracer_.add_input(x, "x");
  at::Tensor kept, gone, fz;
  {
    TraceScope scope(tracer_);
    kept = fx.add(fx);
  }
  auto mark = tracer_.mark();
  {
    TraceScope scope(tracer_);
    gone = kept.mul(kept);
  }
  fz = tracer_.add_input(x, "z");
  {
    TraceScope scope(tracer_);
    kept.add_(gone);
    kept.mul(gone);
  }
  tracer_.rollback(mark);
  EXPECT_EQ(num_nodes(), 1u);
  EXPECT_NE(tracer_.value_of(kept), graph::kNoValue);
  EXPECT_EQ(tracer_.value_of(gone), graph::kNoValue);
  {
    TraceScope scope(tracer_);
    tracer_.graph().outputs = {tracer_.value_of(kept.add(fz))};
  }
  EXPECT_EQ(replay({x, x})[0][0].item<float>(), 3);
  auto text = graph::to_text(tracer_.graph());
  EXPECT_EQ(graph::to_text(*graph::from_text(text)), text);
}

TEST_F(TracerTest, KnowsWhichStoragesWereWrittenTo) {
  auto x = tracer_.add_input(at::ones({4}), "x"), y = tracer_.add_input(at::ones({4}), "y");
  at::Tensor view, sum;
  {
    TraceScope scope(tracer_);
    view = x.narrow(0, 1, 2);
    sum = x.add(y);
  }
  EXPECT_FALSE(tracer_.is_written(x));
  {
    TraceScope scope(tracer_);
    view.add_(1);
  }
  // The view lies in the storage of x.
  EXPECT_TRUE(tracer_.is_written(x));
  EXPECT_TRUE(tracer_.is_written(view));
  EXPECT_FALSE(tracer_.is_written(y));
  EXPECT_FALSE(tracer_.is_written(sum));
}

TEST_F(TracerTest, ConstantsAreFreshInEachRun) {
  auto fake = tracer_.add_constant(at::ones({3}));
  {
    TraceScope scope(tracer_);
    fake.add_(fake);
  }
  tracer_.graph().outputs = {tracer_.value_of(fake)};
  for (int i = 0; i < 2; ++i) {
    auto out = replay({})[0];
    EXPECT_EQ(out[0].item<float>(), 2);
    out.mul_(100);
  }
}

TEST_F(TracerTest, QuestionsAboutMetadataAreNoNodes) {
  auto fx = tracer_.add_input(at::ones({2}), "x");
  TraceScope scope(tracer_);
  static auto is_same_size = c10::Dispatcher::singleton().findSchemaOrThrow("aten::is_same_size", "");
  torch::jit::Stack stack{fx, fx};
  is_same_size.callBoxed(&stack);
  EXPECT_TRUE(stack[0].toBool());
  EXPECT_EQ(num_nodes(), 0u);
}

TEST_F(TracerTest, LocationsAndDroppedFakes) {
  auto x = at::ones({2});
  auto fx = tracer_.add_input(x, "x");
  tracer_.set_location(tracer_.graph().add_location({"a.py", "f", 3, 0}));
  at::Tensor y;
  {
    TraceScope scope(tracer_);
    y = fx.add(fx);
  }
  tracer_.graph().outputs = {tracer_.value_of(y)};
  EXPECT_EQ(tracer_.graph().nodes[0].location, 1u);
  EXPECT_NE(graph::to_text(tracer_.graph()).find("float32[2]"), std::string::npos);
  tracer_.graph().drop_fakes();
  EXPECT_NE(graph::to_text(tracer_.graph()).find("float32[2]"), std::string::npos);
  EXPECT_EQ(replay({x})[0][0].item<float>(), 2);
}

TEST_F(TracerTest, ScopesOfOtherThreadsDoNotMeet) {
  auto fx = tracer_.add_input(at::ones({2}), "x");
  TraceScope scope(tracer_);
  std::thread([&] { EXPECT_EQ(at::ones({2}).add(1)[0].item<float>(), 2); }).join();
  EXPECT_EQ(num_nodes(), 0u);
}

TEST_F(TracerTest, RandomOpsTouchNoGeneratorWhileTraced) {
  auto generator = at::globalContext().defaultGenerator(at::kCPU);
  auto before = generator.get_state();
  {
    TraceScope scope(tracer_);
    tracer_.graph().outputs = {tracer_.value_of(at::rand({4}))};
  }
  EXPECT_TRUE(at::equal(generator.get_state(), before));
  EXPECT_FALSE(at::equal(replay({})[0], replay({})[0]));
}

TEST_F(TracerTest, BothListsComeFromOneTrace) {
  tracer_.record_below();
  auto x = at::rand({2, 3}), w = at::rand({4, 3}).requires_grad_(), b = at::rand({4}).requires_grad_();
  auto fx = tracer_.add_input(x, "x"), fw = tracer_.add_input(w, "w"), fb = tracer_.add_input(b, "b");
  auto unused = tracer_.add_input(at::rand({1}), "unused");
  at::Tensor y;
  {
    TraceScope scope(tracer_);
    y = at::linear(fx, fw, fb).mul(2.5);
    EXPECT_THROW(at::linear(fw, fb, fx), std::exception);
    (void)fake::take_poison();
  }
  auto graph = tracer_.finish({y});
  EXPECT_EQ(graph->drop_unused_inputs(), (std::vector<uint32_t>{0, 1, 2}));
  ASSERT_EQ(num_nodes(), 2u);
  ASSERT_TRUE(graph->below);
  const auto& below = *graph->below;
  std::vector<std::string> names;
  for (const auto& node : below.nodes) names.push_back(c10::toString(node.op.operator_name()));
  EXPECT_EQ(names, (std::vector<std::string>{"aten::t", "aten::addmm", "aten::mul.Scalar"}));
  EXPECT_EQ(graph::find_problem(below), "");
  const auto meta = below.definitions.meta(below.values[below.outputs[0]].definition);
  EXPECT_EQ(meta.sizes, (std::vector<graph::Dim>{{2, nullptr}, {4, nullptr}}));
  EXPECT_EQ(graph::to_text(*graph::from_text(graph::to_text(below))), graph::to_text(below));
  graph->drop_fakes();
  auto out = backend::compile_reference(graph->below)->run({x, w, b})[0];
  EXPECT_FALSE(out.requires_grad());
  EXPECT_TRUE(at::equal(out, at::linear(x, w, b).mul(2.5)));
}

TEST_F(TracerTest, RollbackTakesBothListsBack) {
  tracer_.record_below();
  auto x = at::ones({2});
  auto fx = tracer_.add_input(x, "x");
  at::Tensor kept, again, data = at::ones({2});
  {
    TraceScope scope(tracer_);
    kept = fx.add(1);
    auto mark = tracer_.mark();
    auto dropped = at::linear(kept, fx);
    auto constant = tracer_.add_constant(data);
    tracer_.rollback(mark);
    again = kept.mul(3);
  }
  auto graph = tracer_.finish({again});
  EXPECT_EQ(graph->nodes.size(), 2u);
  ASSERT_EQ(graph->below->nodes.size(), 2u);
  EXPECT_EQ(graph::find_problem(*graph->below), "");
  EXPECT_TRUE(at::equal(backend::compile_reference(graph->below)->run({x})[0], at::full({2}, 6.)));
}

}  // namespace
}  // namespace stator::tracer
