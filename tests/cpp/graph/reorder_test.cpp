#include "core/graph/reorder.h"

#include <ATen/TensorOperators.h>
#include <ATen/ops/ones.h>
#include <ATen/ops/zeros.h>

#include <algorithm>

#include "../tracer/traced.h"

namespace stator::graph {
namespace {

using stator::testing::Names;

class Reorder : public stator::testing::TracedTest {
 protected:
  /// Moves the nodes of these operators to the front; the earlier index of each node.
  std::vector<uint32_t> to_front(const Names& marked) {
    std::vector<bool> marks;
    for (const std::string& name : ops())
      marks.push_back(std::find(marked.begin(), marked.end(), name) != marked.end());
    auto order = move_to_front(graph(), marks);
    EXPECT_EQ(find_problem(graph()), "");
    return order;
  }
};

TEST_F(Reorder, IndependentNodesMove) {
  auto fx = input(at::ones({3})), fy = input(at::ones({3}));
  trace([&] {
    fx.add_(1);
    auto a = fy.sin();
    fx.mul_(2);
    return a.cos();
  });
  EXPECT_EQ(to_front({"cos"}), (std::vector<uint32_t>{1, 3, 0, 2}));
  EXPECT_EQ(ops(), (Names{"sin", "cos", "add_", "mul_"}));
}

TEST_F(Reorder, NothingMovesWhereAllIsInOrder) {
  auto fx = input(at::ones({3}));
  trace([&] { return fx.sin().cos(); });
  EXPECT_TRUE(to_front({"sin"}).empty());
  EXPECT_TRUE(to_front({"cos"}).empty());
  EXPECT_TRUE(to_front({}).empty());
  EXPECT_EQ(ops(), (Names{"sin", "cos"}));
}

TEST_F(Reorder, AReadStaysBehindTheWrite) {
  auto fx = input(at::ones({3})), fy = input(at::ones({3}));
  trace([&] {
    fy.exp();
    fx.add_(1);
    return fx.sin();
  });
  to_front({"sin"});
  EXPECT_EQ(ops(), (Names{"add_", "sin", "exp"}));
}

TEST_F(Reorder, AReadOfAViewStaysBehindTheWriteToItsBase) {
  auto fx = input(at::ones({3})), fy = input(at::ones({3}));
  trace([&] {
    auto view = fx.slice(0, 1);
    fy.exp();
    fx.add_(1);
    return view.sin();
  });
  to_front({"sin"});
  EXPECT_EQ(ops(), (Names{"slice", "add_", "sin", "exp"}));
}

TEST_F(Reorder, AWriteStaysBehindEarlierReads) {
  auto fx = input(at::ones({3})), fy = input(at::ones({3}));
  trace([&] {
    fy.exp();
    auto a = fx.sin();
    fx.add_(1);
    return a;
  });
  to_front({"add_"});
  EXPECT_EQ(ops(), (Names{"sin", "add_", "exp"}));
}

TEST_F(Reorder, RandomDrawsKeepTheirOrder) {
  auto fx = input(at::ones({3})), fy = input(at::ones({3}));
  trace([&] {
    auto a = fx.bernoulli();
    fy.exp();
    auto b = fy.bernoulli();
    return b.cos();
  });
  to_front({"cos"});
  EXPECT_EQ(ops(), (Names{"bernoulli", "bernoulli", "cos", "exp"}));
}

TEST_F(Reorder, NothingPassesAChangeOfMetadata) {
  auto fx = input(at::ones({2, 3})), fy = input(at::ones({3}));
  trace([&] {
    fy.exp();
    fx.t_();
    return fy.sin();
  });
  to_front({"sin"});
  EXPECT_EQ(ops(), (Names{"exp", "t_", "sin"}));
}

TEST_F(Reorder, NothingMovesUnderAutocast) {
  auto fx = input(at::ones({3})), fy = input(at::ones({3}));
  ExecState cast;
  cast.autocast = {{c10::kCPU, at::kBFloat16}};
  trace([&] {
    fx.add_(1);
    return fy.sin();
  });
  graph().intern_state(cast);
  EXPECT_TRUE(to_front({"sin"}).empty());
  EXPECT_EQ(ops(), (Names{"add_", "sin"}));
}

}  // namespace
}  // namespace stator::graph
