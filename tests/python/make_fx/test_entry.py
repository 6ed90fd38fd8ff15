"""Entry point, modes, signatures and pytrees."""

import collections
import functools

import pytest
import torch

import stator
from tests.python.make_fx.helpers import calls, node, placeholders

MODES = ("real", "fake", "symbolic")


@pytest.fixture
def x():
    torch.manual_seed(0)
    return torch.randn(3, 4)


@pytest.fixture
def y():
    torch.manual_seed(1)
    return torch.randn(3, 4)


@pytest.mark.parametrize("mode", MODES)
def test_operators_in_order_and_a_graph_that_runs(x, y, mode):
    module = stator.make_fx(lambda a, b: (a + b).sin(), tracing_mode=mode)(x, y)
    assert isinstance(module, torch.fx.GraphModule)
    assert calls(module) == ["add.Tensor", "sin.default"]
    assert torch.equal(module(x, y), (x + y).sin())
    assert torch.equal(module(y, y), (y + y).sin())


def test_other_modes_are_refused_before_tracing():
    with pytest.raises(AssertionError, match="foo"):
        stator.make_fx(lambda a: a, tracing_mode="foo")


def test_keyword_arguments_are_refused(x, y):
    with pytest.raises(TypeError):
        stator.make_fx(lambda a, b: a)(x, b=y)


def test_name_and_docstring_of_the_function(x):
    def program(a):
        """What it does."""
        return a.sin()

    traced = stator.make_fx(program)
    assert traced.__name__ == "program"
    assert traced.__doc__ == "What it does."
    assert type(traced(x)).__name__ == "program"


def test_real_mode_changes_tensors_and_draws_random_numbers(x):
    given = x.clone()
    stator.make_fx(lambda a: a.add_(1))(given)
    assert torch.equal(given, x + 1)
    before = torch.get_rng_state()
    stator.make_fx(lambda a: torch.rand(3))(x)
    assert not torch.equal(torch.get_rng_state(), before)


@pytest.mark.parametrize("mode", ["fake", "symbolic"])
def test_fake_modes_touch_nothing(x, mode):
    given = x.clone()
    before = torch.get_rng_state()
    stator.make_fx(lambda a: a.add_(torch.rand(3, 4)), tracing_mode=mode)(given)
    assert torch.equal(given, x)
    assert torch.equal(torch.get_rng_state(), before)


def test_fake_mode_has_plain_sizes(x):
    module = stator.make_fx(lambda a: a.view(a.shape[0] * a.shape[1]), tracing_mode="fake")(x)
    assert calls(module) == ["view.default"]
    assert node(module, "view").args[1] == [12]


def test_names_of_parameters(x, y):
    assert placeholders(stator.make_fx(lambda left, right: left + right)(x, y)) == ["left_1", "right_1"]
    assert placeholders(stator.make_fx(torch.add)(x, y)) == ["arg0_1", "arg1_1"]
    assert placeholders(stator.make_fx(lambda *tensors: tensors[0])(x, y)) == ["arg0_1", "arg1_1"]
    assert placeholders(stator.make_fx(functools.partial(torch.add, alpha=2))(x, y)) == ["arg0_1", "arg1_1"]
    assert placeholders(stator.make_fx(torch.nn.Linear(4, 2))(x)) == ["arg0_1"]


def test_defaults_and_annotations(x):
    def program(a: torch.Tensor, b: int = 3) -> torch.Tensor:
        return a + b

    module = stator.make_fx(program)(x, 3)
    assert "def forward(self, a_1, b_1 = 3) -> torch.Tensor" in module.code


def test_wrong_number_of_arguments(x):
    with pytest.raises(RuntimeError, match="2.*1"):
        stator.make_fx(lambda a, b: a)(x)


def test_bound_method(x, y):
    class Adder:
        def add(self, a, b):
            return a + b

    module = stator.make_fx(Adder().add)(x, y)
    assert placeholders(module) == ["a_1", "b_1"]
    assert torch.equal(module(x, y), x + y)


def test_nested_arguments_and_results(x, y):
    def program(d, items):
        return {"a": d["p"] + items[0], "b": [items[1][0] * 2]}

    module = stator.make_fx(program)({"p": x}, [y, (x * 2,)])
    assert placeholders(module) == ["d_1", "items_1", "items_2"]
    result = module({"p": y}, [y, (x,)])
    assert torch.equal(result["a"], y + y)
    assert torch.equal(result["b"][0], x * 2)


def test_namedtuples_and_empty_containers(x):
    Pair = collections.namedtuple("Pair", "first second")
    torch.utils._pytree._register_namedtuple(Pair, serialized_type_name="tests.Pair")

    def program(pair, nothing, none, text):
        return Pair(pair.second, pair.first * 2)

    module = stator.make_fx(program)(Pair(x, x + 1), [], None, "text")
    assert placeholders(module) == ["pair_1", "pair_2", "none_1", "text_1"]
    result = module(Pair(x, x), [], None, "text")
    assert isinstance(result, Pair)
    assert torch.equal(result.second, x * 2)


def test_results_that_are_literals_inputs_and_captured_tensors(x, y):
    module = stator.make_fx(lambda a: (a, 3, None, "s", y))(x)
    result = module(x)
    assert result[0] is x
    assert result[1:4] == (3, None, "s")
    assert result[4] is y
    assert [n.target for n in module.graph.nodes if n.op == "get_attr"] == ["_tensor_constant0"]


def test_one_tensor_twice(x, y):
    module = stator.make_fx(lambda a, b: a + b)(x, x)
    assert str(node(module, "add").args) == "(b_1, b_1)"


def test_no_tensor_at_all():
    module = stator.make_fx(lambda a: torch.ones(2) * a)(3)
    assert torch.equal(module(3), torch.full((2,), 3.0))


def test_wrapper_for_keyword_calls(x, y):
    from stator.tracing import wrapper_and_args_for_make_fx

    wrapped, flat = wrapper_and_args_for_make_fx(lambda a, *, k: a + k, (x,), {"k": y})
    assert len(flat) == 2
    module = stator.make_fx(wrapped)(flat)
    assert placeholders(module) == ["flat_args_1", "flat_args_2"]
    assert torch.equal(module([y, y]), y + y)


@pytest.mark.parametrize("mode", MODES)
def test_reuse_with_other_shapes(mode):
    traced = stator.make_fx(lambda a: a.sum(0), tracing_mode=mode)
    for shape in ((3, 4), (5, 6), (2,)):
        x = torch.randn(shape)
        assert torch.equal(traced(x)(x), x.sum(0))


def test_values_of_nodes(x):
    module = stator.make_fx(lambda a: a.t().contiguous(), tracing_mode="fake")(x)
    value = node(module, "clone" if "clone" in module.code else "t").meta["val"]
    assert tuple(value.shape) == (4, 3)
    assert node(module, "t").meta["val"].stride() == (1, 4)
    assert node(module, "t").meta["tensor_meta"].stride == (1, 4)
