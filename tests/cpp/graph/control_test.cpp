#include <ATen/TensorOperators.h>
#include <ATen/ops/allclose.h>
#include <ATen/ops/arange.h>
#include <ATen/ops/equal.h>
#include <ATen/ops/ones.h>
#include <ATen/ops/scalar_tensor.h>
#include <ATen/ops/stack.h>
#include <ATen/ops/tensor.h>
#include <gtest/gtest.h>
#include <torch/csrc/autograd/function.h>

#include "core/backend/backend.h"
#include "core/graph/aliasing.h"
#include "core/graph/control_ops.h"
#include "core/graph/text.h"
#include "core/graph/verify.h"

namespace stator::graph {
namespace {

using Tensors = std::vector<at::Tensor>;

Tensors run(const std::string& text, Tensors inputs) {
  return backend::compile_reference(from_text(text))->run(std::move(inputs));
}

constexpr const char* kCond = R"(graph "g" (%p, %x, %y) {
  state 0 grad
  [%z] = stator::cond(%p, graph "yes" (%a, %b) {
    state 0 grad
    %s = aten::sin(%a)
    return (%s)
  }, graph "no" (%a, %b) {
    state 0 grad
    %m = aten::mul.Tensor(%a, %b)
    return (%m)
  }, [%x, %y], %GRAD%)
  return (%z)
})";

std::string cond_text(bool differentiable) {
  std::string text = kCond;
  return text.replace(text.find("%GRAD%"), 6, differentiable ? "True" : "False");
}

TEST(Control, CondRunsTheBranchThatThePredicateChooses) {
  auto x = at::arange(3, at::kFloat), y = x + 1;
  for (bool differentiable : {false, true}) {
    auto executable = backend::compile_reference(from_text(cond_text(differentiable)));
    EXPECT_TRUE(at::equal(executable->run({at::scalar_tensor(true), x, y})[0], x.sin()));
    EXPECT_TRUE(at::equal(executable->run({at::scalar_tensor(false), x, y})[0], x * y));
  }
}

TEST(Control, OperandsOfTheOtherBranchGetZeros) {
  auto x = at::ones(3).requires_grad_(), y = at::ones(3).requires_grad_();
  auto made = run(cond_text(true), {at::scalar_tensor(true), x, y})[0];
  EXPECT_EQ(made.grad_fn()->name(), "CondAutogradOpBackward");
  made.sum().backward();
  EXPECT_TRUE(at::allclose(x.grad(), x.detach().cos()));
  EXPECT_TRUE(at::equal(y.grad(), at::zeros(3)));
}

TEST(Control, WhileLoopCarriesAndCopiesWhatNoTurnChanged) {
  constexpr const char* text = R"(graph "g" (%n, %x, %y) {
    state 0 grad
    [%k, %z] = stator::while_loop(graph "test" (%k, %t, %u) {
      state 0 grad
      %lt = aten::lt.Scalar(%k, 3)
      return (%lt)
    }, graph "body" (%k, %t, %u) {
      state 0 grad
      %next = aten::add.Tensor(%k, number(1))
      %sum = aten::add.Tensor(%t, %u)
      return (%next, %sum)
    }, [%n, %x], [%y])
    return (%k, %z)
  })";
  auto x = at::ones(2), y = at::ones(2) * 10;
  auto made = run(text, {at::scalar_tensor(0, at::kLong), x, y});
  EXPECT_EQ(made[0].item<int64_t>(), 3);
  EXPECT_TRUE(at::equal(made[1], x + 3 * y));
  made = run(text, {at::scalar_tensor(5, at::kLong), x, y});
  EXPECT_TRUE(at::equal(made[1], x));
  EXPECT_FALSE(made[1].is_same(x));
  EXPECT_NE(memory_of(made[1]), memory_of(x));
}

TEST(Control, MapAndScanGoOverRows) {
  auto rows = at::arange(6, at::kFloat).view({3, 2}), y = at::ones(2);
  auto mapped = run(R"(graph "g" (%x, %y) {
    state 0 grad
    [%z] = stator::map(graph "body" (%row, %u) {
      state 0 grad
      %sum = aten::add.Tensor(%row, %u)
      return (%sum)
    }, [%x], [%y])
    return (%z)
  })",
                    {rows, y});
  EXPECT_TRUE(at::equal(mapped[0], rows + 1));
  auto scanned = run(R"(graph "g" (%c, %x) {
    state 0 grad
    [%last, %all] = stator::scan(graph "body" (%carry, %row) {
      state 0 grad
      %sum = aten::add.Tensor(%carry, %row)
      %copy = aten::clone(%sum)
      return (%sum, %copy)
    }, [%c], [%x], [], True)
    return (%last, %all)
  })",
                     {y, rows});
  EXPECT_TRUE(at::equal(scanned[0], rows.sum(0) + 1));
  EXPECT_TRUE(at::equal(scanned[1], rows.cumsum(0) + 1));
}

TEST(Control, RandomDrawsOfSubGraphsAreSeen) {
  auto graph = from_text(R"(graph "g" (%p, %x) {
    state 0 grad
    [%z] = stator::cond(%p, graph "yes" (%a) {
      state 0 grad
      %r = aten::rand_like(%a)
      return (%r)
    }, graph "no" (%a) {
      state 0 grad
      %r = aten::clone(%a)
      return (%r)
    }, [%x], False)
    return (%z)
  })");
  EXPECT_TRUE(draws_random(graph->nodes[0]));
  EXPECT_FALSE(draws_random(from_text(cond_text(false))->nodes[0]));
}

TEST(Control, MalformedNodesAreRefused) {
  auto problem = [](const std::string& body) -> std::string {
    try {
      from_text("graph \"g\" (%p, %x) {\n state 0 grad\n" + body + "\nreturn ()\n}");
      return "";
    } catch (const TextError& error) {
      return error.what();
    }
  };
  const std::string one = "graph \"one\" (%a) { state 0 grad %s = aten::sin(%a) return (%s) }";
  const std::string none = "graph \"none\" (%a) { state 0 grad return () }";
  const std::string outer = "graph \"outer\" (%a) { state 0 grad %s = aten::sin(%x) return (%s) }";
  auto cond = [](const std::string& yes, const std::string& no, const std::string& operands) {
    return "[%z] = stator::cond(%p, " + yes + ", " + no + ", " + operands + ", False)";
  };
  EXPECT_EQ(problem(cond(one, one, "[%x]")), "");
  EXPECT_NE(problem(cond(one, none, "[%x]")).find("results is 0, not 1"), std::string::npos);
  EXPECT_NE(problem(cond(one, one, "[%x, %p]")).find("inputs is 1, not 2"), std::string::npos);
  EXPECT_NE(problem(cond(one, outer, "[%x]")).find("%x is not defined"), std::string::npos);
  EXPECT_NE(problem("%z = aten::relu(" + one + ")").find("a sub-graph where Tensor is wanted"), std::string::npos);
}

}  // namespace
}  // namespace stator::graph
