#include "core/backend/registry.h"

#include <ATen/ops/add.h>
#include <ATen/ops/equal.h>
#include <ATen/ops/ones.h>
#include <ATen/ops/zeros.h>
#include <gtest/gtest.h>

#include "../graph/build.h"
#include "core/backend/undo_log.h"

namespace stator {
namespace {

using namespace testing;
using backend::Backend;
using backend::Choice;
using backend::Executable;
using backend::Failure;
using backend::Options;
using graph::Graph;

/// x.add_(1), then x + y.
std::shared_ptr<Graph> writing_graph() {
  auto graph = std::make_shared<Graph>();
  graph->states.push_back({});
  graph->add_input("x", at::zeros({2}));
  graph->add_input("y", at::zeros({2}));
  call_in_place(*graph, op("add_", "Scalar"), {v(0), c(1), c(1)}, 0);
  graph->outputs = {call(*graph, op("add", "Tensor"), {v(0), v(1), c(1)})};
  return graph;
}

/// Stands for a backend that compiles the graph into one kernel: it cannot say which node failed.
class OneKernel final : public Executable {
 public:
  OneKernel(std::shared_ptr<const Graph> graph, const Options& options)
      : inner_(backend::compile_reference(std::move(graph))), fails_(std::get<bool>(options.at("fails"))) {}
  std::vector<at::Tensor> run(std::vector<at::Tensor> inputs) const override {
    auto results = inner_->run(std::move(inputs));
    TORCH_CHECK(!fails_, "the kernel failed");
    return results;
  }
  Failure failure() const override { return {Failure::Wrote::CannotTell}; }

 private:
  std::unique_ptr<Executable> inner_;
  bool fails_;
};

const Backend& one_kernel() {
  static const bool registered = [] {
    backend::register_backend({"one_kernel",
                               {"one_kernel_alias"},
                               {{"fails", false, ""}, {"scale", 1.0, ""}, {"target", std::string("cpu"), ""}},
                               [](std::shared_ptr<const Graph> graph, const Options& options) {
                                 return std::make_unique<OneKernel>(std::move(graph), options);
                               }});
    return true;
  }();
  EXPECT_TRUE(registered);
  return *backend::find_backend("one_kernel");
}

TEST(Backends, TheFirstIsTheReferenceExecutor) {
  EXPECT_EQ(backend::all_backends().front()->name, "reference");
  EXPECT_EQ(backend::find_backend("eager"), backend::all_backends().front());
  EXPECT_EQ(Choice().backend().name, "reference");
  EXPECT_EQ(backend::find_backend("no such backend"), nullptr);
}

TEST(Backends, ARegisteredBackendRunsGraphs) {
  EXPECT_EQ(backend::find_backend("one_kernel_alias"), &one_kernel());
  auto x = at::ones({2}), y = at::ones({2});
  auto out = Choice(one_kernel(), {}).compile(writing_graph())->run({x, y});
  EXPECT_TRUE(at::equal(out[0], at::ones({2}).mul(3)));
  EXPECT_TRUE(at::equal(x, at::ones({2}).mul(2)));
}

TEST(Backends, NamesAreTakenOnce) {
  const Backend& known = one_kernel();
  EXPECT_THROW(backend::register_backend({"eager", {}, {}, known.compile}), std::invalid_argument);
  EXPECT_THROW(backend::register_backend({"another", {"one_kernel"}, {}, known.compile}), std::invalid_argument);
  EXPECT_THROW(backend::register_backend({"", {}, {}, known.compile}), std::invalid_argument);
  EXPECT_THROW(backend::register_backend({"without_compile", {}, {}, nullptr}), std::invalid_argument);
  EXPECT_EQ(backend::find_backend("another"), nullptr);
}

TEST(Backends, OptionsAreCheckedAndCompleted) {
  const Choice choice(one_kernel(), {{"scale", int64_t{2}}});
  EXPECT_EQ(std::get<double>(choice.options().at("scale")), 2.0);
  EXPECT_EQ(std::get<bool>(choice.options().at("fails")), false);
  EXPECT_THROW(Choice(one_kernel(), {{"unknown", true}}), std::invalid_argument);
  EXPECT_THROW(Choice(one_kernel(), {{"fails", int64_t{1}}}), std::invalid_argument);
  EXPECT_THROW(Choice(*backend::find_backend("reference"), {{"scale", 1.0}}), std::invalid_argument);
}

TEST(Backends, CacheKeysAreEqualExactlyForEqualOptions) {
  const auto key = [](Options options) { return Choice(one_kernel(), std::move(options)).cache_key(); };
  EXPECT_EQ(key({}), key({{"scale", int64_t{1}}, {"fails", false}}));
  EXPECT_NE(key({}), key({{"fails", true}}));
  EXPECT_NE(key({{"scale", 0.1}}), key({{"scale", 0.1 + 1e-17 * 2}}));
  EXPECT_NE(key({{"target", std::string("a;scale=2:")}}), key({{"target", std::string("a")}}));
  EXPECT_NE(key({}), Choice().cache_key());
}

TEST(Backends, WritesAreUndoneWhateverTheBackendSaysOfItsFailure) {
  for (bool tells : {true, false}) {
    auto graph = writing_graph();
    const backend::UndoLog undo_log(*graph);
    const Choice choice = tells ? Choice() : Choice(one_kernel(), {{"fails", true}});
    auto executable = choice.compile(graph);
    auto x = at::ones({2}), y = tells ? at::ones({3}) : at::ones({2});
    const auto saved = undo_log.save({x, y});
    EXPECT_ANY_THROW(executable->run({x, y}));
    EXPECT_TRUE(at::equal(x, at::ones({2}).mul(2)));
    const Failure failure = executable->failure();
    EXPECT_EQ(failure.wrote, tells ? Failure::Wrote::BeforeNode : Failure::Wrote::CannotTell);
    if (tells) {
      EXPECT_EQ(failure.node, 1u);
    }
    EXPECT_TRUE(undo_log.restore(saved, failure));
    EXPECT_TRUE(at::equal(x, at::ones({2})));
  }
}

TEST(Backends, ARunThatCouldNotBeginWroteNothing) {
  auto executable = Choice().compile(writing_graph());
  EXPECT_ANY_THROW(executable->run({at::ones({2})}));
  EXPECT_EQ(executable->failure().wrote, Failure::Wrote::Nothing);
}

}  // namespace
}  // namespace stator
