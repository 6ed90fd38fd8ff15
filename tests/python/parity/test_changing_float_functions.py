"""Floats that change from call to call as arguments of `math`, `round`, `min` and `max`, and of operators that take a
plain float: they stay inputs of the graph, exact as in Python."""

from __future__ import annotations

import math
import random
import struct

import pytest
import torch
import torch.nn.functional as F
from torch import nn

import stator
from tests.python.helpers import assert_same, captures

x = torch.linspace(-1, 1, 6).reshape(2, 3)
DECAY = [0.3 * 0.97**i for i in range(12)]


def outcome(fn, *args):
    try:
        return fn(*args)
    except (ArithmeticError, RuntimeError, TypeError, ValueError) as error:
        return type(error), str(error)


def calls(fn, values, most):
    compiled = stator.compile(fn)
    for index, value in enumerate(values):
        torch.manual_seed(index)
        got = outcome(compiled, x, value)
        state = torch.get_rng_state()
        torch.manual_seed(index)
        assert_same(got, outcome(fn, x, value), f"{value!r}")
        assert torch.equal(state, torch.get_rng_state()), value
    assert captures() <= most


FUNCTIONS = [
    *("sqrt", "cbrt", "exp", "exp2", "expm1", "log", "log2", "log10", "log1p", "sin", "cos", "tan", "asin", "acos"),
    *("atan", "sinh", "cosh", "tanh", "asinh", "acosh", "atanh", "degrees", "radians", "fabs", "isnan", "isinf"),
    *("isfinite", "floor", "ceil", "trunc"),
]
PAIRS = ["atan2(w, 0.5)", "atan2(-2, w)", "copysign(w, -1)", "fmod(w, 0.3)", "fmod(7, w)", "log(w, 3)", "pow(w, 1.5)"]
SPECIAL = [0.0, -0.0, 1.0, -1.0, 0.5, 2.0, 1e-320, 1e300, -1e300, 710.0, math.inf, -math.inf, math.nan, 2.0**53, 1e16]


def bits(value):
    return value if not isinstance(value, float) else struct.pack("d", value)


@pytest.mark.parametrize("call", [f"{name}(w)" for name in FUNCTIONS] + PAIRS)
def test_each_function_of_math_is_exact(call):
    space = {"math": math}
    exec(f"def fn(a, w):\n    n = math.{call}\n    return a * n, n", space)
    fn = space["fn"]
    compiled = stator.compile(fn)
    drawn = random.Random(call)
    values = [drawn.uniform(0.1, 0.9) for _ in range(40)]
    values += SPECIAL + [drawn.lognormvariate(0, 20) for _ in range(40)] + [drawn.gauss(0, 3) for _ in range(40)]
    for value in values:
        got, wanted = outcome(compiled, x, value), outcome(fn, x, value)
        assert_same(got, wanted, f"{value!r}")
        assert type(got[1]) is type(wanted[1]) and bits(got[1]) == bits(wanted[1]), value
    assert captures() <= 2


@pytest.mark.parametrize("digits", [None, 0, 1, 2, 3, 7, 15, 16, -1])
def test_rounding_is_exact(digits):
    def fn(a, w):
        n = round(w) if digits is None else round(w, digits)
        return a * n, n

    compiled = stator.compile(fn)
    drawn = random.Random(7)
    values = [drawn.uniform(-3, 3) for _ in range(60)] + [i / 8 - 4 for i in range(64)]
    values += [2.675, 1.005, 0.15, 1e15, 1e22, -0.0, 0.5, 1.5, 2.5, math.inf, math.nan]
    for value in values:
        got, wanted = outcome(compiled, x, value), outcome(fn, x, value)
        assert_same(got, wanted, f"{value!r}")
        assert type(got[1]) is type(wanted[1]) and bits(got[1]) == bits(wanted[1]), value


SCHEDULES = """
a * (0.5 * (1 + math.cos(math.pi * w / 3)))
a * math.exp(-w) + math.sqrt(w) - math.tanh(w)
a * min(w, 0.5), a * max(0.05, w), a * max(w, 0.1, 0.2), a * min(1.0, w * 2), max([w, w * 3, 0.2])
a * abs(w - 0.2), a * w ** 2, a * 2 ** w, a * pow(w, 0.5), divmod(w, 0.1)
a * round(w, 2), a * round(w * 100), a * math.floor(w * 10), a * math.ceil(w * 10)
a * (1 if math.isfinite(3.0) else 2) * math.log(w) / math.log(10)
""".strip().splitlines()


@pytest.mark.parametrize("line", SCHEDULES)
def test_schedules_are_captured_twice(line):
    space = {"torch": torch, "math": math}
    exec(f"def fn(a, w):\n    return {line}", space)
    calls(space["fn"], DECAY, 2)


PARAMETERS = """
F.dropout(a, w)
F.dropout(a, w, training=False)
nn.Dropout(w)(a)
F.alpha_dropout(a, w, training=True), F.dropout1d(a[None], w), F.feature_alpha_dropout(a[None], w, training=True)
F.layer_norm(a, (3,), eps=w), F.group_norm(a, 3, eps=w), F.rms_norm(a, (3,), eps=w)
F.cross_entropy(a, torch.tensor([0, 1]), label_smoothing=w)
F.smooth_l1_loss(a, a + 1, beta=w), F.huber_loss(a, a + 1, delta=w), F.poisson_nll_loss(a, a, eps=w)
F.normalize(a, eps=w), F.cosine_similarity(a, a + 1, eps=w)
F.scaled_dot_product_attention(a[None], a[None], a[None], scale=w)
F.scaled_dot_product_attention(a[None], a[None], a[None], dropout_p=w)
torch.empty(3).normal_(0.0, w), torch.empty(3).uniform_(-w, w), nn.init.normal_(torch.empty(3), std=w)
torch.bernoulli(a.abs(), w), torch.empty(3).bernoulli_(w), torch.empty(3).exponential_(w), torch.normal(0.0, w, (3,))
F.triplet_margin_loss(a, a + 1, a - 1, margin=w), F.margin_ranking_loss(a, a, a.sign(), margin=w)
torch.quantile(a, w), torch.nan_to_num(a, nan=w), torch.isclose(a, a + 0.1, rtol=w), torch.logit(a.abs(), eps=w)
a.clone().requires_grad_().mul(w).sum() + F.dropout(a, math.sqrt(w) * 0.5).sum()
""".strip().splitlines()


@pytest.mark.parametrize("line", PARAMETERS)
def test_parameters_of_operators(line):
    space = {"torch": torch, "nn": nn, "F": F, "math": math}
    exec(f"def fn(a, w):\n    return {line}", space)
    calls(space["fn"], DECAY, 2)


@pytest.mark.parametrize("line", PARAMETERS)
def test_parameters_at_the_ends_of_their_range(line):
    space = {"torch": torch, "nn": nn, "F": F, "math": math}
    exec(f"def fn(a, w):\n    return {line}", space)
    fn = space["fn"]
    compiled = stator.compile(fn)
    for index, value in enumerate([0.3, 0.2, 0.0, 1.0, 0.1, -0.5, 1.5, 0.0, 0.4, math.nan, math.inf, 1e-12]):
        torch.manual_seed(index)
        got = outcome(compiled, x, value)
        torch.manual_seed(index)
        assert_same(got, outcome(fn, x, value), f"{value!r}")


def test_a_dropout_that_is_switched_off_returns_its_operand():
    def fn(a, w):
        return F.dropout(a, w) is a, F.dropout(a, w).data_ptr() == a.data_ptr()

    compiled = stator.compile(fn)
    for value in (0.5, 0.25, 0.0, 0.125, 0.0):
        assert compiled(x, value) == fn(x, value), value


def test_a_dropout_in_training():
    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.layer, self.drop = nn.Linear(3, 4), nn.Dropout(0.5)

        def forward(self, a):
            return self.drop(self.layer(a).relu()).square().mean()

    net = Net()
    compiled = stator.compile(net, fullgraph=True)
    for step in range(10):
        net.drop.p = 0.5 * 0.9**step
        seen = []
        for module in (compiled, net):
            torch.manual_seed(step)
            net.zero_grad()
            loss = module(x)
            loss.backward()
            seen.append([loss.detach(), *(p.grad.clone() for p in net.parameters())])
        assert_same(*seen, f"step {step}")
    assert captures() <= 2


@pytest.mark.parametrize("name", ["Adam", "AdamW", "SGD", "Adagrad"])
def test_fused_optimizers_with_a_scheduler(name):
    def made():
        torch.manual_seed(0)
        model = nn.Sequential(nn.Linear(150, 130), nn.Tanh(), nn.Linear(130, 2))
        optimizer = getattr(torch.optim, name)(model.parameters(), lr=0.1, fused=True)
        return model, optimizer, torch.optim.lr_scheduler.ExponentialLR(optimizer, 0.9)

    (mine, ours, my_scheduler), (theirs, plain, their_scheduler) = made(), made()
    step = stator.compile(lambda: ours.step(), fullgraph=True)
    for index in range(8):
        for model in (mine, theirs):
            model.zero_grad()
            model(torch.full((4, 150), 0.1 * index).sin()).square().mean().backward()
        step(), plain.step()
        my_scheduler.step(), their_scheduler.step()
        assert_same(list(mine.parameters()), list(theirs.parameters()), f"step {index}")
    assert captures() <= 3


def test_a_float_read_from_a_tensor():
    def fn(a):
        n = a.abs().sum().item()
        return F.dropout(a, n / (n + 1)), a * math.exp(-n), F.layer_norm(a, (3,), eps=n), math.sqrt(n), round(n, 2)

    compiled = stator.compile(fn, fullgraph=True)
    for index in range(5):
        torch.manual_seed(index)
        got = compiled(x + 0.1 * index)
        torch.manual_seed(index)
        assert_same(got, fn(x + 0.1 * index), f"{index}")
    assert captures() <= 1
