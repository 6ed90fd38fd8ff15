#include "core/backend/undo_log.h"

#include <ATen/CPUGeneratorImpl.h>
#include <ATen/TensorOperators.h>
#include <ATen/core/grad_mode.h>
#include <ATen/ops/arange.h>
#include <ATen/ops/equal.h>
#include <ATen/ops/gather.h>
#include <ATen/ops/ones.h>
#include <ATen/ops/rand.h>
#include <ATen/ops/tensor.h>
#include <ATen/ops/zeros.h>

#include "../tracer/traced.h"
#include "core/backend/backend.h"

namespace stator::backend {
namespace {

using testing::Names;

/// A tensor that is too large for its bytes to be saved in each run.
at::Tensor large() { return at::zeros({64, 1024}); }

Failure raised_in(uint32_t node) { return {Failure::Wrote::BeforeNode, node}; }

class UndoLogTest : public testing::TracedTest {
 protected:
  /// Runs the graph, which must raise, and undoes what it did.
  bool run_and_undo(const std::vector<at::Tensor>& inputs) {
    const UndoLog log(graph());
    const UndoLog::Saved saved = log.save(inputs);
    auto executable = compile_reference(tracer_.share_graph());
    EXPECT_ANY_THROW(executable->run(inputs));
    return log.restore(saved, executable->failure());
  }
};

TEST_F(UndoLogTest, AGraphWithoutEffectsSavesNothing) {
  auto x = at::ones({3});
  auto fx = input(x);
  trace([&] { return fx.sin() + 1; });
  const UndoLog log(graph());
  const auto saved = log.save({x});
  EXPECT_TRUE(saved.storages.empty());
  EXPECT_FALSE(saved.random_state.defined());
  for (uint32_t node = 0; node < count(); ++node) EXPECT_TRUE(log.restore(saved, raised_in(node)));
  EXPECT_EQ(log.hazard().node, count());
}

TEST_F(UndoLogTest, SmallWritesAreUndone) {
  auto x = at::ones({3}), index = at::tensor({9});
  auto fx = input(x), fi = input(index);
  trace([&] {
    fx.add_(1);
    fx.mul_(2);
    return at::gather(fx, 0, fi);
  });
  EXPECT_TRUE(run_and_undo({x, index}));
  EXPECT_TRUE(at::equal(x, at::ones({3})));
}

TEST_F(UndoLogTest, AWriteThroughAViewRestoresTheWholeStorage) {
  auto base = at::arange(6.0), x = base.slice(0, 2, 4), index = at::tensor({9});
  auto fx = input(x), fi = input(index);
  trace([&] {
    fx.as_strided({6}, {1}, 0).zero_();
    return at::gather(fx, 0, fi);
  });
  EXPECT_TRUE(run_and_undo({x, index}));
  EXPECT_TRUE(at::equal(base, at::arange(6.0)));
}

TEST_F(UndoLogTest, RandomDrawsAreUndone) {
  auto x = at::ones({3}), index = at::tensor({9});
  auto fx = input(x), fi = input(index);
  trace([&] { return at::gather(fx.bernoulli(0.5) + fx, 0, fi); });
  auto before = at::detail::getDefaultCPUGenerator().get_state();
  EXPECT_TRUE(run_and_undo({x, index}));
  EXPECT_TRUE(at::equal(at::detail::getDefaultCPUGenerator().get_state(), before));
}

TEST_F(UndoLogTest, AWriteToALargeTensorIsUnrecoverable) {
  auto x = large(), index = at::zeros({1, 1}, at::kLong);
  auto fx = input(x), fi = input(index);
  trace([&] {
    fx.add_(1);
    return at::gather(fx, 0, fi);
  });
  ASSERT_EQ(ops(), (Names{"add_", "gather"}));
  const UndoLog log(graph());
  EXPECT_EQ(log.hazard().node, 1u);
  EXPECT_EQ(log.hazard().effect, 0u);
  EXPECT_TRUE(log.save({x, index}).storages.empty());
  EXPECT_FALSE(log.restore(log.save({x, index}), raised_in(1)));
  EXPECT_TRUE(log.restore(log.save({x, index}), raised_in(0))) << "the write itself raised and did nothing";
}

TEST_F(UndoLogTest, AWriteThatAutogradFollowsIsUnrecoverable) {
  at::NoGradGuard no_grad;
  auto x = at::ones({3}).requires_grad_(), index = at::tensor({0});
  auto fx = input(x), fi = input(index);
  trace([&] {
    fx.add_(1);
    return at::gather(fx, 0, fi);
  });
  EXPECT_EQ(UndoLog(graph()).hazard().node, 1u);
}

TEST_F(UndoLogTest, WritesToItsOwnTensorsAreNoEffects) {
  auto x = at::ones({3}), index = at::tensor({9});
  auto fx = input(x), fi = input(index);
  trace([&] {
    auto y = fx + 1;
    y.add_(1);
    return at::gather(y, 0, fi);
  });
  EXPECT_EQ(UndoLog(graph()).hazard().node, count());
  EXPECT_TRUE(run_and_undo({x, index}));
}

TEST_F(UndoLogTest, OperatorsThatNeverRaiseAreNoHazard) {
  auto fx = input(large());
  trace([&] {
    fx.add_(1);
    return (fx * 2).sum();
  });
  EXPECT_EQ(UndoLog(graph()).hazard().node, count());
}

TEST_F(UndoLogTest, DivisionIsAHazardForIntegersOnly) {
  auto fx = input(large()), fy = input(at::ones({3})), fi = input(at::ones({3}, at::kLong));
  trace([&] {
    fx.add_(1);
    return fy.remainder(fy);
  });
  EXPECT_EQ(UndoLog(graph()).hazard().node, count());
  trace([&] { return fi.remainder(fi); });
  EXPECT_EQ(UndoLog(graph()).hazard().node, count() - 1);
}

TEST_F(UndoLogTest, AFallibleWriteCanFailInside) {
  auto x = large(), index = at::zeros({1, 1}, at::kLong);
  auto fx = input(x), fi = input(index);
  trace([&] { fx.scatter_(0, fi, 1.0); });
  const UndoLog log(graph());
  EXPECT_EQ(log.hazard().node, 0u);
  EXPECT_EQ(log.hazard().effect, 0u);
  EXPECT_FALSE(log.restore(log.save({x, index}), raised_in(0)));
}

TEST_F(UndoLogTest, ASmallFallibleWriteIsSavedThoughNothingFollows) {
  auto x = at::zeros({2, 2}), index = at::tensor({0, 9}).view({1, 2});
  auto fx = input(x), fi = input(index);
  trace([&] { fx.scatter_(1, fi, 1.0); });
  EXPECT_EQ(UndoLog(graph()).hazard().node, count());
  EXPECT_TRUE(run_and_undo({x, index}));
  EXPECT_TRUE(at::equal(x, at::zeros({2, 2})));
}

TEST_F(UndoLogTest, ABackendMaySayThatItWroteNothing) {
  auto x = large(), index = at::zeros({1, 1}, at::kLong);
  auto fx = input(x), fi = input(index);
  trace([&] {
    fx.add_(1);
    return at::gather(fx, 0, fi);
  });
  const UndoLog log(graph());
  const auto saved = log.save({x, index});
  EXPECT_TRUE(log.restore(saved, {Failure::Wrote::Nothing}));
  EXPECT_FALSE(log.restore(saved, {Failure::Wrote::CannotTell})) << "the large tensor may be written";
}

TEST_F(UndoLogTest, SmallWritesAreUndoneThoughTheBackendCannotTell) {
  auto x = at::ones({3}), index = at::tensor({0});
  auto fx = input(x), fi = input(index);
  trace([&] {
    fx.add_(1);
    return at::gather(fx, 0, fi);
  });
  const UndoLog log(graph());
  const auto saved = log.save({x, index});
  x.zero_();
  EXPECT_TRUE(log.restore(saved, {Failure::Wrote::CannotTell}));
  EXPECT_TRUE(at::equal(x, at::ones({3})));
}

TEST_F(UndoLogTest, InputsThatAreLargerThanAtCaptureAreNotSaved) {
  auto x = at::ones({3}), index = at::tensor({0});
  auto fx = input(x), fi = input(index);
  trace([&] {
    fx.add_(1);
    return at::gather(fx, 0, fi);
  });
  const UndoLog log(graph());
  auto slice = large().view(-1).slice(0, 0, 3);
  const auto saved = log.save({slice, index});
  EXPECT_FALSE(saved.is_complete);
  EXPECT_FALSE(log.restore(saved, raised_in(1)));
}

TEST_F(UndoLogTest, ANumberThatFailsAfterAnUnrecoverableWriteIsLate) {
  auto fx = input(large()), fy = input(at::ones({}));
  trace([&] { fx.add_(1); });
  EXPECT_FALSE(UndoLog(graph()).checks_late());
  const at::Scalar n = number(fy);
  trace([&] { return fy.clone().mul_(at::Scalar(n.toSymFloat() / c10::SymFloat(2.0))); });
  EXPECT_TRUE(UndoLog(graph()).checks_late());
}

}  // namespace
}  // namespace stator::backend
