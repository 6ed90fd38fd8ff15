"""Ints and floats that change from call to call, under Python backends: inputs of the graph after the first miss."""

from __future__ import annotations

import math

import pytest
import torch
from torch import nn

import stator
from tests.python.helpers import assert_same, captures
from tests.python.parity.test_changing_ints import outcome
from tests.python.parity.test_symbolic_backends import CALLABLES, count_of_torch

x = torch.linspace(-1, 1, 24).reshape(4, 6)
INTS = [7, 5, 3, 4, 6, 9, 12, 100, 3, 8]
FLOATS = [0.5, 0.25, 0.7, 1.5, 0.1, 3.0, 0.5]
HOSTILE_INTS = [3, 4, 2, 1, 0, -1, -7, 2**31, 2**53 + 1, 2**62, 2**63 - 1, 2**63, -(2**63), 10**30, True, 3]
HOSTILE_FLOATS = [0.5, 0.25, -0.0, 0.0, math.inf, -math.inf, math.nan, 1e308, 1e-320, 3, True, 0.5]
BACKENDS = [*CALLABLES, "aot_eager"]


def made(line, name):
    space = {"torch": torch, "nn": nn, "math": math, "F": nn.functional}
    exec(f"def fn(a, {name}):\n    return {line}", space)
    return space["fn"]


def count(fn, values, backend):
    stator.reset()
    compiled = stator.compile(fn, backend=backend)
    for value in values:
        assert_same(outcome(compiled, x, value), outcome(fn, x, value), f"{value!r}")
    return captures()


INT_LINES = """
a * n, n * a, a + n, a - n, a / n, a > n, a == n
a * (n + 1), a * (n * 0.5), a + float(n), a * (n % 4), a * (n // 3), a * -n
a * min(n, 3), a * max(n, 2), n + 1, n * 2, [n], {"k": n}
torch.full((2,), n), torch.full_like(a, n)
f"{n}", str(n), a + 1
a.clone().mul_(n), a.clone().fill_(n), a.add(a, alpha=n)
""".strip().splitlines()
SIZE_LINES = """
torch.arange(n), torch.zeros(n, 2), a[:n].sum()
a.repeat(n, 1), a.expand(n, 4, 6).sum(0)
""".strip().splitlines()


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("line", [*INT_LINES, *SIZE_LINES])
def test_ints_need_two_captures(line, backend):
    fn = made(line, "n")
    most = 2 if callable(backend) else max(2, count_of_torch(fn, [lambda n=n: (x, n) for n in INTS], backend))
    assert count(fn, INTS, backend) <= most


@pytest.mark.parametrize("backend", [CALLABLES[1], "aot_eager"])
@pytest.mark.parametrize("line", [*INT_LINES, "a * math.sqrt(n)"])
def test_hostile_ints(line, backend):
    count(made(line, "n"), HOSTILE_INTS, backend)


@pytest.mark.parametrize("backend", [CALLABLES[1], "aot_eager"])
@pytest.mark.parametrize("line", SIZE_LINES)
def test_hostile_sizes(line, backend):
    count(made(line, "n"), [3, 2, 4, 1, 0, -1, -3, 5, 2**63, 3], backend)


FLOAT_LINES = """
a * w, w * a, a + w, a - w, a / (w + 2), a > w
a * (w + 1), a * (w * 0.5), a * -w, a * (1 - w)
a.clone().mul_(w), a.clone().add_(w)
w * 2, [w], a + 1
""".strip().splitlines()


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("line", FLOAT_LINES)
def test_floats_need_two_captures(line, backend):
    fn = made(line, "w")
    most = 2 if callable(backend) else max(2, count_of_torch(fn, [lambda w=w: (x, w) for w in FLOATS], backend))
    assert count(fn, FLOATS, backend) <= most


# Torch's compilers refuse symbols of floats here. They take them as numbers that depend on data.
OPEN_LINES = """
a.add(a, alpha=w), a.add(a, alpha=-w), a.clone().add_(a, alpha=w / 3)
a.addcmul(a, a, value=w), a.addcdiv(a, a + 3, value=w)
a.clamp(min=w), a.clamp(-w, w), torch.lerp(a, a + 1, w), torch.where(a > 0, a, w), a ** w
torch.full((2,), w), torch.full_like(a, w), a.clone().fill_(w)
nn.functional.leaky_relu(a, w), nn.functional.softplus(a, w)
torch._foreach_add([a, a], [a, a], alpha=w), torch._foreach_addcdiv([a], [a], [a + 3], w)
""".strip().splitlines()


@pytest.mark.parametrize("backend", [CALLABLES[1], "aot_eager"])
@pytest.mark.parametrize("line", OPEN_LINES)
def test_floats_that_compilers_refuse_as_symbols_need_two_captures(line, backend):
    assert count(made(line, "w"), FLOATS, backend) <= 2


def test_inductor_takes_such_floats():
    compiled = stator.compile(made(OPEN_LINES[0], "w"), backend="inductor")
    for w in FLOATS:
        for actual, expected in zip(compiled(x, w), made(OPEN_LINES[0], "w")(x, w), strict=True):
            torch.testing.assert_close(actual, expected)
    assert captures() <= 2


@pytest.mark.parametrize("line", OPEN_LINES)
def test_hostile_floats_that_compilers_refuse_as_symbols(line):
    count(made(line, "w"), HOSTILE_FLOATS, "aot_eager")


SPECIALISED = """
nn.functional.dropout(a, 0.0) * w, nn.functional.layer_norm(a, (6,), eps=w), torch.full((2,), w)
a.clamp(min=w), torch.lerp(a, a + 1, w), torch.where(a > 0, a, w), a.add(a, alpha=w), a ** w
a * math.sqrt(abs(w)), a * math.exp(-w * w), a * math.floor(w + 2)
a * (w if w > 0.3 else 2.0), f"{w}", a + 1
""".strip().splitlines()


@pytest.mark.parametrize("backend", [CALLABLES[1], "aot_eager"])
@pytest.mark.parametrize("line", [*FLOAT_LINES, *SPECIALISED])
def test_hostile_floats(line, backend):
    count(made(line, "w"), HOSTILE_FLOATS, backend)


ROUNDED = """
a + ((w + 1e16) - 1e16), a * (w * 0.1 * 3), a * (0.1 * (w + 0.7)), a + (w * 0.1 + w * 0.7)
w * 0.0, w - w, w + 0.0, 0 - w, w < w + 1, w == w, max(w, -w), (w * 0.1) % 0.3, (w * 3) // 0.1
a * (1 - 0.9 ** w), (1 - w) * (1 - w) - w, a
""".strip().splitlines()


@pytest.mark.parametrize("backend", [*CALLABLES, "aot_eager"])
@pytest.mark.parametrize("line", ROUNDED)
def test_arithmetic_rounds_at_each_step(line, backend):
    count(made(line, "w"), [*FLOATS, 1e16, 1e20, -3.5], backend)
    stator.reset()
    count(made(line, "w"), [3, 4, 5, 2**53 + 1, 7, -7], backend)


def test_a_backend_without_symbols_of_torch_gets_one_graph_for_all_floats():
    assert count(made(ROUNDED[0], "w"), FLOATS, CALLABLES[0]) <= 2


@pytest.mark.parametrize("backend", [*CALLABLES, "aot_eager"])
def test_results_above_the_largest_int64(backend):
    fn = made("n * n, n << 2, n == float(n), a.clone().fill_(3)", "n")
    count(fn, [3, 4, 5, 2**62, 2**63 - 1, -(2**63), 6], backend)


def test_what_a_run_wrote_is_undone_when_a_result_does_not_fit():
    def fn(a, n):
        a.add_(1)
        return n * n

    compiled = stator.compile(fn, backend=CALLABLES[1])
    for n in (3, 4, 5, 2**62):
        got, wanted = torch.zeros(2), torch.zeros(2)
        assert compiled(got, n) == fn(wanted, n)
        assert_same(got, wanted)
    assert captures() == 2


@pytest.mark.parametrize("backend", BACKENDS)
def test_a_counter_of_a_module(backend):
    class Counting(nn.Module):
        def __init__(self):
            super().__init__()
            self.steps = 0
            self.layer = nn.Linear(6, 2)

        def forward(self, a):
            self.steps += 1
            return self.layer(a) / self.steps

    plain, counted = Counting(), Counting()
    counted.load_state_dict(plain.state_dict())
    compiled = stator.compile(counted, backend=backend)
    for step in range(12):
        assert_same(compiled(x), plain(x), f"step {step}")
        assert counted.steps == plain.steps
    assert captures() <= 3


@pytest.mark.parametrize("backend", BACKENDS)
def test_a_rate_with_gradients(backend):
    def fn(a, w):
        return (a * w).relu().sum()

    compiled = stator.compile(fn, backend=backend)
    for w in FLOATS:
        got, wanted = x.clone().requires_grad_(), x.clone().requires_grad_()
        compiled(got, w).backward()
        fn(wanted, w).backward()
        assert_same(got.grad, wanted.grad, f"{w}")
    assert captures() <= 2


def test_inputs_of_a_backend():
    seen = []

    def backend(gm, example_inputs):
        seen.append([type(example) for example in example_inputs])
        return gm.forward

    def fn(a, n, w):
        return a * n + torch.zeros(a.size(0), 6) * w

    compiled = stator.compile(fn, backend=backend)
    for rows, n, w in [(4, 2, 0.5), (5, 3, 0.25), (6, 7, 0.1)]:
        a = torch.ones(rows, 6)
        assert_same(compiled(a, n, w), fn(a, n, w))
    assert len(seen) == 2
    first, second = seen
    assert first == [torch.Tensor]
    assert sum(issubclass(kind, torch.SymInt) for kind in second) == 2
    assert sum(issubclass(kind, torch.Tensor) for kind in second) == 2


def test_static_when_the_user_says_so():
    fn = made("a * n", "n")
    compiled = stator.compile(fn, backend=CALLABLES[0], dynamic=False)
    for n in (2, 3, 4):
        assert_same(compiled(x, n), fn(x, n))
    assert captures() == 3


def test_a_backend_that_refuses_a_marked_size():
    """A guard that no text states makes the size a constant. The mark forbids that, so that the capture must end."""

    def backend(gm, example_inputs):
        for example in example_inputs:
            if isinstance(example, torch.SymInt):
                bool((example & 3) == 0)
        return gm.forward

    compiled = stator.compile(lambda a: a * 2 + a.size(0), backend=backend)
    for rows in (8, 9, 12):
        assert_same(compiled(torch.ones(rows, 6)), torch.ones(rows, 6) * 2 + rows)
    marked = torch.ones(16, 6)
    stator.mark_dynamic(marked, 0)
    with pytest.raises(stator.ConstraintViolation, match="constants only: a.size"):
        compiled(marked)


def refused(a, n):
    if n == 1:
        raise ValueError(f"not {n}")
    return a * n


def bounded(a, n):
    if not 1 < n < 100:
        raise IndexError("out of bounds")
    return a * n


@pytest.mark.parametrize("backend", [*CALLABLES, "aot_eager"])
@pytest.mark.parametrize("fn", [refused, bounded], ids=lambda fn: fn.__name__)
def test_checks_of_a_number_do_not_need_a_graph_for_each_value(fn, backend):
    assert count(fn, [0, 1, 2, 3, 4, 5, 6, 7, 1, 0, 2], backend) <= 4
