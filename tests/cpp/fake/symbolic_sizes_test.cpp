#include <ATen/core/Tensor.h>
#include <ATen/ops/add.h>
#include <ATen/ops/avg_pool2d.h>
#include <ATen/ops/convolution.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/empty_strided.h>
#include <ATen/ops/gather.h>
#include <ATen/ops/max_pool2d_with_indices.h>
#include <gtest/gtest.h>

#include <unordered_map>

#include "core/fake/fake_tensor.h"
#include "core/shapes/env.h"
#include "core/shapes/sym_node.h"

namespace stator::fake {
namespace {

using Numbers = std::vector<int64_t>;

/// Fakes on the CPU whose sizes are symbols.
class SymbolicSizesTest : public ::testing::Test {
 protected:
  void SetUp() override {
    ASSERT_EQ(install(), "");
    take_poison();
  }

  c10::SymInt size(int64_t hint) { return shapes::to_sym_int(env_->add_backed({.hint = hint, .source = "size"}).expr); }
  at::Tensor make(const std::vector<c10::SymInt>& sizes, at::MemoryFormat format = at::MemoryFormat::Contiguous,
                  at::ScalarType dtype = at::kFloat) {
    const FakeScope scope;
    return at::empty_symint(sizes, at::TensorOptions().dtype(dtype), format);
  }
  size_t guards() const { return env_->guards().size(); }

  int64_t value(const c10::SymInt& number, const std::unordered_map<int64_t, int64_t>& values) {
    const shapes::Expr expr = shapes::expression_of(number);
    if (!expr) return number.expect_int();
    std::unordered_map<shapes::Ex, shapes::Ex> by;
    for (const auto* symbol : env_->symbols())
      by[symbol->expr] = env_->constant(values.at(symbol->expr->hint.int64().value()));
    return env_->substitute(expr, by)->int_constant().value();
  }

  shapes::EnvPtr env_ = shapes::ShapeEnv::make();
};

TEST_F(SymbolicSizesTest, ResultsFollowTheLayoutOfTransposedOperands) {
  const at::Tensor x = make({size(3), size(5), size(7)}).transpose(1, 2);
  const at::Tensor sum = at::add(x, x);
  EXPECT_TRUE(sum.sym_strides()[1].sym_eq(1).guard_bool(__FILE__, __LINE__));
  EXPECT_EQ(value(sum.sym_stride(2), {{3, 4}, {5, 6}, {7, 9}}), 9);
  EXPECT_EQ(guards(), 0);
}

TEST_F(SymbolicSizesTest, ConvolutionsDoNotAskWhichKernelRuns) {
  for (const auto format : {at::MemoryFormat::Contiguous, at::MemoryFormat::ChannelsLast}) {
    const at::Tensor image = make({size(2), size(3), size(9), size(9)}, format);
    const at::Tensor weight = make({size(4), size(3), 3, 3});
    const size_t before = guards();
    const at::Tensor out = at::convolution_symint(image, weight, {}, {1, 1}, {1, 1}, {1, 1}, false, {0, 0}, 1);
    EXPECT_EQ(guards(), before);
    const std::unordered_map<int64_t, int64_t> values{{2, 3}, {3, 5}, {4, 6}, {9, 11}};
    const bool is_plain = format == at::MemoryFormat::Contiguous;
    EXPECT_EQ(value(out.sym_size(2), values), 11);
    EXPECT_EQ(value(out.sym_stride(1), values), is_plain ? 121 : 1);
  }
}

/// The last window of a pool begins inside of the input or its left padding.
TEST_F(SymbolicSizesTest, PoolsThatRoundUpDropWindowsInThePadding) {
  const at::Tensor image = make({size(2), size(3), size(20), size(20)});
  for (int64_t kernel = 1; kernel <= 4; ++kernel) {
    for (int64_t stride = 1; stride <= 4; ++stride) {
      for (int64_t padding = 0; padding <= kernel / 2; ++padding) {
        const Numbers k{kernel, kernel}, s{stride, stride}, p{padding, padding};
        const auto pooled = std::get<0>(at::max_pool2d_with_indices(image, k, s, p, {1, 1}, true));
        for (int64_t n = 4; n <= 12; ++n) {
          const auto plain = std::get<0>(at::max_pool2d_with_indices(make({2, 3, n, n}), k, s, p, {1, 1}, true));
          EXPECT_EQ(value(pooled.sym_size(2), {{2, 2}, {3, 3}, {20, n}}), plain.size(2))
              << "kernel " << kernel << " stride " << stride << " padding " << padding << " size " << n;
        }
      }
    }
  }
}

TEST_F(SymbolicSizesTest, ViewsOfSlicesKeepTheirStrides) {
  const at::Tensor x = make({size(2), size(5), 36}).slice(2, 0, 12);
  const at::Tensor heads = x.view_symint({x.sym_size(0), x.sym_size(1), 3, 4});
  EXPECT_EQ(guards(), 0);
  const std::unordered_map<int64_t, int64_t> values{{2, 3}, {5, 7}};
  EXPECT_EQ(value(heads.sym_stride(0), values), 7 * 36);
  EXPECT_EQ(value(heads.sym_stride(1), values), 36);
  EXPECT_EQ(value(heads.sym_stride(2), values), 4);
  EXPECT_THROW(x.view_symint({x.sym_size(0), x.sym_size(1) * 12}), c10::Error);
}

TEST_F(SymbolicSizesTest, ViewsOfAnotherNumberOfElementsRaise) {
  const at::Tensor x = make({size(2), size(5)});
  EXPECT_THROW(x.view_symint({x.sym_size(0), 4}), c10::Error);
  EXPECT_THROW(x.view_symint({-1, 3}), c10::Error);
  EXPECT_EQ(value(x.view_symint({-1}).sym_size(0), {{2, 3}, {5, 7}}), 21);
}

TEST_F(SymbolicSizesTest, ShapesThatDoNotFitAreRefused) {
  const at::Tensor x = make({size(3), size(5)}), y = make({size(3), size(4)});
  EXPECT_THROW(at::add(x, y), c10::Error);
  const at::Tensor index = make({size(4), size(5)}, at::MemoryFormat::Contiguous, at::kLong);
  EXPECT_ANY_THROW(at::gather(x, 1, index));
  EXPECT_ANY_THROW(at::avg_pool2d(make({size(3), size(5), size(4)}), {6, 6}));
  take_poison();
}

}  // namespace
}  // namespace stator::fake
