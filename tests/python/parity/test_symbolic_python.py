"""Python code on sizes and changing ints that stays symbolic: bits, texts, products, strides; at most two captures."""

from __future__ import annotations

import ast
import math

import pytest
import torch

import stator
from tests.python.helpers import assert_same, captures
from tests.python.parity.test_symbolic_sizes import made, outcome

LENGTHS = [5, 3, 7, 2, 12, 9, 3]
HOSTILE = [5, 3, 1, 0, 7, 2, 1, 64]

LINES = """
x * (n & 3), x * (n << 1), x * (n >> 1), x * (n | 1), x * (n ^ 3), x * ~n, 2 ** n, n & -n, 1 << n
"%d rows" % n, "%s" % n, "%5.2f|%-4d|%x" % (n, n, n), "%s of %s" % ("a", n), "%%%d" % n
"{}".format(n), "{0}-{0}".format(n), "{:>5}|{!r}".format(n, n), "{} {}".format("a", n), "{{{}}}".format(n)
str(x.shape), repr(x.shape), f"{x.shape}", str((n, 1)), f"{[n, 2]}", repr([n, n + 1]), f"{x.size()!r}"
x.stride(), x.t().stride(), x.stride(0), x.t().stride(1), x.reshape(3, -1).t().contiguous().stride()
x.shape.numel(), math.prod(x.shape), math.prod([n, 2, n]), x * math.prod((n, 3))
torch.broadcast_shapes(x.shape, (1, 6)), torch.broadcast_shapes((n, 1), (4, 1, 6), 6)
x.new_tensor([n, 2]), torch.tensor([n]), torch.tensor([[n, 1], [2, n]]), torch.tensor(n)
x * sum([n]), x * sum([n, 1, n]), x[: n & 3], x[n >> 1 :]
""".strip().splitlines()


def program(line, argument=False):
    space = {"torch": torch, "math": math}
    head = "def fn(x, n):\n" if argument else "def fn(x):\n    n = x.size(0)\n"
    exec(f"{head}    return x + 1, {line}", space)
    return space["fn"]


@pytest.mark.parametrize("line", LINES)
def test_two_captures(line):
    fn = program(line)
    compiled = stator.compile(fn)
    for n in LENGTHS:
        assert_same(outcome(compiled, made(n)), outcome(fn, made(n)), f"length {n}")
    assert captures() <= 2


@pytest.mark.parametrize("line", LINES)
def test_hostile_sizes(line):
    fn = program(line)
    compiled = stator.compile(fn)
    for n in HOSTILE:
        assert_same(outcome(compiled, made(n)), outcome(fn, made(n)), f"length {n}")


INTS = [5, 3, 1, 0, -1, -7, 63, 64, 2**31, 2**62, 2**63 - 1, 2**63, -(2**63), 10**30, True, 3]
INT_LINES = [line for line in LINES if "x.s" not in line and "shape" not in line and "x.new" not in line]


@pytest.mark.parametrize(
    "line", [line for line in INT_LINES if "1 << n" not in line] + ["n << 3, n >> 70, n & 1", "x[:3] * (n | 1)"]
)
def test_hostile_ints(line):
    fn = program(line, argument=True)
    compiled = stator.compile(fn)
    x = made(4)
    for n in INTS:
        assert_same(outcome(compiled, x, n), outcome(fn, x, n), f"{n}")


def test_shifts_of_ints():
    fn = program("1 << n, 5 << n, n << n, 1 >> n", argument=True)
    compiled = stator.compile(fn)
    for n in [3, 4, 2, 0, -1, 61, 62, 63, 64, 100, 3]:
        assert_same(outcome(compiled, made(4), n), outcome(fn, made(4), n), f"{n}")


def test_a_list_that_changes_after_its_text():
    def fn(x):
        sizes = [x.size(0), 2]
        text = str(sizes)
        sizes.append(3)
        return x * 2, text, sizes

    compiled = stator.compile(fn)
    for n in LENGTHS:
        assert_same(compiled(made(n)), fn(made(n)))
    assert captures() == 2


def test_texts_that_need_the_number_are_specialised_on():
    fn = program('"%c" % (n + 60), "{:c}".format(n + 60), "%*d" % (n, 3)')
    compiled = stator.compile(fn)
    for n in LENGTHS:
        assert_same(compiled(made(n)), fn(made(n)))


def test_strides_that_are_not_known_of_every_size():
    def fn(x):
        return x[:-2].contiguous().stride(), x[:-2].stride(), (x[:-2] + 1).t().contiguous().stride()

    compiled = stator.compile(fn)
    for n in [5, 4, 3, 2, 6, 3]:
        assert_same(compiled(made(n)), fn(made(n)), f"{n}")


def test_sizes_are_ints_to_the_program():
    def fn(x):
        n = x.size(0)
        kinds = type(n), type(n * 0.5), type(n > 3), isinstance(n, (torch.SymInt, torch.SymBool))
        return x * n, kinds, isinstance(n, int), isinstance(x.shape, tuple), callable(n), n == n + 0

    compiled = stator.compile(fn)
    for n in LENGTHS:
        assert_same(compiled(made(n)), fn(made(n)))
    assert captures() == 2


# torch.Size is a subclass of tuple with sums and products of its own. What raises is left to the plain program.
SIZES = """
x.shape + (1,), (1,) + x.shape, x.shape + x.shape, x.shape + (), () + x.shape, x.shape * 2, 2 * x.shape, x.shape * 0
x.shape[1:] + (n,), (n,) + x.shape[1:], (2 * n,) + torch.ones(2).shape, torch.Size([n]) + (2,), (n,) + torch.Size([3])
(x.shape + (1,)).numel(), sum([x.shape, (1,)], ()), isinstance(x.shape + (1,), torch.Size), (n,) + (1,), (n,) * 2
x.shape + (True,), x.shape + (1.5,), (None,) + x.shape, x.shape + ("a",), x.shape + [1], x.shape * 1.5
x.shape + (1,) == (n, 6, 1), len(x.shape + x.shape), x.expand(x.shape[:0] + (2,) + x.shape)
""".strip().splitlines()


@pytest.mark.parametrize("expression", [ast.unparse(e) for e in ast.parse(f"[{','.join(SIZES)}]").body[0].value.elts])
def test_sums_and_products_of_sizes(expression):
    fn = program(expression)
    compiled = stator.compile(fn)
    for n in LENGTHS:
        actual, expected = outcome(compiled, made(n)), outcome(fn, made(n))
        assert_same(actual, expected, f"length {n}")
        assert repr(actual[1]) == repr(expected[1]), f"length {n}"
