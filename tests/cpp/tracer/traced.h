#pragma once

#include <ATen/core/Tensor.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "core/fake/fake_tensor.h"
#include "core/graph/verify.h"
#include "core/tracer/tracer.h"

namespace stator::testing {

/// A graph that is traced from calls on fakes, as a capture makes it.
class TracedTest : public ::testing::Test {
 protected:
  void SetUp() override {
    ASSERT_EQ(fake::install(), "");
    ASSERT_EQ(tracer::install(), "");
    (void)fake::take_poison();
    tracer_.allow_symbols();
  }

  at::Tensor input(const at::Tensor& real) {
    return tracer_.add_input(real, std::string("x").append(std::to_string(graph().inputs.size())));
  }
  template <class Calls>
  auto trace(const Calls& calls) {
    tracer::TraceScope scope(tracer_);
    return calls();
  }
  /// A float that depends on data: the one element of a fake.
  at::Scalar number(const at::Tensor& fake) { return c10::SymFloat(tracer_.item(fake)); }

  graph::Graph& graph() { return tracer_.graph(); }
  uint32_t count() { return static_cast<uint32_t>(graph().nodes.size()); }
  /// The operators in order, without overloads and the `aten::` of torch's own.
  std::vector<std::string> ops() {
    std::vector<std::string> names;
    for (const graph::Node& node : graph().nodes) {
      std::string name = node.op.operator_name().name;
      names.push_back(name.starts_with("aten::") ? name.substr(6) : name);
    }
    return names;
  }

  tracer::Tracer tracer_{"test"};
};

using Names = std::vector<std::string>;

}  // namespace stator::testing
