#include "core/backend/early_checks.h"

#include <ATen/TensorOperators.h>
#include <ATen/ops/equal.h>
#include <ATen/ops/ones.h>
#include <ATen/ops/tensor.h>
#include <ATen/ops/zeros.h>

#include <algorithm>

#include "../tracer/traced.h"
#include "core/backend/backend.h"
#include "core/backend/undo_log.h"

namespace stator::backend {
namespace {

using testing::Names;

class EarlyChecks : public testing::TracedTest {
 protected:
  /// Where the first node of this operator stands.
  size_t place(const std::string& name) {
    const Names names = ops();
    return std::find(names.begin(), names.end(), name) - names.begin();
  }

  /// A large tensor is written to, then multiplied by the half of an element of another one.
  std::vector<at::Tensor> write_then_divide() {
    std::vector<at::Tensor> real = {at::zeros({64, 1024}), at::ones({})};
    auto fx = input(real[0]), fy = input(real[1]);
    trace([&] { fx.add_(1); });
    const at::Scalar n = number(fy);
    trace([&] { fx.mul_(at::Scalar(n.toSymFloat() / c10::SymFloat(2.0))); });
    return real;
  }
};

TEST_F(EarlyChecks, AGraphWithoutHazardStays) {
  auto fx = input(at::ones({3})), fy = input(at::ones({}));
  const at::Scalar n = number(fy);
  trace([&] { fx.mul_(n); });
  const Names before = ops();
  EXPECT_TRUE(check_early(graph(), UndoLog(graph())).empty());
  EXPECT_EQ(ops(), before);
}

TEST_F(EarlyChecks, NumbersAreComputedBeforeAnUnrecoverableWrite) {
  write_then_divide();
  ASSERT_LT(UndoLog(graph()).hazard().node, count());
  const Names before = ops();
  const auto earlier = check_early(graph(), UndoLog(graph()));
  EXPECT_EQ(graph::find_problem(graph()), "");
  ASSERT_EQ(earlier.size(), count());
  const size_t write = place("add_");
  EXPECT_LT(place("stator::item"), write);
  EXPECT_LT(place("stator::number"), write);
  EXPECT_LT(place("stator::fits"), write);
  EXPECT_EQ(ops().front(), "stator::distinct") << "the two inputs may share memory in a later call";
  EXPECT_EQ(UndoLog(graph()).hazard().node, count()) << "nothing fails after the write any more";
  for (size_t n = 0; n < earlier.size(); ++n) {
    const bool is_new = ops()[n] == "stator::distinct" || ops()[n] == "stator::fits";
    if (is_new) continue;
    EXPECT_EQ(ops()[n], before[earlier[n]]);
  }
}

TEST_F(EarlyChecks, TheResultIsTheSame) {
  auto real = write_then_divide();
  check_early(graph(), UndoLog(graph()));
  auto executable = compile_reference(tracer_.share_graph());
  executable->run(real);
  EXPECT_TRUE(at::equal(real[0], at::ones({64, 1024}) / 2));
}

TEST_F(EarlyChecks, ANumberThatDoesNotFitFailsBeforeTheWrite) {
  auto real = write_then_divide();
  check_early(graph(), UndoLog(graph()));
  auto executable = compile_reference(tracer_.share_graph());
  real[1].fill_(std::numeric_limits<float>::infinity());
  EXPECT_ANY_THROW(executable->run(real));
  EXPECT_TRUE(at::equal(real[0], at::zeros({64, 1024})));
}

TEST_F(EarlyChecks, TensorsThatShareMemoryInARunFailBeforeTheWrite) {
  auto real = write_then_divide();
  check_early(graph(), UndoLog(graph()));
  auto executable = compile_reference(tracer_.share_graph());
  real[1] = real[0][0][0];
  EXPECT_ANY_THROW(executable->run(real));
  EXPECT_TRUE(at::equal(real[0], at::zeros({64, 1024})));
}

TEST_F(EarlyChecks, ANumberThatReadsTheWrittenTensorStaysBehindTheWrite) {
  auto fx = input(at::zeros({64, 1024}));
  auto first = trace([&] {
    fx.add_(1);
    return fx.select(0, 0).select(0, 0);
  });
  const at::Scalar n = number(first);
  trace([&] { fx.mul_(at::Scalar(n.toSymFloat() / c10::SymFloat(2.0))); });
  check_early(graph(), UndoLog(graph()));
  EXPECT_EQ(graph::find_problem(graph()), "");
  EXPECT_LT(place("add_"), place("stator::item"));
}

TEST_F(EarlyChecks, FittingDtypesAreThoseOfFloatOperands) {
  auto fx = input(at::ones({3})), fi = input(at::ones({3}, at::kLong)), fy = input(at::ones({}));
  const at::Scalar n = number(fy);
  auto dtypes_of_last = [&] { return fitting_dtypes(graph(), graph().nodes.back()); };
  trace([&] { fx.mul_(n); });
  EXPECT_EQ(plain_numbers(graph().nodes.back()).size(), 1u);
  EXPECT_EQ(dtypes_of_last(), std::vector<at::ScalarType>{at::kFloat});
  trace([&] { fi.fill_(n); });
  EXPECT_TRUE(dtypes_of_last().empty()) << "integers are not checked in advance";
  trace([&] { return fx.sin(); });
  EXPECT_TRUE(dtypes_of_last().empty());
  EXPECT_TRUE(plain_numbers(graph().nodes.back()).empty());
}

}  // namespace
}  // namespace stator::backend
