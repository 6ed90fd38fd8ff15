"""Arithmetic on sizes."""

import operator

import pytest
import torch

import stator
from tests.python.make_fx.helpers import calls, node


@pytest.fixture
def x():
    torch.manual_seed(0)
    return torch.randn(3, 4)


def traced(program, *args):
    return stator.make_fx(program, tracing_mode="symbolic")(*args)


OTHER = (torch.zeros(7, 5), torch.zeros(2, 9))

NUMBERS = {
    "truediv": lambda p, q: p / 2,
    "floordiv": lambda p, q: (p * q) // q + p // 2,
    "mod": lambda p, q: p % 3 + 5,
    "power": lambda p, q: p**2 + 1,
    "cube": lambda p, q: p**3,
    "product of three": lambda p, q: p * q * p,
    "negative": lambda p, q: -p,
    "truth": lambda p, q: p > q,
    "sum": lambda p, q: torch.sym_sum([p, q, p]),
    "max": lambda p, q: torch.sym_max(p, q),
    "min": lambda p, q: torch.sym_min(p, q),
    "nested max": lambda p, q: torch.sym_max(torch.sym_max(p, q), p + 1),
    "choice": lambda p, q: torch.sym_ite(p > q, p, q),
    "not": lambda p, q: torch.sym_not(p > q),
    "float": lambda p, q: torch.sym_float(p) * 2.5,
    "root": lambda p, q: torch.sym_sqrt(p),
}


@pytest.mark.parametrize("name", NUMBERS)
def test_numbers_of_sizes(x, name):
    def program(a):
        return NUMBERS[name](*a.shape)

    module = traced(program, x)
    for given in (x, *OTHER):
        assert module(given) == program(given)


def test_what_is_not_used_leaves_no_node(x):
    def program(a):
        n = a.shape[0] + 1
        n * 2
        return a.sin()

    assert calls(traced(program, x)) == ["sin.default"]


def test_times_one_is_the_number_itself(x):
    module = traced(lambda a: a.new_empty(a.shape[0] * 1), x)
    assert calls(module) == ["sym_size.int", "new_empty.default"]


def test_a_size_is_read_once(x):
    module = traced(lambda a: (a.new_zeros(a.shape[0] + 1), a.new_ones(a.shape[0] + 1)), x)
    assert calls(module).count("sym_size.int") == 1 and calls(module).count("add") == 1


def test_a_size_of_a_computed_tensor(x):
    module = traced(lambda a, b: a.new_zeros(torch.cat([a, b, a]).shape[0]), x, x.clone())
    assert module(torch.zeros(7, 4), torch.zeros(2, 4)).shape == (16,)


def test_strides_and_offsets(x):
    module = traced(lambda a: torch.as_strided(a, a.shape, a.stride(), a.storage_offset()), x)
    as_strided = node(module, "as_strided")
    assert as_strided.args[2][1] == 1 and as_strided.args[3] == 0
    other = torch.randn(5, 2)
    assert torch.equal(module(other), other)


def test_an_integer_is_specialised_where_python_needs_one(x):
    module = traced(lambda a: a * int(a.shape[0]), x)
    assert node(module, "mul").args[1] == 3
    assert node(module, "a_1").meta["val"].shape[0] == 3


def test_long_chains(x):
    def program(a):
        n, m = a.shape
        for _ in range(3000):
            n = n + 1
        for _ in range(300):
            m = m * 2 % 7 + 1
        return a.new_zeros(n), m

    module = traced(program, x)
    for given in (x, *OTHER):
        assert module(given)[0].shape == program(given)[0].shape
        assert module(given)[1] == program(given)[1]


def test_integers_among_the_arguments(x):
    module = traced(lambda a, n: a.new_zeros(a.shape[0] * n + 1), x, 5)
    assert isinstance(node(module, "n_1").meta["val"], torch.SymInt)
    assert module(torch.zeros(2, 2), 7).shape == (15,)
    for literal in (True, 2.5, 0, 1):
        module = traced(lambda a, n: a + n, x, literal)
        assert node(module, "add").args[1] == literal


def test_equal_sizes_share_a_symbol():
    square = torch.ones(3, 3)
    module = traced(lambda a, b: (a + b, a.new_zeros(a.shape[0] + b.shape[1])), square, square)
    (size,) = {size.node.expr for name in ("a_1", "b_1") for size in node(module, name).meta["val"].shape}
    assert node(module, "new_zeros").meta["val"].shape[0].node.expr == 2 * size
    assert not module.shape_env.guards
    other = torch.ones(5, 5)
    assert module(other, other)[1].shape == (10,)


def test_functions_of_symbolic_numbers_by_hand(x):
    dispatch = stator.tracing.handle_sym_dispatch
    module = traced(lambda a: a.new_zeros(dispatch(operator.add, (a.shape[0], 1), {})), x)
    assert calls(module) == ["sym_size.int", "add", "new_zeros.default"]
    assert module(OTHER[0]).shape == (8,)
    with pytest.raises(AssertionError, match="needs a trace"):
        dispatch(operator.add, (1, 2), {})
    with pytest.raises(AssertionError, match="no keyword arguments"):
        traced(lambda a: dispatch(operator.add, (a.shape[0],), {"b": 1}), x)


def test_symbolic_traces_nest(x):
    def program(a):
        inner = stator.make_fx(lambda t: t.new_zeros(t.shape[0] * 2), tracing_mode="symbolic")(a)
        return inner(a) + 1

    module = traced(program, x)
    assert module(torch.zeros(6, 2)).shape == (12,)


def test_reading_an_item_and_using_it(x):
    def program(a):
        n = a.abs().sum().to(torch.int64).item()
        torch._check(n >= 0)
        return a * n

    module = traced(program, x)
    assert torch.equal(module(x * 5), program(x * 5))
    assert operator.mul in [n.target for n in module.graph.nodes] or "mul.Tensor" in calls(module)


def test_a_branch_on_data_is_an_error(x):
    with pytest.raises(RuntimeError, match="depends on data"):
        traced(lambda a: a.sin() if a.nonzero().shape[0] > 3 else a, x)
