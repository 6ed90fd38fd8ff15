// Checkpointed parts in a program without Python: an engine of its own calls the hooks of saved tensors.
#include "core/backend/reference/checkpoint.h"

#include <ATen/ATen.h>
#include <ATen/CPUGeneratorImpl.h>
#include <gtest/gtest.h>
#include <torch/csrc/autograd/autograd.h>
#include <torch/csrc/autograd/engine.h>
#include <torch/csrc/autograd/saved_variable_hooks.h>

#include <functional>

#include "core/backend/host.h"
#include "core/backend/reference/reentrant_checkpoint.h"

namespace stator::backend {
namespace {

using Tensors = std::vector<at::Tensor>;
using Hooks = std::shared_ptr<SavedTensorHooks>;

thread_local std::vector<Hooks> pushed;
std::shared_ptr<void> group;

class NativeHooks final : public torch::autograd::SavedVariableHooks {
 public:
  explicit NativeHooks(Hooks hooks) : hooks_(std::move(hooks)) {}
  void call_pack_hook(const at::Tensor& tensor) override { stored_ = hooks_->pack(tensor); }
  at::Tensor call_unpack_hook() override { return hooks_->unpack(stored_); }

 private:
  Hooks hooks_;
  std::shared_ptr<void> stored_;
};

struct HookedEngine final : torch::autograd::Engine {
  HookedEngine() = default;
  std::unique_ptr<torch::autograd::SavedVariableHooks> get_default_saved_variable_hooks() override {
    if (pushed.empty()) return nullptr;
    return std::make_unique<NativeHooks>(pushed.back());
  }
  // Never destroyed: its threads live as long as the process.
  static Engine& instance() {
    static auto* engine = new HookedEngine;
    return *engine;
  }
};

/// A part in C++ that counts its runs.
class Part final : public Executable {
 public:
  using Body = std::function<Tensors(Tensors)>;
  explicit Part(Body body) : body_(std::move(body)) {}
  Tensors run(Tensors inputs) const override {
    ++runs;
    return body_(std::move(inputs));
  }
  Failure failure() const override { return {}; }

  mutable int runs = 0;

 private:
  Body body_;
};

class Checkpoint : public testing::Test {
 protected:
  void SetUp() override {
    torch::autograd::set_default_engine_stub(HookedEngine::instance);
    set_checkpoint_host({[](Hooks hooks) { pushed.push_back(std::move(hooks)); }, [] { pushed.pop_back(); }, [] {},
                         [] { return group; }});
  }
  void TearDown() override {
    EXPECT_TRUE(pushed.empty());
    group.reset();
    set_checkpoint_host({});
    torch::autograd::set_default_engine_stub(torch::autograd::Engine::get_base_engine);
  }

  static at::Tensor leaf() { return at::arange(1, 4, at::kFloat).div(4).requires_grad_(); }
  static at::Tensor gradient(const at::Tensor& of, const at::Tensor& by, bool keep = false) {
    return torch::autograd::grad({of.sum()}, {by}, {}, keep)[0];
  }
  static Tensors body(Tensors x) { return {x[0].sin().mul(x[0]).exp()}; }
};

TEST_F(Checkpoint, ComputesThePartAgainInEachBackwardPass) {
  auto part = std::make_shared<Part>(body);
  const at::Tensor x = leaf(), expected = gradient(body({x})[0], x);
  const at::Tensor y = run_checkpoint(part, {x}, {}, {})[0];
  EXPECT_EQ(part->runs, 1);
  EXPECT_TRUE(at::equal(gradient(y, x, true), expected));
  EXPECT_EQ(part->runs, 2);
  EXPECT_TRUE(at::equal(gradient(y, x), expected));
  EXPECT_EQ(part->runs, 3);
}

TEST_F(Checkpoint, WithoutAHostAutogradSaves) {
  set_checkpoint_host({});
  auto part = std::make_shared<Part>(body);
  const at::Tensor x = leaf(), expected = gradient(body({x})[0], x);
  EXPECT_TRUE(at::equal(gradient(run_checkpoint(part, {x}, {}, {})[0], x), expected));
  EXPECT_EQ(part->runs, 1);
}

TEST_F(Checkpoint, WithoutGradientsThereAreNoHooks) {
  auto part = std::make_shared<Part>([](Tensors x) {
    EXPECT_TRUE(pushed.empty());
    return body(std::move(x));
  });
  at::NoGradGuard no_grad;
  run_checkpoint(part, {leaf()}, {}, {});
  EXPECT_EQ(part->runs, 1);
}

TEST_F(Checkpoint, StopsWithTheLastTensorThatIsNeeded) {
  for (bool early_stop : {true, false}) {
    int finished = 0;
    auto part = std::make_shared<Part>([&](Tensors x) {
      Tensors made = {x[0].exp().cos()};
      ++finished;
      return made;
    });
    const at::Tensor x = leaf(), expected = gradient(x.exp().cos(), x);
    const at::Tensor y = run_checkpoint(part, {x}, {}, {.early_stop = early_stop})[0];
    EXPECT_TRUE(at::equal(gradient(y, x), expected));
    EXPECT_EQ(part->runs, 2);
    EXPECT_EQ(finished, early_stop ? 1 : 2);
  }
}

TEST_F(Checkpoint, DrawsTheSameNumbersAndRestoresTheState) {
  at::manual_seed(7);
  auto part = std::make_shared<Part>([](Tensors x) { return Tensors{at::dropout(x[0], 0.5, true).sin()}; });
  const at::Tensor x = at::ones({64}).requires_grad_();
  const at::Tensor y = run_checkpoint(part, {x}, {}, {})[0];
  const at::Generator generator = at::detail::getDefaultCPUGenerator();
  const at::Tensor state = generator.get_state(), dropped = y.detach().eq(0);
  EXPECT_TRUE(at::equal(gradient(y, x).eq(0), dropped));
  EXPECT_GT(dropped.sum().item<int64_t>(), 0);
  EXPECT_TRUE(at::equal(generator.get_state(), state));
}

TEST_F(Checkpoint, ArgumentsOfAnInnerPartAreIntermediatesOfTheOuterOne) {
  auto inner = std::make_shared<Part>(body);
  auto outer = std::make_shared<Part>([&](Tensors x) { return run_checkpoint(inner, {x[0].cos()}, {}, {}); });
  const at::Tensor x = leaf(), expected = gradient(body({x.cos()})[0], x);
  const at::Tensor y = run_checkpoint(outer, {x}, {}, {})[0];
  EXPECT_TRUE(at::equal(gradient(y, x), expected));
  EXPECT_EQ(outer->runs, 2);
}

TEST_F(Checkpoint, AGroupOfPassesComputesOnce) {
  auto part = std::make_shared<Part>([](Tensors x) { return Tensors{x[0].exp(), x[1].exp()}; });
  const at::Tensor x = leaf(), z = leaf();
  const Tensors made = run_checkpoint(part, {x, z}, {}, {});
  group = std::make_shared<int>();
  gradient(made[0], x, true);
  gradient(made[1], z, true);
  EXPECT_EQ(part->runs, 2);
  try {
    gradient(made[1], z);
    ADD_FAILURE();
  } catch (const CheckpointError& error) {
    EXPECT_EQ(error.kind, CheckpointError::Kind::UnpackedTwice);
  }
}

TEST_F(Checkpoint, OtherTensorsInARecomputationAreAnError) {
  for (int change : {1, 2, 3}) {
    int runs = 0;
    auto part = std::make_shared<Part>([&](Tensors x) {
      if (runs++ == 0) return Tensors{x[0].sin().exp()};
      if (change == 1) return Tensors{x[0].sin()};
      if (change == 2) return Tensors{x[0].sin().exp().exp()};
      return Tensors{x[0].unsqueeze(0).sin().exp()};
    });
    const at::Tensor x = leaf(), y = run_checkpoint(part, {x}, {}, {.early_stop = false})[0];
    try {
      gradient(y, x);
      ADD_FAILURE();
    } catch (const CheckpointError& error) {
      EXPECT_EQ(error.kind, CheckpointError::Kind::Differs);
      const char* const expected[] = {"A different number", "trying to save more", "torch.Size([1, 3])"};
      EXPECT_NE(std::string(error.what()).find(expected[change - 1]), std::string::npos) << error.what();
    }
  }
}

TEST_F(Checkpoint, WhatWasRecomputedIsReleasedWhenItIsTaken) {
  std::vector<c10::weak_intrusive_ptr<c10::TensorImpl>> made;
  auto part = std::make_shared<Part>([&](Tensors x) {
    at::Tensor y = x[0].sin();
    made.emplace_back(y.getIntrusivePtr());
    return Tensors{y.exp()};
  });
  const at::Tensor x = leaf(), y = run_checkpoint(part, {x}, {}, {})[0];
  EXPECT_TRUE(made[0].expired());
  gradient(y, x, true);
  ASSERT_EQ(made.size(), 2u);
  EXPECT_TRUE(made[1].expired());
}

TEST_F(Checkpoint, ReentrantRunsABackwardPassOverTheSecondRun) {
  const at::Tensor weight = leaf();
  auto part = std::make_shared<Part>([&](Tensors x) { return Tensors{(x[0] * x[1]).sin().exp()}; });
  auto first = Part([&](Tensors x) {
    at::NoGradGuard no_grad;
    return Tensors{(x[0] * x[1]).sin().exp()};
  });
  const at::Tensor x = leaf();
  const at::Tensor y = run_reentrant_checkpoint(first, part, {x}, {weight}, true)[0];
  EXPECT_TRUE(y.requires_grad());
  EXPECT_EQ(part->runs, 0);
  torch::autograd::backward({y.sum()});
  EXPECT_EQ(part->runs, 1);
  const at::Tensor a = leaf(), b = leaf();
  torch::autograd::backward({(a * b).sin().exp().sum()});
  EXPECT_TRUE(at::equal(x.grad(), a.grad()));
  EXPECT_TRUE(at::equal(weight.grad(), b.grad()));
  EXPECT_THROW(gradient(run_reentrant_checkpoint(first, part, {x}, {weight}, true)[0], x), c10::Error);
}

}  // namespace
}  // namespace stator::backend
