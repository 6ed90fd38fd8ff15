"""Control flow operators on tensors of symbolic size: one graph for many sizes, and never a wrong shape."""

from __future__ import annotations

import pytest
import torch
from torch._higher_order_ops.map import map as map_rows
from torch._higher_order_ops.scan import scan
from torch._higher_order_ops.while_loop import while_loop

import stator
from tests.python.helpers import assert_same, captures

LENGTHS = [5, 3, 7, 2, 12, 9, 3]


@pytest.fixture(autouse=True)
def fresh_torch_compile():
    # Torch compiles plain `torch.cond` for each function, and gives up after a limit.
    yield
    torch._dynamo.reset()


def chosen(x):
    return torch.cond(x.sum() > 0, lambda t: t.sin(), lambda t: t.cos() + 1, (x,))


def chosen_by_size(x):
    return torch.cond(x.shape[0] > 4, lambda t: t * t.shape[0], lambda t: t - 1, (x,))


def sizes_in_branches(x):
    return torch.cond(
        x.sum() > 0,
        lambda t: t * t.shape[0],
        lambda t: t.reshape(-1)[: t.shape[0]].reshape(-1, 1) * t,
        (x,),
    )


def sizes_from_outside(x):
    n = x.shape[0]
    m = n * 2 + 1
    return torch.cond(x.sum() > 0, lambda t: t * n + torch.arange(n)[:, None], lambda t: t - m, (x,))


def other_size(x):
    return torch.cond(x.sum() > 0, lambda t: t[1:].sin(), lambda t: t[:-1] * 2, (x,))


def looped(x):
    return while_loop(lambda i, t: i < 4, lambda i, t: (i + 1, t * 0.5 + t.shape[0]), (torch.tensor(0), x))


def mapped(x):
    return map_rows(lambda row: row * 2 + row.shape[0], x)


def mapped_pairs(x):
    return map_rows(lambda rows: (rows[0] + rows[1], rows[0].sum()), (x, x * 2))


def scanned(x):
    return scan(lambda carry, row: (carry + row, carry * row), torch.zeros(x.shape[1]), x)


PROGRAMS = [chosen, chosen_by_size, sizes_in_branches, sizes_from_outside, other_size, looped, mapped, scanned]


def inputs():
    for i, n in enumerate(LENGTHS):
        yield torch.linspace(-1, 1, n * 4).reshape(n, 4) + (0.25 if i % 2 else -0.25)


@pytest.mark.parametrize("fn", [*PROGRAMS, mapped_pairs], ids=lambda fn: fn.__name__)
@pytest.mark.parametrize("dynamic", [None, True])
def test_one_graph_for_many_sizes(fn, dynamic):
    compiled = stator.compile(fn, dynamic=dynamic, fullgraph=True)
    for x in inputs():
        assert_same(compiled(x), fn(x), f"{tuple(x.shape)}")
    by_size = fn is chosen_by_size  # one more for the other branch
    assert captures() <= (2 if dynamic is None else 1) + by_size


@pytest.mark.parametrize("fn", [chosen, sizes_in_branches, sizes_from_outside, other_size], ids=lambda fn: fn.__name__)
def test_gradients(fn):
    compiled = stator.compile(fn)
    for x in inputs():
        got, wanted = x.clone().requires_grad_(), x.clone().requires_grad_()
        compiled(got).sum().backward()
        fn(wanted).sum().backward()
        assert_same(got.grad, wanted.grad, f"{tuple(x.shape)}")
    assert captures() <= 2


@pytest.mark.parametrize("fn", PROGRAMS, ids=lambda fn: fn.__name__)
def test_python_backends(fn):
    compiled = stator.compile(fn, backend=lambda gm, example_inputs: torch.fx.Interpreter(gm).run)
    for x in inputs():
        assert_same(compiled(x), fn(x), f"{tuple(x.shape)}")
    assert captures() <= 3


@pytest.mark.parametrize("lengths", [[3, 1, 0, 4, 1], [1, 0, 2, 5]])
@pytest.mark.parametrize("fn", [chosen, other_size, mapped], ids=lambda fn: fn.__name__)
def test_sizes_zero_and_one(fn, lengths):
    compiled = stator.compile(fn)
    for n in lengths:
        x = torch.linspace(-1, 1, n * 4).reshape(n, 4)
        assert_same(outcome(compiled, x), outcome(fn, x), f"{n}")


def outcome(fn, *args):
    try:
        return fn(*args)
    except (IndexError, RuntimeError, ValueError) as error:
        return type(error)


def test_branches_of_different_sizes_are_left_to_torch():
    def fn(x):
        return torch.cond(x.sum() > 0, lambda t: t[1:], lambda t: t[:2], (x,))

    compiled = stator.compile(fn)
    for x in inputs():
        assert_same(outcome(compiled, x), outcome(fn, x), f"{tuple(x.shape)}")
