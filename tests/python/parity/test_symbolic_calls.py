"""Calls of pure C functions on sizes and on ints that vary, of which the result only leaves the program."""

from __future__ import annotations

import math
import operator

import pytest
import torch

import stator
from tests.python.helpers import assert_same, captures
from tests.python.parity.test_symbolic_python import HOSTILE, INTS, LENGTHS, program
from tests.python.parity.test_symbolic_sizes import made, outcome

LINES = """
math.gcd(n, 4), math.gcd(n, 12, 8), math.gcd(4, n), math.gcd(), math.gcd(n), math.gcd(n, n), math.gcd(n, -6)
math.lcm(n, 4), math.lcm(n, n + 1), math.isqrt(n), math.isqrt(n * n), math.comb(n, 2), math.perm(n, 2), math.comb(9, n)
math.factorial(n % 7), math.perm(n % 9), math.gcd(n, 4) + 1, 2 * math.gcd(n, 4) - math.isqrt(n), -1 + math.lcm(n, 2)
n.bit_length(), n.bit_count(), int.bit_length(n), (n + 1).bit_length(), operator.index(n), n.__index__(), n.conjugate()
n.real, n.imag, n.numerator, n.denominator, n.real + n.imag, n.as_integer_ratio(), hasattr(n, "bit_length")
pow(2, n, 7), pow(n, 2, 7), pow(3, n + 1, 10), pow(n, 0, 7), pow(-3, n, 5), pow(n, 3, -7)
hex(n), bin(n), oct(n), hex(n + 16), chr(n + 60), hex(n) + "", f"{hex(n)} of {n}"
round(n), round(n, -1), round(n, 2), round(n, None), round(n, ndigits=None), math.trunc(n), math.floor(n), math.ceil(n)
len(str(n)), str(n).zfill(4), str(n).rjust(5), str(n).ljust(5, "."), f"{n} rows".upper(), str(n).center(7).strip()
"x".join([str(n), "y"]), "-".join((str(n), hex(n))), ", ".join([f"{n}"]), len(hex(n)) + 1
max(n, 100.5), min(n, -5.5), max(n, -1.5), max(-2.5, n, 1), n in (100, 200), sorted([n, 100, -1]), sorted((n,))
torch.Size([n, 2]), torch.Size((3, n)).numel(), [x, 2, x * 3][n % 1], {0: 1}[n % 1], (5, 6)[n // 1000]
""".strip().splitlines()


def with_modules(line, argument=False):
    fn = program(line, argument)
    fn.__globals__["operator"] = operator
    return fn


@pytest.mark.parametrize("backend", ["reference", "eager"])
@pytest.mark.parametrize("dynamic", [None, True])
@pytest.mark.parametrize("argument", [False, True])
@pytest.mark.parametrize("line", LINES)
def test_two_captures(line, argument, dynamic, backend):
    fn = with_modules(line, argument)
    compiled = stator.compile(fn, dynamic=dynamic, backend=backend)
    for n in LENGTHS:
        args = (made(4), n) if argument else (made(n),)
        actual, expected = compiled(*args), fn(*args)
        assert_same(actual, expected, f"{n}")
        assert [type(part) for part in actual] == [type(part) for part in expected]
    assert captures() <= (1 if dynamic else 2)


@pytest.mark.parametrize("dynamic", [None, True])
@pytest.mark.parametrize("line", LINES)
def test_hostile_sizes(line, dynamic):
    fn = with_modules(line)
    compiled = stator.compile(fn, dynamic=dynamic)
    for n in HOSTILE:
        assert_same(outcome(compiled, made(n)), outcome(fn, made(n)), f"length {n}")


@pytest.mark.parametrize("line", [line for line in LINES if "comb" not in line and "torch.Size" not in line])
def test_hostile_ints(line):
    fn = with_modules(line, argument=True)
    compiled = stator.compile(fn)
    for n in [n for n in INTS if abs(n) < 2**31 or "pow" not in line]:
        assert_same(outcome(compiled, made(4), n), outcome(fn, made(4), n), f"{n}")


# The value is needed within the program: it is guarded, or the size.
NEEDED = """
[x + i for i in range(math.gcd(n, 4))]
x * math.gcd(n, 4)
x if math.isqrt(n) == 2 else x * 2
x.repeat(n.bit_length(), 1)
{math.gcd(n, 4): 1}
x[: math.isqrt(n)]
torch.full((2,), n.bit_count())
hex(n) == "0x5", hex(n)[2:], int(hex(n), 16)
str(n).zfill(3)[0], len(str(n)) > 1, [0] * len(str(n))
math.gcd(n, 4) in (1, 2), math.gcd(n, 4) * 0.5, math.gcd(n, 4) / n, math.gcd(n, 4) // 2, n + math.gcd(n, 4)
isinstance(math.gcd(n, 4), int), type(math.gcd(n, 4)), bool(math.gcd(n, 4)), math.gcd(n, 4) is None
""".strip().splitlines()


@pytest.mark.parametrize("dynamic", [None, True])
@pytest.mark.parametrize("argument", [False, True])
@pytest.mark.parametrize("line", NEEDED)
def test_values_that_are_needed(line, argument, dynamic):
    fn = with_modules(line, argument)
    compiled = stator.compile(fn, dynamic=dynamic)
    for n in [*LENGTHS, 1, 0, 8, 5]:
        args = (made(4), n) if argument else (made(n),)
        assert_same(outcome(compiled, *args), outcome(fn, *args), f"{n}")


def test_values_of_data():
    def fn(x):
        n = x.sum().item()
        return x + 1, math.gcd(n, 4), hex(n), n.bit_length(), pow(2, n % 8, 7), str(n).zfill(5)

    compiled = stator.compile(fn)
    for n in [5, 3, 0, -7, 12]:
        x = torch.tensor([n, 1])
        assert_same(outcome(compiled, x), outcome(fn, x), f"{n}")


def test_values_across_a_graph_break():
    def fn(x):
        n = x.size(0)
        common, text = math.gcd(n, 4), hex(n)
        stator.graph_break()
        return x * common, text + "!", common + n

    compiled = stator.compile(fn)
    for n in [*LENGTHS, 1, 0]:
        assert_same(compiled(made(n)), fn(made(n)), f"{n}")


@pytest.mark.parametrize(
    "line", ["x * 2, [1, 2, 3][n % 3]", "x * 2, {0: 1, 1: 2, 2: 3}[n % 3]", "[x, x * 2, 3][n % 3]"]
)
@pytest.mark.parametrize("argument", [False, True])
def test_items_at_remainders(line, argument):
    fn = with_modules(line, argument)
    compiled = stator.compile(fn)
    for n in [3, 4, 5, 6, 7, 8, 9, 10, 11, 12]:
        args = (made(4), n) if argument else (made(n),)
        assert_same(compiled(*args), fn(*args), f"{n}")
    assert captures() <= 4


IN_GRAPHS = """
x * math.gcd(n, 4), torch.full((2,), n.bit_length()), x[: math.isqrt(n)], x + n.bit_count(), math.gcd(n, 6, 9) * x
x.new_zeros(n // math.gcd(n, 2)), x * math.isqrt(n * n + 1), math.gcd(n, 4) / 2 * x, x.repeat(math.gcd(n, 4) + 1, 1)
""".strip().splitlines()


@pytest.mark.parametrize("argument", [False, True])
@pytest.mark.parametrize("line", IN_GRAPHS)
def test_functions_that_graphs_compute(line, argument):
    fn = with_modules(line, argument)
    compiled = stator.compile(fn)
    for n in LENGTHS:
        args = (made(4), n) if argument else (made(n),)
        assert_same(compiled(*args), fn(*args), f"{n}")
    assert captures() == 2
    for n in HOSTILE:
        args = (made(4), n) if argument else (made(n),)
        assert_same(outcome(compiled, *args), outcome(fn, *args), f"{n}")
