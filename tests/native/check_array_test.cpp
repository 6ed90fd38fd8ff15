#include "capture/guards/check_array.h"

#include <vector>

#include "capture/guards/tensor_expectation.h"
#include "python.h"

namespace stator::capture {
namespace {

class CheckArrayTest : public ::testing::Test {
 protected:
  CheckArrayTest() { python.run("def function(a, b=None):\n    return a"); }

  /// The source of argument `index`, which `expression` gives at capture.
  Source* argument(int index, const char* expression) { return tree_->argument(index, python(expression).get()); }
  Source* child(Source* parent, SourceKind kind, const char* key, const char* expression, int32_t index = 0) {
    Ref name = key ? python(key) : Ref();
    return tree_->child(parent, kind, index, name.get(), python(expression).get());
  }
  void fact(Source* source, FactKind kind, const char* object = nullptr, int64_t number = 0) {
    Fact made{kind};
    if (object) made.object = python(object);
    made.number = number;
    tree_->add_fact(source, std::move(made));
  }
  void same_as(Source* source, FactKind kind, Source* other) {
    Fact made{kind};
    made.other = other;
    tree_->add_fact(source, std::move(made));
  }
  void tensor(Source* source) {
    Fact made{FactKind::Tensor};
    made.tensor = TensorExpectation::of(source->object.get());
    tree_->add_fact(source, std::move(made));
  }

  /// The array of all facts so far.
  CheckArray& array() {
    if (!array_) array_ = std::make_unique<CheckArray>(std::move(tree_), GlobalState::current());
    return *array_;
  }

  struct Input {
    std::vector<Ref> kept;
    std::vector<PyObject*> arguments;
    Ref function;
    GuardInput input() const { return {arguments.data(), function.get()}; }
  };
  Input input(std::initializer_list<const char*> expressions) {
    Input made;
    for (const char* expression : expressions) {
      made.kept.push_back(python(expression));
      made.arguments.push_back(made.kept.back().get());
    }
    made.function = python("function");
    return made;
  }
  /// Whether the guards hold for a call with these arguments. Asked often, so that words are recorded and used; every
  /// answer must be the same.
  bool holds(std::initializer_list<const char*> expressions) {
    const Input call = input(expressions);
    const bool first = array().run(call.input());
    for (int i = 0; i < 5; ++i) EXPECT_EQ(array().run(call.input()), first) << *expressions.begin();
    return first;
  }
  std::string miss(std::initializer_list<const char*> expressions) {
    return array().miss(input(expressions).input()).text;
  }

  testing::Python python;
  std::unique_ptr<SourceTree> tree_ = std::make_unique<SourceTree>();
  std::unique_ptr<CheckArray> array_;
};

TEST_F(CheckArrayTest, NoFactsHoldForAnything) {
  EXPECT_TRUE(holds({"1"}));
  EXPECT_EQ(array().size(), 0u);
}

TEST_F(CheckArrayTest, LiteralsAreComparedByTypeAndValue) {
  fact(argument(0, "3"), FactKind::Equals, "3");
  EXPECT_TRUE(holds({"3"}));
  EXPECT_FALSE(holds({"4"}));
  EXPECT_FALSE(holds({"3.0"}));
  EXPECT_TRUE(holds({"1 + 2"}));
}

TEST_F(CheckArrayTest, ZeroHasASignAndTruthIsNoInteger) {
  fact(argument(0, "0.0"), FactKind::Equals, "0.0");
  fact(argument(1, "1"), FactKind::Equals, "1");
  EXPECT_TRUE(holds({"0.0", "1"}));
  EXPECT_FALSE(holds({"-0.0", "1"}));
  EXPECT_FALSE(holds({"0.0", "True"}));
}

TEST_F(CheckArrayTest, IdentityEndsWithTheObject) {
  python.run("class C: pass\nc = C()");
  fact(argument(0, "c"), FactKind::Identity, "c");
  EXPECT_TRUE(holds({"c"}));
  EXPECT_FALSE(holds({"C()"}));
  EXPECT_FALSE(array().is_dead());
  python.run("del c");
  EXPECT_TRUE(array().is_dead()) << "the array does not keep what it guards";
  EXPECT_FALSE(holds({"C()"}));
  EXPECT_NE(miss({"C()"}).find("deleted"), std::string::npos);
}

TEST_F(CheckArrayTest, TypesAreExact) {
  python.run("class L(list): pass");
  fact(argument(0, "[]"), FactKind::TypeIs, "list");
  EXPECT_TRUE(holds({"[1]"}));
  EXPECT_FALSE(holds({"L()"}));
}

TEST_F(CheckArrayTest, AClassThatIsExchangedIsSeen) {
  python.run("class A: pass\nclass B: pass\na = A()");
  fact(argument(0, "a"), FactKind::TypeIs, "A");
  EXPECT_TRUE(holds({"a"}));
  python.run("a.__class__ = B");
  EXPECT_FALSE(holds({"a"}));
}

TEST_F(CheckArrayTest, TensorsAreComparedByMetadata) {
  tensor(argument(0, "torch.ones(2, 3)"));
  EXPECT_TRUE(holds({"torch.zeros(2, 3)"}));
  for (const char* other : {"torch.ones(3, 2)", "torch.ones(3, 2).t()", "torch.ones(2, 3).double()",
                            "torch.ones(2, 3, requires_grad=True)", "torch.nn.Parameter(torch.ones(2, 3))", "None"})
    EXPECT_FALSE(holds({other})) << other;
  EXPECT_NE(miss({"torch.ones(2, 3).double()"}).find("dtype"), std::string::npos);
}

TEST_F(CheckArrayTest, ItemsOfADictAreLoadedAndCompared) {
  python.run("d = {'k': 2, 'other': 0}");
  Source* d = argument(0, "d");
  fact(d, FactKind::TypeIs, "dict");
  fact(child(d, SourceKind::DictItem, "'k'", "2"), FactKind::Equals, "2");
  EXPECT_TRUE(holds({"d"}));
  python.run("d['other'] = 5");
  EXPECT_TRUE(holds({"d"})) << "nobody asked for it";
  EXPECT_TRUE(holds({"{'k': 2}"}));
  python.run("d['k'] = 3");
  EXPECT_FALSE(holds({"d"}));
  python.run("d['k'] = 2");
  EXPECT_TRUE(holds({"d"}));
  python.run("del d['k']");
  EXPECT_FALSE(holds({"d"}));
}

TEST_F(CheckArrayTest, KeysAreComparedInOrder) {
  python.run("d = {'a': 1, 'b': 2}");
  Source* d = argument(0, "d");
  fact(d, FactKind::TypeIs, "dict");
  fact(d, FactKind::Keys, "('a', 'b')");
  EXPECT_TRUE(holds({"d"}));
  EXPECT_TRUE(holds({"{'a': 3, 'b': 4}"}));
  EXPECT_FALSE(holds({"{'b': 2, 'a': 1}"}));
  python.run("d['c'] = 3");
  EXPECT_FALSE(holds({"d"}));
}

TEST_F(CheckArrayTest, AKeyThatIsAbsentStaysAbsent) {
  python.run("d = {}");
  Source* d = argument(0, "d");
  fact(d, FactKind::TypeIs, "dict");
  fact(d, FactKind::Absent, "'k'");
  EXPECT_TRUE(holds({"d"}));
  python.run("d['other'] = 1");
  EXPECT_TRUE(holds({"d"}));
  python.run("d['k'] = 1");
  EXPECT_FALSE(holds({"d"}));
}

TEST_F(CheckArrayTest, ListsHaveALengthAndItems) {
  python.run("items = [1, 'x']");
  Source* items = argument(0, "items");
  fact(items, FactKind::TypeIs, "list");
  fact(items, FactKind::Length, nullptr, 2);
  fact(child(items, SourceKind::Item, nullptr, "'x'", 1), FactKind::Equals, "'x'");
  EXPECT_TRUE(holds({"items"}));
  EXPECT_TRUE(holds({"[None, 'x']"}));
  python.run("items[1] = 'y'");
  EXPECT_FALSE(holds({"items"}));
  python.run("items[1] = 'x'; items.append(1)");
  EXPECT_FALSE(holds({"items"}));
  EXPECT_FALSE(holds({"[]"})) << "an item that is not there is no crash";
}

TEST_F(CheckArrayTest, AttributesOfInstances) {
  python.run("class C: pass\nc = C()\nc.n = 1\nother = C()");
  Source* c = argument(0, "c");
  fact(c, FactKind::TypeIs, "C");
  fact(child(c, SourceKind::Attribute, "'n'", "1"), FactKind::Equals, "1");
  fact(c, FactKind::NoAttribute, "'missing'");
  EXPECT_TRUE(holds({"c"}));
  EXPECT_FALSE(holds({"other"}));
  python.run("c.n = 2");
  EXPECT_FALSE(holds({"c"}));
  python.run("c.n = 1; c.missing = 1");
  EXPECT_FALSE(holds({"c"}));
}

TEST_F(CheckArrayTest, CellsOfTheFunction) {
  python.run("def make(n):\n    def function(): return n\n    return function\nfunction = make(1)");
  Source* running = tree_->function(python("function").get());
  Source* cell = child(running, SourceKind::Cell, "'n'", "function.__closure__[0]");
  fact(child(cell, SourceKind::CellContents, nullptr, "1"), FactKind::Equals, "1");
  EXPECT_TRUE(holds({"None"}));
  python.run("function.__closure__[0].cell_contents = 2");
  EXPECT_FALSE(holds({"None"}));
  python.run("del function.__closure__[0].cell_contents");
  EXPECT_FALSE(holds({"None"}));
}

TEST_F(CheckArrayTest, TwoArgumentsThatAreOneObject) {
  python.run("x = []");
  Source* first = argument(0, "x");
  Source* second = argument(1, "x");
  same_as(second, FactKind::SameAs, first);
  EXPECT_TRUE(holds({"x", "x"}));
  EXPECT_FALSE(holds({"x", "[]"}));
}

TEST_F(CheckArrayTest, TwoArgumentsThatAreTwoObjects) {
  python.run("x, y = [], []");
  Source* first = argument(0, "x");
  Source* second = argument(1, "y");
  same_as(second, FactKind::NotSameAs, first);
  EXPECT_TRUE(holds({"x", "y"}));
  EXPECT_FALSE(holds({"x", "x"}));
}

TEST_F(CheckArrayTest, ADistinctGroup) {
  python.run("x, y, z = [], [], []");
  Source* first = argument(0, "x");
  auto group = std::make_shared<std::vector<Source*>>();
  *group = {first, argument(1, "y"), argument(2, "z")};
  Fact made{FactKind::Distinct};
  made.group = group;
  made.number = 1;  // only the first was written to
  tree_->add_fact(first, std::move(made));
  EXPECT_TRUE(holds({"x", "y", "z"}));
  EXPECT_TRUE(holds({"x", "y", "y"}));
  EXPECT_FALSE(holds({"x", "x", "z"}));
  EXPECT_FALSE(holds({"x", "y", "x"}));
}

TEST_F(CheckArrayTest, GlobalStateBelongsToEveryArray) {
  EXPECT_TRUE(holds({"1"}));
  python.run("before = torch.is_grad_enabled(); torch._C._set_grad_enabled(not before)");
  EXPECT_FALSE(holds({"1"}));
  EXPECT_NE(miss({"1"}), "");
  python.run("torch._C._set_grad_enabled(before)");
  EXPECT_TRUE(holds({"1"}));
}

TEST_F(CheckArrayTest, SlotsHoldWhatThePlanReads) {
  python.run("d = {'k': 'value'}");
  Source* d = argument(0, "d");
  fact(d, FactKind::TypeIs, "dict");
  Source* item = child(d, SourceKind::DictItem, "'k'", "'value'");
  item->loaded = true;
  EXPECT_TRUE(holds({"d"}));
  EXPECT_EQ(array().slot(item->slot), python("d['k']").get());
  python.run("d['k'] = 'another'");
  EXPECT_TRUE(holds({"d"}));
  EXPECT_EQ(array().slot(item->slot), python("d['k']").get());
}

TEST_F(CheckArrayTest, AMissNamesTheFact) {
  python.run("items = [1, 2]");
  Source* items = argument(0, "items");
  fact(items, FactKind::TypeIs, "list");
  fact(items, FactKind::Length, nullptr, 2);
  Source* first = child(items, SourceKind::Item, nullptr, "1", 0);
  fact(first, FactKind::Equals, "1");
  array();
  EXPECT_NE(miss({"(1, 2)"}).find("argument 0 has type"), std::string::npos) << miss({"(1, 2)"});
  const auto found = array().miss(input({"[7, 2]"}).input());
  EXPECT_EQ(found.source, first);
  ASSERT_NE(found.fact, nullptr);
  EXPECT_EQ(found.fact->kind, FactKind::Equals);
  EXPECT_NE(found.text.find('7'), std::string::npos) << found.text;
}

TEST_F(CheckArrayTest, MissesTellsAllValuesThatDiffer) {
  fact(argument(0, "1"), FactKind::Equals, "1");
  fact(argument(1, "2"), FactKind::Equals, "2");
  const Input call = input({"5", "6"});
  std::vector<CheckArray::Miss> found;
  EXPECT_TRUE(array().misses(call.input(), found));
  EXPECT_EQ(found.size(), 2u);
  const Input wrong = input({"'text'", "2"});
  found.clear();
  array().misses(wrong.input(), found);
  EXPECT_LE(found.size(), 1u);
}

TEST_F(CheckArrayTest, OneLineForEachFact) {
  Source* first = argument(0, "1");
  fact(first, FactKind::Equals, "1");
  fact(first, FactKind::Equals, "1");  // once is enough
  tensor(argument(1, "torch.ones(2)"));
  const auto lines = array().describe();
  ASSERT_EQ(lines.size(), 2u);
  EXPECT_NE(lines[0].find("argument 0 == 1"), std::string::npos) << lines[0];
  EXPECT_NE(lines[1].find("[2]"), std::string::npos) << lines[1];
}

TEST_F(CheckArrayTest, WordsStandForAFullPassUntilSomethingChanges) {
  python.run("class C: pass\nc = C()\nc.d = {'k': 1}");
  Source* c = argument(0, "c");
  fact(c, FactKind::Identity, "c");
  Source* attributes = child(c, SourceKind::InstanceDict, nullptr, "c.__dict__");
  Source* d = child(attributes, SourceKind::DictItem, "'d'", "c.d");
  fact(d, FactKind::TypeIs, "dict");
  fact(child(d, SourceKind::DictItem, "'k'", "1"), FactKind::Equals, "1");
  const Input call = input({"c"});
  for (int i = 0; i < 20; ++i) ASSERT_TRUE(array().run(call.input()));
  const int64_t full = guard_counts().in_full.value(), words = guard_counts().by_words.value();
  for (int i = 0; i < 20; ++i) ASSERT_TRUE(array().run(call.input()));
  EXPECT_EQ(guard_counts().in_full.value(), full) << "words answer";
  EXPECT_EQ(guard_counts().by_words.value(), words + 20);
  python.run("c.d['k'] = 2");
  EXPECT_FALSE(array().run(call.input()));
  python.run("c.d = {'k': 1}");
  EXPECT_TRUE(array().run(call.input()));
  python.run("c.d = {'k': 3}");
  EXPECT_FALSE(array().run(call.input()));
}

class RowTest : public CheckArrayTest {
 protected:
  /// Guards `argument.value == 1` by structure: the instance in the argument belongs to the key of a row.
  void guard_instances() {
    python.run(
        "class C:\n    def __init__(self):\n        self.value = 1\n        self.__dict__\nmade = [C() for _ in "
        "range(300)]");
    Source* instance = argument(0, "made[0]");
    instance->recurring = true;
    fact(instance, FactKind::TypeIs, "C");
    Source* dict = child(instance, SourceKind::InstanceDict, nullptr, "made[0].__dict__");
    value_ = child(dict, SourceKind::DictItem, "'value'", "1");
    fact(value_, FactKind::Equals, "1");
    value_->loaded = true;
  }
  uint64_t full_passes(std::initializer_list<const char*> expressions) {
    const int64_t before = guard_counts().in_full.value();
    EXPECT_TRUE(array().run(input(expressions).input()));
    return guard_counts().in_full.value() - before;
  }
  Source* value_ = nullptr;
};

TEST_F(RowTest, EachInstanceHasItsWords) {
  guard_instances();
  for (int round = 0; round < 3; ++round)
    for (const char* one : {"made[0]", "made[1]", "made[2]"}) EXPECT_TRUE(array().run(input({one}).input()));
  for (const char* one : {"made[2]", "made[0]", "made[1]", "made[0]"}) EXPECT_EQ(full_passes({one}), 0u) << one;
  python.run("made[1].value = 2");
  EXPECT_TRUE(holds({"made[0]"}));
  EXPECT_FALSE(holds({"made[1]"}));
  python.run("made[1].value = 1; made[2].__class__ = type('D', (C,), {})");
  EXPECT_TRUE(holds({"made[1]"}));
  EXPECT_FALSE(holds({"made[2]"}));
  python.run("made[0].__dict__ = {'value': 3}");
  EXPECT_FALSE(holds({"made[0]"}));
}

TEST_F(RowTest, InstancesMayDie) {
  guard_instances();
  EXPECT_TRUE(holds({"made[0]"}));
  python.run("made[0] = None");
  EXPECT_FALSE(array().is_dead());
  for (int i = 0; i < 100; ++i) {
    EXPECT_TRUE(array().run(input({"C()"}).input()));
    python.run("other = C(); other.value = 2");
    EXPECT_FALSE(array().run(input({"other"}).input()));
    python.run("del other");
  }
}

TEST_F(RowTest, MoreInstancesThanRows) {
  guard_instances();
  for (int round = 0; round < 3; ++round)
    for (int i = 0; i < 300; ++i) {
      const std::string one = "made[" + std::to_string(i) + "]";
      const Input call = input({one.c_str()});
      EXPECT_TRUE(array().run(call.input()));
      EXPECT_EQ(array().slot(value_->slot), python("1").get());
    }
}

}  // namespace
}  // namespace stator::capture
