#include "core/backend/probe.h"

#include <ATen/TensorOperators.h>
#include <ATen/ops/ones.h>
#include <ATen/ops/zeros.h>

#include "../tracer/traced.h"

namespace stator::backend {
namespace {

class Probe : public testing::TracedTest {
 protected:
  /// Whether the node that is newest raises whatever its data.
  bool last_raises() { return raises_on_sight(graph(), graph().nodes.back()); }
};

TEST_F(Probe, AnOperatorThatWorksDoesNot) {
  auto fx = input(at::ones({2, 3}));
  trace([&] { return fx.sin().matmul(fx.t()); });
  EXPECT_FALSE(last_raises());
  EXPECT_FALSE(last_raises()) << "the answer is kept";
}

TEST_F(Probe, DataDoesNotMatter) {
  auto fx = input(at::ones({3})), fi = input(at::ones({3}, at::kLong));
  trace([&] { return fx.gather(0, fi); });
  EXPECT_FALSE(last_raises());
}

TEST_F(Probe, MemoryThatOverlapsInsideIsRefused) {
  auto fx = input(at::ones({1, 3}).expand({4, 3}));
  trace([&] { fx.add_(1); });
  EXPECT_TRUE(last_raises());
}

TEST_F(Probe, MemoryThatOverlapsBetweenOperandsIsRefused) {
  auto fx = input(at::ones({4}));
  trace([&] { fx.slice(0, 0, 3).add_(fx.slice(0, 1, 4)); });
  EXPECT_TRUE(last_raises());
}

TEST_F(Probe, LargeOperandsAreMadeSmaller) {
  auto fx = input(at::ones({512, 1024}));
  trace([&] { fx.add_(fx); });
  EXPECT_FALSE(last_raises());
}

TEST_F(Probe, RandomDrawsAreNotTried) {
  auto fx = input(at::ones({3}));
  trace([&] { return fx.bernoulli(); });
  EXPECT_FALSE(last_raises());
}

TEST_F(Probe, NumbersThatDependOnDataAreNotTried) {
  auto fx = input(at::ones({3})), fy = input(at::ones({}));
  const at::Scalar n = number(fy);
  trace([&] { fx.mul_(n); });
  EXPECT_FALSE(last_raises());
}

TEST_F(Probe, TheOperandsAreNotTouched) {
  auto x = at::ones({3});
  auto fx = input(x);
  trace([&] { fx.zero_(); });
  EXPECT_FALSE(last_raises());
  EXPECT_EQ(x.sum().item<float>(), 3);
}

}  // namespace
}  // namespace stator::backend
