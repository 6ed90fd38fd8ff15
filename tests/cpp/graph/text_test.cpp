#include "core/graph/text.h"

#include <ATen/ops/arange.h>
#include <ATen/ops/equal.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <sstream>

#include "build.h"
#include "core/base/check.h"
#include "core/graph/names.h"
#include "core/graph/uses.h"
#include "core/graph/verify.h"

namespace stator::graph {
namespace {

using namespace stator::testing;

std::vector<std::filesystem::path> golden_files() {
  std::vector<std::filesystem::path> files;
  // A relative __FILE__ is relative to the build folder, which contains this program.
  auto here = std::filesystem::canonical("/proc/self/exe").parent_path() / std::filesystem::path(__FILE__);
  auto folder = here.parent_path() / "../../golden";
  for (const auto& entry : std::filesystem::directory_iterator(folder)) {
    if (entry.path().extension() == ".graph") files.push_back(entry.path());
  }
  return files;
}

std::string read(const std::filesystem::path& path) {
  std::ifstream in(path);
  std::ostringstream text;
  text << in.rdbuf();
  return text.str();
}

TEST(Text, GoldenFilesPrintAsThemselves) {
  auto files = golden_files();
  ASSERT_GE(files.size(), 3u);
  for (const auto& file : files) {
    auto text = read(file);
    EXPECT_EQ(to_text(*from_text(text)), text) << file;
  }
}

TEST(Text, ConstantsComeBackAsTheyWere) {
  auto graph = from_text(R"(graph "g" (%x) {
    state 0 grad
    %a = aten::add.Tensor(%x, number(1), alpha=2)
    %b = aten::add.Tensor(%x, tensor(float16[2, 2]{1, 2}, [1.0, 2.0, 3.0, 4.0]), alpha=2.0)
    %c = aten::sum.dim_IntList(%x, [])  # an empty list still knows its kind
    return ()
  })");
  const auto& number = graph->nodes[0].args[1].constant.toTensor();
  EXPECT_TRUE(number.unsafeGetTensorImpl()->is_wrapped_number());
  EXPECT_EQ(number.scalar_type(), at::kLong);
  EXPECT_TRUE(graph->nodes[0].args[2].constant.isInt());
  const auto& tensor = graph->nodes[1].args[1].constant.toTensor();
  EXPECT_FALSE(tensor.unsafeGetTensorImpl()->is_wrapped_number());
  EXPECT_EQ(tensor.scalar_type(), at::kHalf);
  EXPECT_EQ(tensor.strides(), (std::vector<int64_t>{1, 2}));
  EXPECT_EQ(tensor[1][0].item<float>(), 3);
  EXPECT_TRUE(graph->nodes[1].args[2].constant.isDouble());
  EXPECT_TRUE(graph->nodes[2].args[1].constant.isIntList());
  EXPECT_TRUE(graph->nodes[2].args[3].constant.isNone());
}

TEST(Text, BigTensorsGoBesideTheText) {
  Graph graph;
  graph.states.push_back({});
  auto big = at::arange(100);
  graph.outputs = {call(graph, op("clone"), {c(big), c({})})};
  std::vector<at::Tensor> tensors;
  auto text = to_text(graph, &tensors);
  ASSERT_EQ(tensors.size(), 1u);
  EXPECT_TRUE(from_text(text, tensors)->nodes[0].args[0].constant.toTensor().is_same(big));
  EXPECT_THROW(from_text(text), TextError);
  EXPECT_TRUE(at::equal(from_text(to_text(graph))->nodes[0].args[0].constant.toTensor(), big));
}

struct Malformed {
  const char* body;
  const char* complaint;
};

TEST(Text, MalformedTextIsRefusedWithItsPlace) {
  const Malformed cases[] = {
      {"%a = aten::relu(%b)\nreturn ()", "line 4, column 19: %b is not defined"},
      {"%a = aten::relu(%a)\nreturn ()", "%a is not defined"},
      {"%a = aten::relu(%x, %x)\nreturn ()", "too many arguments"},
      {"%a = aten::relu()\nreturn ()", "argument self is missing"},
      {"%a = aten::relu(%x, self=%x)\nreturn ()", "argument self twice"},
      {"%a = aten::relu(%x, other=%x)\nreturn ()", "has no argument other"},
      {"%a = aten::nothing_like_it(%x)\nreturn ()", "no operator"},
      {"%a = aten::add.NoSuch(%x, %x)\nreturn ()", "no operator"},
      {"%a, %b = aten::relu(%x)\nreturn ()", "2 results, not 1"},
      {"aten::relu(%x)\nreturn ()", "0 results, not 1"},
      {"[%a] = aten::relu(%x)\nreturn ()", "confused"},
      {"%a = aten::split.Tensor(%x, 2)\nreturn ()", "confused"},
      {"%a = aten::relu(3)\nreturn ()", "a constant that is not of type Tensor"},
      {"%a = aten::relu(None)\nreturn ()", "a constant that is not of type Tensor"},
      {"%a = aten::relu([%x])\nreturn ()", "a list where Tensor is wanted"},
      {"%a = aten::div.Tensor_mode(%x, %x, rounding_mode=%x)\nreturn ()",
       "a value of type tensor where str? is wanted"},
      {"%a = aten::select.int(%x, 0.5, 0)\nreturn ()", "a constant that is not of type int"},
      {"%a = aten::cat([%x, 1])\nreturn ()", "a constant that is not of type Tensor"},
      {"%a = aten::cat([None])\nreturn ()", "a constant that is not of type Tensor"},
      {"%a = aten::sum.dim_IntList(%x, [1.5])\nreturn ()", "not of type"},
      {"%a = aten::relu(%x) state 7\nreturn ()", "no state 7"},
      {"%a = aten::relu(%x) at 1\nreturn ()", "no location 1"},
      {"%a = aten::relu(%x\nreturn ()", "expected ','"},
      {"%a = aten::relu(%x)\nreturn (%b)", "%b is not defined"},
      {"%a = aten::relu(%x)", "expected a name"},
      {"%a: float33[2] = aten::relu(%x)\nreturn ()", "no dtype"},
      {"%a: float32[2] nowhere = aten::relu(%x)\nreturn ()", "no device"},
      {"%a = aten::clone(tensor(float32[2], [1.0]))\nreturn ()", "do not agree"},
      {"%a = aten::clone(tensor(@0))\nreturn ()", "no tensor @0"},
      {"%a = aten::div.Tensor_mode(%x, %x, rounding_mode=\"floor)\nreturn ()", "a string without end"},
      {"%a = aten::add.Tensor(%x, %x, alpha=1.2.3)\nreturn ()", "no constant"},
      {"%a = aten::sum(%x, dtype=float33)\nreturn ()", "no constant"},
      {"return () }", "something after"},
  };
  for (const auto& [body, complaint] : cases) {
    auto text = std::string("graph \"g\" (%x) {\n  state 0 grad\n\n") + body + "\n}\n";
    try {
      from_text(text);
      ADD_FAILURE() << "accepted: " << body;
    } catch (const TextError& error) {
      EXPECT_NE(std::string(error.what()).find(complaint), std::string::npos) << body << "\n  " << error.what();
    }
  }
  for (const char* text :
       {"", "graph", "graph \"g\" (%x, %x) { return () }", "graph \"g\" () { state 1 grad return () }",
        "graph \"g\" () { location 1 \"f\":1 in \"g\" from 2 return () }"}) {
    EXPECT_THROW(from_text(text), TextError) << text;
  }
}

Graph sample() {
  Graph graph;
  graph.states.push_back({});
  graph.add_input("x", {});
  auto a = call(graph, op("relu"), {v(0)});
  graph.outputs = {call(graph, op("add", "Tensor"), {v(a), v(0), c(1)})};
  return graph;
}

TEST(Verify, MalformedGraphs) {
  EXPECT_EQ(find_problem(sample()), "");
  auto broken = [](const auto& breaks) {
    auto graph = sample();
    breaks(graph);
    EXPECT_THROW(verify(graph), InternalError);
    return find_problem(graph);
  };
  auto expect = [&](const char* complaint, const auto& breaks) {
    auto problem = broken(breaks);
    EXPECT_NE(problem.find(complaint), std::string::npos) << problem;
  };
  expect("used before", [](Graph& g) { std::swap(g.nodes[0], g.nodes[1]); });
  expect("does not exist", [](Graph& g) { g.nodes[1].args[0].value = 9; });
  expect("2 arguments, not 3", [](Graph& g) { g.nodes[1].args.pop_back(); });
  expect("0 results, not 1", [](Graph& g) { g.nodes[1].results.clear(); });
  expect("another number", [](Graph& g) { g.nodes[1].results[0].values.clear(); });
  expect("belongs to another", [](Graph& g) { g.nodes[0].results[0].values[0] = 2; });
  expect("no state 3", [](Graph& g) { g.nodes[1].state = 3; });
  expect("output: ", [](Graph& g) { g.outputs = {17}; });
  expect("input twice", [](Graph& g) { g.inputs = {0, 0}; });
  expect("has a producer", [](Graph& g) { g.inputs.push_back(1); });
  expect("later one", [](Graph& g) { g.locations.push_back({"f", "g", 1, 1}); });
  expect("list inside a list", [](Graph& g) {
    g.nodes.clear();
    g.outputs.clear();
    g.values.resize(1);
    call(g, op("cat"), {list({list({v(0)})}), c(0)});
  });
}

TEST(Names, AreDistinctAndGivenOnesWin) {
  Graph graph;
  graph.states.push_back({});
  graph.add_input("relu", {});
  graph.add_input("relu", {});
  call(graph, op("relu"), {v(0)});
  call(graph, op("relu_"), {v(0)});
  EXPECT_EQ(value_names(graph), (std::vector<std::string>{"relu", "relu_1", "relu_2", "relu_3"}));
}

TEST(Uses, ListsAndLiveness) {
  auto graph = sample();
  Uses uses(graph);
  EXPECT_EQ(std::vector<uint32_t>(uses.of(0).begin(), uses.of(0).end()), (std::vector<uint32_t>{0, 1}));
  EXPECT_EQ(uses.of(1).size(), 1u);
  EXPECT_TRUE(uses.of(2).empty());
  EXPECT_EQ(last_uses(graph), (std::vector<uint32_t>{1, 1, 2}));
}

}  // namespace
}  // namespace stator::graph
