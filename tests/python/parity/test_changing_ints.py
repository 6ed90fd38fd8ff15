"""Ints that change from call to call: symbols of the graph after the first miss, and never a wrong value."""

from __future__ import annotations

import math

import pytest
import torch
from torch import nn

import stator
from tests.python.helpers import assert_same, captures

x = torch.linspace(-1, 1, 24).reshape(4, 6)


def outcome(fn, *args):
    try:
        return fn(*args)
    except (ArithmeticError, IndexError, KeyError, RuntimeError, TypeError, ValueError) as error:
        return type(error), str(error).partition("\nException raised from")[0]  # the rest has addresses of C++ frames


def calls(fn, values, most, compiled=None):
    """Calls `fn` compiled and plain with each value; at most `most` captures."""
    compiled = compiled or stator.compile(fn)
    for value in values:
        assert_same(outcome(compiled, x, value), outcome(fn, x, value), f"{value!r}")
    assert captures() <= most, stator.counters()


def made(line):
    space = {"torch": torch, "nn": nn, "math": math, "F": nn.functional}
    exec(f"def fn(a, n):\n    return {line}", space)
    return space["fn"]


HOSTILE = [3, 4, 2, 1, 0, -1, -7, 2**31, 2**53 + 1, 2**62, 2**63 - 1, 2**63, -(2**63), 10**30, True, 3, 5]

# Each line is the result of a function of `a`, a 4x6 tensor, and an int.
ARITHMETIC = """
a * n, n * a, a + n, n + a, a - n, n - a, a / n, n / (a + 3), a // (n * n + 1)
a.long() + n, a.long() * n, a.bool() * n, a.half() * n, a > n, n < a, a == n
n + 1, n - 1, n * 2, -n, +n, abs(n), n // 2, n % 3, n / 2, n * n, 2 * n + 1, n - n, n ** 2
n, [n], {"k": n}, (n, a), n is None, n == None, n != "a", isinstance(n, int), type(n)
a + (n + 1), a * (n * 0.5), a * (n / 3), a + float(n), a * int(n), a * (n % 4), a * (n // 3), a * -n
a * min(n, 3), a * max(n, 2), a * max(1, n), a * abs(n - 3)
f"{n}", f"{n:05d}", str(n), repr(n), "%d" % n
a.add(a, alpha=n), a.clamp(min=n), torch.where(a > 0, a, n), torch.full((2,), n), torch.full_like(a, n)
a * math.sqrt(n * n), a * math.floor(n / 2), a * math.ceil(n / 2), divmod(n, 4)
a.clone().mul_(n), a.clone().add_(n), a.clone().fill_(n), torch.tensor(n), torch.tensor([n, 1])
""".strip().splitlines()


@pytest.mark.parametrize("line", ARITHMETIC)
def test_arithmetic_with_hostile_values(line):
    calls(made(line), HOSTILE, 17)


@pytest.mark.parametrize("line", ARITHMETIC)
def test_arithmetic_needs_two_captures(line):
    calls(made(line), [7, 5, 3, 4, 6, 9, 12, 100, 3, 8], 2)


SIZES = """
torch.zeros(n), torch.ones(n, 2), torch.arange(n), torch.empty(n, 3).shape
a.new_zeros(n), torch.full((n,), 2.0)
a[:n], a[n:], a[-n:], a[:, :n], a[:n].sum()
a.view(-1)[:n] * 2, a.view(-1).narrow(0, 0, n)
a.expand(n, 4, 6), a.repeat(n, 1), a[None].expand(n, -1, -1).sum(0)
torch.cat([a, torch.zeros(n, 6)]), F.pad(a, (0, n))
torch.arange(n) * n, torch.arange(n, 2 * n)
""".strip().splitlines()


@pytest.mark.parametrize("line", SIZES)
def test_sizes_need_two_captures(line):
    calls(made(line), [3, 2, 4, 3, 2], 2)


@pytest.mark.parametrize(
    "line", [*SIZES, "torch.eye(n)", "a.view(n, -1)", "a[n]", "a.view(-1)[n]", "a.reshape(n, 24 // n)"]
)
def test_sizes_with_hostile_values(line):
    calls(made(line), [3, 2, 4, 1, 0, -1, -3, 5, 24, 25, 2**63, 3], 12)


SPECIALISED = """
[a, a + 1, a + 2, a + 3, a + 4][n]
{3: a, 4: a + 1}.get(n)
sum(a * i for i in range(n))
a.sum(n % 2), a.transpose(0, n % 2)
a.chunk(n), a.split(n), a.tensor_split(n)
hash(n), n in {3, 4}, n in (1, 2, 3)
(0,) * n, [a] * n, "ab" * n
a.unsqueeze(n - 3), n.bit_length(), n & 3, n << 2, n.__add__(1)
""".strip().splitlines()


@pytest.mark.parametrize("line", SPECIALISED)
def test_values_that_are_needed_are_specialised_on(line):
    calls(made(line), [3, 4, 3, 4, 3, 4], 2)


@pytest.mark.parametrize("line", SPECIALISED)
def test_values_that_are_needed_break_in_the_end(line):
    calls(made(line), [3, 4, *range(14), 3, 4], 30)


def test_branches_are_guarded_by_their_answers():
    def fn(a, n):
        if n > 10:
            a = a + 1
        if n:
            a = a * n
        if n % 2 == 0:
            a = a - 3
        return a if n != 4 else -a

    calls(fn, [3, 5, 7, 9, 11, 13, 15, 8, 6, 2, 4, 0, 12, 14, 101, 4], 7)


def test_counters_of_modules():
    class Counting(nn.Module):
        def __init__(self):
            super().__init__()
            self.steps = 0
            self.layer = nn.Linear(6, 2)

        def forward(self, a):
            self.steps += 1
            out = self.layer(a)
            if self.steps % 10 == 0:
                out = out * 2
            return out / self.steps

    plain, counted = Counting(), Counting()
    counted.load_state_dict(plain.state_dict())
    compiled = stator.compile(counted)
    for step in range(40):
        assert_same(compiled(x), plain(x), f"step {step}")
        assert counted.steps == plain.steps
    assert captures() <= 3


def test_a_counter_alone():
    class Counting(nn.Module):
        def __init__(self):
            super().__init__()
            self.steps = 2**63 - 10

        def forward(self, a):
            self.steps += 1
            return a + 1

    module = Counting()
    compiled = stator.compile(module)
    for _ in range(20):
        assert_same(compiled(x), x + 1)
    assert module.steps == 2**63 + 10
    assert captures() <= 2


scale = 3


def test_globals_closures_and_containers():
    global scale
    width, box, table = 2, [1, 5], {"k": 7}

    def fn(a):
        return a * scale + width * a[:, :width].sum() + box[1] * table["k"]

    compiled = stator.compile(fn)
    for step in range(12):
        scale, width, box[1], table["k"] = 3 + step, 1 + step % 5, 5 * step, 7 - step
        assert_same(compiled(x), fn(x), f"step {step}")
    assert captures() <= 3


def test_ints_behind_a_break():
    def fn(a, n):
        a = a + n
        stator.graph_break()
        return a * n, torch.zeros(n)

    calls(fn, [*range(2, 14)], 4)


@pytest.mark.parametrize("distance", [1, 2, 3, 5, 8, 13])
def test_with_breaks_at_every_distance(distance):
    def fn(a, n):
        b = a[:n] * n
        m = n + 1
        if m > 3:
            b = b + torch.arange(m).sum()
        return b, m, f"{n}"

    with stator.config.patch(break_after=distance):
        calls(fn, [3, 2, 4, 1, 0, 3, -1, 2], 10**6)


def test_dynamic_true_starts_with_symbols():
    def fn(a, n):
        return a * n + torch.zeros(n).sum()

    calls(fn, [3, 4, 5, 7], 1, stator.compile(fn, dynamic=True))


def test_dynamic_true_specialises_where_values_are_needed():
    def fn(a, n):
        return [a, a + 1, a + 2][n]

    calls(fn, [0, 1, 2, 0, 1, 2], 3, stator.compile(fn, dynamic=True, fullgraph=True))


def test_dynamic_false_specialises():
    def fn(a, n):
        return a * n

    compiled = stator.compile(fn, dynamic=False)
    for n in (2, 3, 4):
        assert_same(compiled(x, n), fn(x, n))
    assert captures() == 3


def test_other_types_of_the_same_value():
    def fn(a, n):
        return a * n, n

    calls(fn, [2, 3, 2.0, 3.5, True, False, torch.tensor(2), 7, 4.5, 9], 8)


def test_ints_and_sizes_together():
    def fn(a, n):
        return a[:n].reshape(-1) if a.size(0) > n else a.repeat(n, 1)

    compiled = stator.compile(fn)
    for rows, n in [(4, 2), (5, 3), (6, 4), (7, 2), (3, 5), (2, 6), (3, 3), (9, 2)]:
        a = torch.linspace(0, 1, rows * 6).reshape(rows, 6)
        assert_same(compiled(a, n), fn(a, n), f"{rows} {n}")
    assert captures() <= 4


def test_division_by_zero_in_a_run():
    def fn(a, n):
        return a + 12 // n, 7 % n, 1 / n

    calls(fn, [3, 4, 5, 0, 6, -2, 0], 4)


def test_gradients():
    def fn(a, n):
        return (a * n).relu()[:n].sum()

    compiled = stator.compile(fn)
    for n in (1, 2, 3, 4, 2):
        got, wanted = x.clone().requires_grad_(), x.clone().requires_grad_()
        compiled(got, n).backward()
        fn(wanted, n).backward()
        assert_same(got.grad, wanted.grad, f"{n}")
    assert captures() <= 3


def test_a_write_before_sizes_from_an_int():
    def fn(a, n):
        a.add_(1)
        return a.sum() + torch.zeros(n).sum()

    compiled = stator.compile(fn)
    for n in (3, 4, 5, -1, 6, -2, 7):
        got, wanted = torch.ones(300, 300), torch.ones(300, 300)
        assert_same(outcome(compiled, got, n), outcome(fn, wanted, n), f"{n}")
        assert_same(got, wanted)
