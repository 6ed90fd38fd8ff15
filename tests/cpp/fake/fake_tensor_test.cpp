#include "core/fake/fake_tensor.h"

#include <ATen/core/Tensor.h>
#include <ATen/ops/add.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/empty_strided.h>
#include <ATen/ops/mul.h>
#include <ATen/ops/ones.h>
#include <ATen/ops/randn.h>
#include <ATen/ops/sum.h>
#include <ATen/ops/zeros.h>
#include <c10/core/InferenceMode.h>
#include <c10/core/impl/LocalDispatchKeySet.h>
#include <gtest/gtest.h>

#include <thread>

namespace stator::fake {
namespace {

class FakeTensorTest : public ::testing::Test {
 protected:
  void SetUp() override {
    ASSERT_EQ(install(), "");
    take_poison();
  }
  at::Tensor fake(at::IntArrayRef sizes, at::TensorOptions options = {}) {
    return mode_.from_real(at::zeros(sizes, options));
  }
  FakeMode mode_;
};

TEST_F(FakeTensorTest, InstallIsIdempotent) { EXPECT_EQ(install(), ""); }

TEST_F(FakeTensorTest, KeepsGeometryAndAliasing) {
  const at::Tensor base = at::zeros({4, 6});
  const at::Tensor whole = mode_.from_real(base);
  const at::Tensor part = mode_.from_real(base.slice(0, 1, 3).t());
  EXPECT_TRUE(is_fake(whole));
  EXPECT_FALSE(is_fake(base));
  EXPECT_EQ(part.sizes(), at::IntArrayRef({6, 2}));
  EXPECT_EQ(part.strides(), at::IntArrayRef({1, 6}));
  EXPECT_EQ(part.storage_offset(), 6);
  EXPECT_TRUE(whole.storage().is_alias_of(part.storage()));
}

TEST_F(FakeTensorTest, ReadingDataThrowsAndIsNoted) {
  const at::Tensor x = fake({3});
  for (const bool writing : {false, true}) {
    try {
      if (writing) {
        x.mutable_data_ptr();
      } else {
        x.const_data_ptr();
      }
      FAIL() << "data of a fake was given out";
    } catch (const c10::Error& error) {
      EXPECT_TRUE(note_error(error.what()));
      EXPECT_FALSE(take_poison().empty());
    }
  }
}

TEST_F(FakeTensorTest, PoisonIsStickyAndKeepsTheFirstReason) {
  EXPECT_FALSE(is_poisoned());
  poison("first");
  poison("second");
  EXPECT_TRUE(is_poisoned());
  EXPECT_EQ(take_poison(), "first");
  EXPECT_FALSE(is_poisoned());
}

TEST_F(FakeTensorTest, PoisonBelongsToItsThread) {
  std::thread([] { poison("elsewhere"); }).join();
  EXPECT_FALSE(is_poisoned());
}

TEST_F(FakeTensorTest, ItemPoisons) {
  EXPECT_ANY_THROW(fake({}).item());
  EXPECT_NE(take_poison().find("_local_scalar_dense"), std::string::npos);
}

TEST_F(FakeTensorTest, ScopeMakesFactoriesFakeAndRestores) {
  {
    FakeScope scope;
    EXPECT_TRUE(is_fake(at::ones({2})));
    { FakeScope inner; }
    EXPECT_TRUE(is_fake(at::randn({2})));
  }
  EXPECT_FALSE(is_fake(at::ones({2})));
  EXPECT_FALSE(c10::impl::tls_is_dispatch_key_included(c10::DispatchKey::Fake));
}

TEST_F(FakeTensorTest, ForeignTensorsAreRefusedNumbersAreNot) {
  const at::Tensor x = fake({3});
  EXPECT_EQ(at::add(x, 2).scalar_type(), at::kFloat);
  EXPECT_FALSE(is_poisoned());
  EXPECT_THROW(at::add(x, at::ones({3})), Unsupported);
  EXPECT_TRUE(is_poisoned());
  take_poison();
}

TEST_F(FakeTensorTest, PromotesAsTorchDoes) {
  const at::ScalarType types[] = {at::kBool, at::kByte,  at::kInt,    at::kLong,
                                  at::kHalf, at::kFloat, at::kDouble, at::kComplexFloat};
  for (const auto a : types) {
    for (const auto b : types) {
      for (const bool scalar : {false, true}) {
        const at::Tensor x = at::ones({2}, a), y = at::ones(scalar ? at::IntArrayRef{} : at::IntArrayRef{2}, b);
        const at::Tensor real = at::mul(x, y);
        EXPECT_EQ(at::mul(mode_.from_real(x), mode_.from_real(y)).scalar_type(), real.scalar_type());
        const at::Tensor number = at::mul(x, 2.5);
        EXPECT_EQ(at::mul(mode_.from_real(x), 2.5).scalar_type(), number.scalar_type());
      }
    }
  }
}

/// Every pair of small layouts, broadcasts and repeated elements included.
TEST_F(FakeTensorTest, LaysOutAsTorchDoes) {
  std::vector<at::Tensor> layouts;
  const at::Tensor block = at::zeros({4, 4, 4, 4});
  for (const auto& order : std::vector<std::vector<int64_t>>{{0, 1, 2}, {2, 1, 0}, {1, 0, 2}, {1, 2, 0}, {0, 2, 1}}) {
    const at::Tensor plain = at::zeros({2, 3, 4}).permute(order);
    std::vector<int64_t> back(3);
    for (size_t i = 0; i < 3; ++i) back[order[i]] = static_cast<int64_t>(i);
    layouts.push_back(plain.permute(back));
    layouts.push_back(at::zeros({4, 3, 2}).permute(order).as_strided({2, 3, 4}, {12, 4, 1}).permute({0, 1, 2}));
    layouts.push_back(at::empty_strided({2, 3, 4}, {order[0] * 7 + 1, order[1] * 5, order[2] * 3 + 2}));
  }
  layouts.push_back(at::zeros({3, 4}));
  layouts.push_back(at::zeros({4, 3}).t());
  layouts.push_back(at::zeros({2, 1, 4}));
  layouts.push_back(at::zeros({1, 3, 1}).expand({2, 3, 4}));
  layouts.push_back(at::zeros({}));
  layouts.push_back(block.slice(0, 0, 2).slice(1, 0, 3).select(3, 0));
  for (const auto& a : layouts) {
    for (const auto& b : layouts) {
      const at::Tensor real = at::add(a, b), made = at::add(mode_.from_real(a), mode_.from_real(b));
      EXPECT_EQ(made.sizes(), real.sizes());
      EXPECT_EQ(made.strides(), real.strides()) << a.strides() << " + " << b.strides();
    }
  }
}

TEST_F(FakeTensorTest, InferenceTensorsComeFromInferenceTensors) {
  c10::InferenceMode inference;
  const at::Tensor x = fake({2});
  EXPECT_TRUE(x.is_inference());
  EXPECT_TRUE(at::sum(x).is_inference());
}

TEST_F(FakeTensorTest, OtherLayoutsHaveNoFake) {
  EXPECT_THROW(mode_.from_real(at::zeros({2}).to_sparse()), c10::Error);
  EXPECT_THROW(mode_.from_real(at::empty({2}, at::kMeta)), c10::Error);
}

}  // namespace
}  // namespace stator::fake
