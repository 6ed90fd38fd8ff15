"""Operators that raise depending on their data, after or during writes: the program observes the same as plain."""

from __future__ import annotations

import traceback

import pytest
import torch

import stator
from tests.python.helpers import assert_same, captures

LARGE = 200_000  # elements: more than the undo log copies


def check(fn, make, calls=3):
    """The error is raised at the program's line, and every side effect before it happens once."""
    compiled = stator.compile(fn)
    for index in range(calls):
        mine, theirs = make(index), make(index)
        outcomes = []
        for runner, args in ((compiled, mine), (fn, theirs)):
            try:
                outcomes.append(("gave", runner(*args)))
            except (IndexError, RuntimeError) as error:
                lines = [frame.line for frame in traceback.extract_tb(error.__traceback__) if frame.name == fn.__name__]
                outcomes.append(("raised", type(error).__name__, str(error), lines))
        assert_same(outcomes[0], outcomes[1], f"call {index}")
        assert_same(list(mine), list(theirs), f"call {index}: arguments")
    assert captures() > 0


def index_of(call, bad):
    return torch.tensor([0, 9 if call == bad else 1])


@pytest.mark.parametrize("size", [10, LARGE], ids=["small", "large"])
@pytest.mark.parametrize("bad", [0, 1, 2])
def test_a_write_and_then_an_index(size, bad):
    def fn(buffer, table, index):
        buffer.add_(1)
        rows = table[index]
        buffer.mul_(2)
        return rows * 2

    check(fn, lambda i: (torch.ones(size), torch.arange(6.0).reshape(3, 2), index_of(i, bad)))


@pytest.mark.parametrize("size", [10, LARGE], ids=["small", "large"])
@pytest.mark.parametrize("bad", [0, 1, 2])
def test_the_programs_own_handler(size, bad):
    def fn(buffer, table, index):
        buffer.add_(1)
        try:
            rows = torch.nn.functional.embedding(index, table)
        except IndexError:
            rows = buffer[:2] * 3
        buffer.mul_(2)
        return rows * 2

    check(fn, lambda i: (torch.ones(size), torch.arange(6.0).reshape(3, 2), index_of(i, bad)))


@pytest.mark.parametrize("size", [10, LARGE], ids=["small", "large"])
@pytest.mark.parametrize("bad", [0, 1, 2])
def test_a_write_that_fails_partway(size, bad):
    def fn(buffer, index):
        a = index * 2
        buffer.index_add_(0, index, torch.ones(2, 2))
        return a + 1

    check(fn, lambda i: (torch.ones(size // 2, 2), torch.tensor([0, size if i == bad else 1])))


@pytest.mark.parametrize("bad", [0, 1, 2])
def test_a_write_to_what_has_a_gradient(bad):
    def fn(weight, table, index):
        with torch.no_grad():
            weight.add_(1)
        rows = table[index]
        return rows * weight.detach()

    check(
        fn,
        lambda i: (torch.ones(2, requires_grad=True), torch.arange(6.0).reshape(3, 2), index_of(i, bad)),
    )


def test_what_cannot_raise_stays_in_one_graph():
    def fn(buffer, a):
        buffer.add_(1)
        return (a @ a).relu() / 2 + buffer.sum()

    check(fn, lambda i: (torch.ones(LARGE), torch.eye(3)))
    assert captures() == 1


def test_integer_division_by_zero():
    def fn(buffer, a, b):
        buffer.add_(1)
        return a // b

    check(fn, lambda i: (torch.ones(LARGE), torch.arange(3), torch.tensor([1, 2, 0 if i == 2 else 1])))


def overlapping(a):
    rows = a.as_strided((3, 3), (1, 1))
    return rows.mul_(2)


@pytest.mark.parametrize(
    "refused",
    [
        lambda a: a - True,
        lambda a: -(a > 0),
        lambda a: torch.add(a, 1, alpha=True),
        lambda a: torch.add(a.int(), 1, alpha=2.5),
        lambda a: torch.frac(a.int()),
        lambda a: torch.gcd(a, a),
        lambda a: a.bool() @ a.bool(),
        overlapping,
    ],
)
@pytest.mark.parametrize("sides", [3, 300], ids=["small", "large"])
def test_what_only_a_kernel_refuses(refused, sides):
    def fn(buffer, a):
        buffer.add_(1)
        try:
            out = refused(a)
        except (RuntimeError, NotImplementedError) as error:
            out = str(error)
        buffer.mul_(2)
        return out

    check(fn, lambda i: (torch.ones(LARGE), torch.ones(sides, sides)))


@pytest.mark.parametrize(
    "later",
    [
        lambda kept: kept.clamp(0, 3) + 1,
        lambda kept: kept.sum(0, keepdim=True),
        lambda kept: torch.add(kept, kept, alpha=2),
        lambda kept: torch.cat([kept, kept]).view(-1, 1),
        lambda kept: torch.zeros(5)[: kept.shape[0]] + kept.new_ones(kept.shape[0]),
        lambda kept: kept[0],
        lambda kept: kept.view(2, -1),
        lambda kept: torch.ones(3) + kept,
        lambda kept: kept.max(),
    ],
)
def test_sizes_that_depend_on_data_before_a_write(later):
    def fn(buffer, a):
        kept = a[a > 0]
        buffer.add_(1)
        try:
            out = later(kept)
        except (IndexError, RuntimeError) as error:
            out = str(error)
        buffer.mul_(2)
        return out

    check(fn, lambda i: (torch.ones(LARGE), torch.tensor([2.0 - i, -2.0, 1.0 - i])), calls=4)


class TestViewsOfTensorsThatAreNotSeen:
    """The grad_fn of a view after a write depends on its base."""

    @staticmethod
    def call(index, views):
        base = torch.arange(6.0)
        return (torch.ones(3, requires_grad=True), base[::2] if index in views else base[:3].clone())

    @pytest.mark.parametrize("views", [(), (0, 1, 2, 3), (2,), (0,)])
    def test_a_write_that_autograd_follows(self, views):
        def fn(x, y):
            y[1:] = x.sum()
            y *= 2
            return y + 1

        check(fn, lambda i: self.call(i, views), calls=4)

    @pytest.mark.parametrize("views", [(0, 1, 2, 3), (2,)])
    def test_the_programs_own_handler(self, views):
        def fn(x, y):
            out = x * 2
            y[1:] = x.sum()
            try:
                y.add_(out)
            except RuntimeError as error:
                return str(error)
            return y.requires_grad, out

        check(fn, lambda i: self.call(i, views), calls=4)

    def test_a_write_that_nothing_follows_stays_in_one_graph(self):
        def fn(x, y):
            y[1:] = 2
            y *= 2
            return y + 1

        check(fn, lambda i: (torch.ones(3), torch.arange(6.0)[::2]))
        assert captures() == 1


@pytest.mark.parametrize("first", [False, True], ids=["apart first", "shared first"])
def test_checks_done_early_see_no_memory_that_is_written_before(first):
    """A number is read before an unrecoverable write, unless a call passes both in the same memory."""

    def fn(large, one):
        large.add_(1)
        return large * 0 + 1 / one.item()

    def arguments(shared):
        large = torch.ones(300_000)
        return large, large[0] if shared else torch.tensor(1.0)

    compiled = stator.compile(fn)
    for shared in (first, not first, True, False):
        assert_same(compiled(*arguments(shared)), fn(*arguments(shared)))
