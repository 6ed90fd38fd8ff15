"""Strides of inputs that are no products of sizes: symbols after a change, and from the start with `dynamic=True`."""

from __future__ import annotations

import pytest
import torch
from torch import nn

import stator
from tests.python.helpers import assert_same, captures
from tests.python.parity.test_symbolic_sizes import outcome

F = nn.functional
LENGTHS = [5, 3, 7, 2, 12, 9, 3, 1, 0, 64]


def made(*sizes):
    return torch.arange(int(torch.Size(sizes).numel()), dtype=torch.float32).sin().reshape(sizes)


# How an input of n rows or columns lies in a larger buffer.
LAYOUTS = {
    "columns": lambda n: made(5, n + 2)[:, :n],
    "rows and columns": lambda n: made(n, n + 3)[:, :n],
    "constant sizes": lambda n: made(5, n + 6)[:, :6],
    "every second": lambda n: made(5, 2 * n)[:, ::2],
    "every n-th": lambda n: made(5, 60)[:, :: max(n, 1)],
    "transposed": lambda n: made(n + 2, 5)[:n].t(),
    "transposed columns": lambda n: made(5, n + 2)[:, :n].t(),
    "planes": lambda n: made(3, n + 1, 7)[:, :n, :4].reshape(3, n, 4) if n == 0 else made(3, n + 1, 7)[:, :n, 0],
    "overlapping": lambda n: made(200).as_strided((4, 5), (n, 1)),
    "expanded": lambda n: made(5, 1).expand(5, n),
    "sometimes dense": lambda n: made(5, n)[:, : 2 * (n // 2)],
}
LINES = """
x + 1, x * x, x.sin(), -x, x > 0, x + x.clone(), torch.add(x, x, alpha=2)
x.sum(), x.sum(0), x.mean(1), x.softmax(-1), x.cumsum(0)
x.contiguous(), x.clone(), x.reshape(-1), x.flatten(), x.t().contiguous()
x.is_contiguous(), x.t().is_contiguous(), x.contiguous().is_contiguous()
x[1:], x[:, 1:], x[:, ::2], x.t(), x.unsqueeze(0), x[None, :, None], x.expand(2, -1, -1)
x @ x.t(), x.t() @ x, torch.cat([x, x]), torch.stack([x, x]), torch.where(x > 0, x, 0.0)
torch.empty_like(x).zero_(), torch.ones_like(x), x.new_zeros(x.shape), x.to(torch.float64), x.half()
x.flip(0), x.roll(1, 0), F.pad(x, (1, 1)), x.tril(), x.masked_fill(x > 0, 0.0), x.sort(0)[0], x.unfold(0, 2, 1)
x.as_strided((2, 2), (1, 1)), x.diagonal(), x.view(5, -1, 1)
""".strip().splitlines()


def program(line):
    space = {"torch": torch, "F": F}
    exec(f"def fn(x):\n    return {line}\n", space)
    return space["fn"]


@pytest.mark.parametrize("dynamic", [None, True])
@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("line", LINES)
def test_results_and_their_strides(line, layout, dynamic):
    fn = program(line)
    compiled = stator.compile(fn, dynamic=dynamic)
    for n in LENGTHS:
        actual, expected = outcome(compiled, LAYOUTS[layout](n)), outcome(fn, LAYOUTS[layout](n))
        assert_same(actual, expected, f"{n}")
        for a, b in zip(actual, expected, strict=True):
            if isinstance(a, torch.Tensor) and isinstance(b, torch.Tensor):
                assert a.stride() == b.stride(), f"{n}"


@pytest.mark.parametrize("line", LINES)
def test_a_layout_that_changes_with_the_same_sizes(line):
    fn = program(line)
    compiled = stator.compile(fn)
    inputs = [
        lambda: made(5, 8)[:, :6],
        lambda: made(5, 6),
        lambda: made(5, 9)[:, :6],
        lambda: made(6, 5).t(),
        lambda: made(6, 11)[:, :5].t(),
        lambda: made(5, 12)[:, ::2],
        lambda: made(5, 18)[:, ::3],
        lambda: made(1, 6).expand(5, 6),
        lambda: made(5, 1).expand(5, 6),
        lambda: made(60).as_strided((5, 6), (2, 3)),
        lambda: made(60).as_strided((5, 6), (3, 2)),
        lambda: made(60).as_strided((5, 6), (3, 3)),
        lambda: made(5, 7)[:, :6],
    ]
    for i, make in enumerate(inputs):
        assert_same(outcome(compiled, make()), outcome(fn, make()), f"{i}")


@pytest.mark.parametrize("layout", ["columns", "rows and columns", "constant sizes", "every second", "transposed"])
@pytest.mark.parametrize("line", [*LINES[:2], "x.contiguous(), x.reshape(-1), x @ x.t(), x[1:]"])
def test_two_captures(line, layout):
    fn = program(line)
    compiled = stator.compile(fn)
    for n in [5, 3, 7, 2, 12, 9, 3]:
        assert_same(compiled(LAYOUTS[layout](n)), fn(LAYOUTS[layout](n)), f"{n}")
    assert captures() <= (3 if layout == "every second" else 2)


@pytest.mark.parametrize("layout", ["columns", "rows and columns", "constant sizes", "transposed"])
def test_one_capture_if_all_sizes_are_symbols(layout):
    def fn(x):
        return x * 2 + 1, x.sum(0)

    compiled = stator.compile(fn, dynamic=True)
    for n in [5, 3, 7, 2, 12]:
        assert_same(compiled(LAYOUTS[layout](n)), fn(LAYOUTS[layout](n)), f"{n}")
    assert captures() == 1


@pytest.mark.parametrize("layout", LAYOUTS)
def test_gradients(layout):
    def fn(x):
        return (x * x.sum(0)).reshape(-1).exp()

    compiled = stator.compile(fn)
    for n in LENGTHS:
        a, b = LAYOUTS[layout](n).detach().requires_grad_(), LAYOUTS[layout](n).detach().requires_grad_()
        assert_same(compiled(a), fn(b))
        compiled(a).sum().backward()
        fn(b).sum().backward()
        assert_same(a.grad, b.grad, f"{n}")


def test_writes():
    def fn(x):
        x.mul_(2)
        x[1:].add_(1)
        return x.t_()

    compiled = stator.compile(fn)
    for n in LENGTHS:
        a, b = LAYOUTS["columns"](n), LAYOUTS["columns"](n)
        assert_same(compiled(a), fn(b), f"{n}")
        assert_same(a, b)
        assert a.stride() == b.stride()


def test_strides_are_numbers_of_the_program():
    def fn(x):
        return x * x.stride(0), x.stride(), x.as_strided((2,), (x.stride(0),)), "wide" if x.stride(0) > 8 else "narrow"

    compiled = stator.compile(fn)
    for n in [7, 9, 12, 10, 8, 6, 1, 20]:
        x = made(5, n + 6)[:, :6]
        assert_same(compiled(x), fn(x), f"{n}")
    assert captures() == 3  # narrow and wide


def test_the_stride_is_named():
    def fn(x):
        return x + 1

    compiled = stator.compile(fn)
    for n in [7, 9, 12]:
        compiled(made(5, n)[:, :6])
    last = stator.cache_entries(fn)[0]
    assert "x.stride(0)" in "".join(last["guards"])


def test_a_value_of_a_stride_that_is_needed():
    def fn(x):
        return [x + i for i in range(x.stride(0) - 6)]

    compiled = stator.compile(fn)
    for n in [7, 9, 8, 7, 9]:
        assert_same(compiled(made(5, n)[:, :6]), fn(made(5, n)[:, :6]), f"{n}")


def test_python_backends_get_constants():
    def fn(x):
        return x * 2 + x.sum(0)

    compiled = stator.compile(fn, backend="eager")
    for n in LENGTHS:
        x = LAYOUTS["rows and columns"](n)
        assert_same(compiled(x), fn(x), f"{n}")
