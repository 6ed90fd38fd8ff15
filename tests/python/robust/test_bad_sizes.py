"""Sizes and ints that do not fit what a capture found: the error of the plain program, or a new capture."""

from __future__ import annotations

import pytest
import torch
from torch import nn

import stator
from tests.python.helpers import assert_same

BACKENDS = [None, lambda gm, example_inputs: torch.fx.Interpreter(gm).run]


def outcome(fn, *args):
    try:
        return fn(*args)
    except Exception as error:  # noqa: BLE001
        return type(error)


def check(fn, calls, backend):
    compiled = stator.compile(fn, backend=backend)
    for make in calls:
        assert_same(outcome(compiled, *make()), outcome(fn, *make()), f"{make()[1:]}")
    return compiled


def tensors(n):
    return torch.linspace(-1, 1, n * 4).reshape(n, 4)


@pytest.fixture(params=BACKENDS, ids=["native", "python"])
def backend(request):
    return request.param


def test_negative_sizes(backend):
    def fn(x, n):
        return torch.zeros(n - 4), x[: n - 4], x.new_ones(n - 5, 2)

    check(fn, [lambda n=n: (tensors(3), n) for n in (7, 8, 6, 5, 4, 3, -1, 9)], backend)


def test_sizes_computed_from_sizes_that_become_negative(backend):
    def fn(x):
        return x.new_zeros(x.shape[0] - 3), x.sum()

    check(fn, [lambda n=n: (tensors(n),) for n in (7, 8, 6, 4, 3, 2, 1, 0, 9)], backend)


def test_numbers_of_more_than_64_bits(backend):
    def fn(x, n):
        return x + 1, n * n, n * n * n + 1, x * (n % 7)

    values = (3, 4, 2**31, 2**32, 2**40, -(2**40), 2**62, 2**63 - 1, 2**64, 5)
    check(fn, [lambda n=n: (tensors(2), n) for n in values], backend)


def test_sizes_of_more_than_64_bits(backend):
    def fn(x, n):
        return x[:1, :1].expand(n * n, n * n).shape, x + 1

    check(fn, [lambda n=n: (tensors(2), n) for n in (3, 4, 5, 2**16, 2**31, 2**32, 2**40, 6)], backend)


def test_results_of_more_than_64_bits_that_follow_from_sizes(backend):
    def fn(x, log):
        x.add_(1)
        log.append(x.shape[0])
        return x * 2, x.shape[0] * 2**60, x.shape[0] ** 40

    compiled = stator.compile(fn, backend=backend)
    for n in (2, 3, 9, 4, 7, 12):
        mine, theirs, logs = tensors(n), tensors(n), ([], [])
        assert_same(outcome(compiled, mine, logs[0]), outcome(fn, theirs, logs[1]), f"{n}")
        assert_same(mine, theirs, f"{n}")
        assert logs[0] == logs[1]


@pytest.mark.parametrize("limit", ["nan", "inf", "-inf"])
@pytest.mark.parametrize("backend", [*BACKENDS, "aot_eager"], ids=["native", "python", "aot_eager"])
def test_sizes_compared_with_floats_that_are_not_finite(backend, limit):
    def fn(x):
        n, b = x.shape[0], float(limit)
        return x + 1, n < b, n <= b, n > b, n >= b, n == b, n != b, b < n

    compiled = stator.compile(fn, backend=backend)
    for n in (5, 3, 7, 2):
        assert_same(compiled(tensors(n)), fn(tensors(n)), f"{n}")


def test_division_by_zero(backend):
    def fn(x, n):
        return x.sum() + x.shape[0] // n, x.shape[0] % n, 1 / n

    check(fn, [lambda n=n: (tensors(3), n) for n in (2, 3, 4, 0, 5, -2, 0)], backend)


def test_division_by_a_size_that_becomes_zero(backend):
    def fn(x):
        return x + 7 // (x.shape[0] - 3)

    check(fn, [lambda n=n: (tensors(n),) for n in (5, 6, 7, 3, 4, 2, 3)], backend)


def test_sources_that_vanish(backend):
    class Scaled(nn.Module):
        def __init__(self):
            super().__init__()
            self.scale, self.table, self.rows = 3, {"k": 4}, [5, 6]

        def forward(self, x):
            return x * self.scale + self.table["k"] * self.rows[1]

    def change(module, step):
        if step in (1, 2, 5, 8, 11):
            module.scale, module.table["k"], module.rows = step + 3, step, [1, step]
        elif step == 3:
            del module.scale
        elif step == 6:
            del module.table["k"]
        elif step == 9:
            module.rows.pop()

    plain, counted = Scaled(), Scaled()
    compiled = stator.compile(counted, backend=backend)
    for step in range(12):
        change(plain, step)
        change(counted, step)
        assert_same(outcome(compiled, tensors(2)), outcome(plain, tensors(2)), f"step {step}")


def test_a_tensor_that_is_none_or_has_other_dimensions(backend):
    def fn(x):
        return (x * x.shape[0]).sum(0)

    calls = [tensors(3), tensors(4), None, torch.ones(5), tensors(6), 7, torch.tensor(1.0), tensors(2)]
    check(fn, [lambda value=value: (value,) for value in calls], backend)


def test_a_size_outside_of_the_stated_range():
    def fn(x):
        return x * x.shape[0]

    compiled = stator.compile(fn)
    for n in (4, 6):
        x = tensors(n)
        stator.mark_dynamic(x, 0, min=3, max=8)
        assert_same(compiled(x), fn(x))
    x = tensors(9)
    stator.mark_dynamic(x, 0, min=3, max=8)
    with pytest.raises(stator.ConstraintViolation, match=r"is 9, but mark_dynamic states min=3, max=8"):
        compiled(x)
    assert_same(compiled(tensors(12)), fn(tensors(12)))
