"""Floats that change from call to call: inputs of the graph after the first miss, and never a wrong value."""

from __future__ import annotations

import math

import pytest
import torch
from torch import nn

import stator
from tests.python.helpers import assert_same, captures

x = torch.linspace(-1, 1, 6).reshape(2, 3)


def outcome(fn, value):
    try:
        return fn(x, value)
    except (ArithmeticError, RuntimeError, TypeError, ValueError) as error:
        return type(error), str(error)


def calls(fn, values, most, compiled=None):
    """Calls `fn` compiled and plain with each value; at most `most` captures."""
    compiled = compiled or stator.compile(fn)
    for value in values:
        assert_same(outcome(compiled, value), outcome(fn, value), f"{value!r}")
    assert captures() <= most


CURVE = [0.1, 0.07, 1e-45, -0.0, 3.5e20, math.inf, math.nan, 0.1, 1 / 3]

USES = """
a * w
w * a, a + w, w + a, a - w, w - a, a / w, w / (a + 2), a ** w, (a.abs() + 1) ** w, w ** a
a.half() * w, a.long() + w, a.bool() * w, (a > 0) / (w + 2)
a.add(a, alpha=w), torch.lerp(a, a + 1, w), a.clamp(min=w), torch.where(a > 0, a, w), a > w, w < a, a == w
a.clone().mul_(w), a.clone().add_(a, alpha=-w), a.clone().addcdiv_(a, a + 3, value=w), a.clone().fill_(w)
torch.full((2,), w), torch.tensor(w), torch.tensor([w, 1.0]), torch.full_like(a, w), torch.as_tensor(w)
torch._foreach_mul_([a.clone()], w), torch._foreach_add([a, a], [a, a], alpha=w), torch._foreach_add_([a.clone()], [w])
a * (w * 0.5 + 1), a * (1 - w * w), a * -w, a * (w - 3) * w, a * abs(w), a * +w, a * (2 * w) / 7
nn.functional.leaky_relu(a, w), nn.functional.dropout(a, 0.0) * w, nn.functional.elu(a, w), a.addmm(a, a.T @ a, beta=w)
a * 2, w, [w], {"k": w}, (w, a), -w, w * 2
a * float(w), a * min(w, 0.5), a * max(0.05, w), isinstance(w, float), type(w), w is None
a, f"{w}", f"{w:.3f}", str(w), repr(w)
torch.nn.functional.softmax(a / (w * w + 1), -1).sum() * w
a.sum() * w + (a * w).sum() * 0.25 - w
a * (w if w > 0.08 else 2.0), a + (1 if w else 2), a * (0 < w < 1)
torch._foreach_mul([a, a.double()], w), torch._foreach_add([a], [w])
nn.functional.smooth_l1_loss(a, a + 1, beta=abs(w) + 1), nn.functional.layer_norm(a, (3,), eps=w)
""".strip().splitlines()


@pytest.mark.parametrize("line", USES)
def test_each_use(line):
    space = {"torch": torch, "nn": nn}
    exec(f"def fn(a, w):\n    return {line}", space)
    calls(space["fn"], CURVE, 12)


@pytest.mark.parametrize("line", USES[:10])
def test_few_captures(line):
    space = {"torch": torch, "nn": nn}
    exec(f"def fn(a, w):\n    return {line}", space)
    calls(space["fn"], [0.3 * 0.99**i for i in range(30)], 2)


EXAMINED = """
a * math.sqrt(w)
a.reshape(int(w * 10) // int(w * 10), 6)
torch.zeros(int(w * 100) % 5) + 1
a[int(w * 10) % 2]
{w: a}[w]
a * (2 if hash(w) else 3)
a * len(str(w))
a * round(w, 1), a * int(w * 10), w.is_integer(), w.hex()
a * (w == 0.07), a * (w != w), a if 0.05 <= w else -a
[a, a][w > 0.08]
a.sum(int(w > 0.08))
torch.func.vmap(lambda b: b * w)(a)
"%g" % w, a + 1
""".strip().splitlines()


@pytest.mark.parametrize("line", EXAMINED)
def test_each_way_to_examine(line):
    space = {"torch": torch, "math": math}
    exec(f"def fn(a, w):\n    return {line}", space)
    calls(space["fn"], [0.1, 0.07, 0.3, 0.01, 0.5, 0.07, 0.9], 9)


def test_a_branch_is_guarded_by_its_answer():
    def fn(a, w):
        if w > 0.5:
            a = a + 1
        if w:
            a = a * w
        return a if w != 0.25 else -a

    calls(fn, [1.0, 0.9, 0.8, 0.7, 0.1, 0.2, 0.3, 0.9, 0.25, 0.0, 0.6, 0.15], 5)


def test_other_types_of_the_same_value():
    def fn(a, w):
        return a * w, w

    calls(fn, [0.5, 0.25, 1, 2.0, True, torch.tensor(2.0), 3.5, 7, 4.5], 7)


def test_an_attribute_and_a_global():
    class Loss(nn.Module):
        def __init__(self):
            super().__init__()
            self.weight = 1.0
            self.layer = nn.Linear(3, 2)

        def forward(self, a):
            return self.layer(a).square().mean() * self.weight

    plain = Loss()
    compiled = stator.compile(plain)
    for step in range(20):
        plain.weight = 0.9**step
        got, wanted = [], []
        for module, into in ((compiled, got), (plain, wanted)):
            plain.zero_grad()
            loss = module(x)
            loss.backward()
            into += [loss.detach(), *(p.grad.clone() for p in plain.parameters())]
        assert_same(got, wanted, f"step {step}")
    assert captures() <= 2


def test_floats_behind_a_break():
    def fn(a, w):
        a = a + 1
        stator.graph_break()
        return a * w

    calls(fn, [0.5 + 0.1 * i for i in range(12)], 4)


def test_some_change_and_some_do_not():
    def fn(a, v, w):
        return a * v + w, {v: 1}

    compiled = stator.compile(fn)
    for step in range(12):
        args = (x, 0.5 if step < 6 else 0.6, 0.1 * step)
        assert_same(compiled(*args), fn(*args))
    assert captures() <= 3


def test_one_that_is_examined_does_not_hold_back_the_other():
    def fn(a, v, w):
        return a * v + math.exp(w)

    compiled = stator.compile(fn)
    for step in range(5):
        assert_same(compiled(x, 0.1 * step, 0.2 * step), fn(x, 0.1 * step, 0.2 * step))
    stator.config.recompile_limit = 8
    before = captures()
    for step in range(5, 20):
        assert_same(compiled(x, 0.1 * step, 0.2), fn(x, 0.1 * step, 0.2))
    assert captures() - before <= 1


def test_another_path_needs_the_value():
    def fn(a, w, how):
        if how == "root":
            return a * math.sqrt(w)
        return a + w if how == "sum" else a * (w + how)

    for settings in ({}, {"fullgraph": True}):
        stator.reset()
        compiled = stator.compile(fn, **settings)
        for how in ("sum", True, 3, "sum", "root", True, "root", "sum"):
            for w in (0.1, 0.2, 0.3):
                assert_same(compiled(x, w, how), fn(x, w, how), f"{how}, {w}")
        assert stator.counters["breaks"] == {}
        assert captures() <= 14


def test_in_one_graph():
    def fn(a, w):
        return (a * w).sin()

    compiled = stator.compile(fn, fullgraph=True)
    calls(fn, [0.1 * i for i in range(20)], 2, compiled)
    assert stator.counters["breaks"] == {}


def test_an_examined_float_in_one_graph():
    def fn(a, w):
        return a * math.sqrt(w)

    calls(fn, [0.1 * i for i in range(6)], 6, stator.compile(fn, fullgraph=True))


def test_a_python_backend_specialises(K):
    def fn(a, w):
        return a * w

    calls(fn, [0.1, 0.2, 0.3], 3, stator.compile(fn, backend=K))
    stator.reset()
    compiled = stator.compile(fn)
    calls(fn, [0.1, 0.2, 0.3], 2, compiled)
    calls(fn, [0.1, 0.2, 0.3], 5, stator.compile(fn, backend=K))


def test_in_parts_of_a_graph():
    from torch.utils.checkpoint import checkpoint

    def fn(a, w):
        a = a.clone().requires_grad_()
        b = checkpoint(lambda t: (t * w).sin() * w, a, use_reentrant=False)
        c = torch.cond(a.sum() > 0, lambda t: t * w, lambda t: t + w, (a.detach(),))
        return b * w, c

    calls(fn, [0.5, 0.4, 0.3, 0.2, 0.1], 4)


def test_a_custom_function_and_an_allowed_one():
    class Scale(torch.autograd.Function):
        @staticmethod
        def forward(ctx, a, w):
            ctx.w = w
            return a * w

        @staticmethod
        def backward(ctx, grad):
            return grad * ctx.w, None

    @stator.allow_in_graph
    def allowed(a, w):
        return a * w

    def fn(a, w):
        a = a.clone().requires_grad_()
        (grad,) = torch.autograd.grad(Scale.apply(a, w).sum(), a)
        return grad, allowed(a, w).detach()

    calls(fn, [0.5, 0.4, 0.3, 0.2], 16)


SCHEDULERS = {
    "exponential": lambda o: torch.optim.lr_scheduler.ExponentialLR(o, 0.95),
    "cosine": lambda o: torch.optim.lr_scheduler.CosineAnnealingLR(o, 20),
    "one cycle": lambda o: torch.optim.lr_scheduler.OneCycleLR(o, 0.2, total_steps=60),
}
OPTIMIZERS = {
    "SGD": {"lr": 0.1},
    "SGD momentum": {"lr": 0.1, "momentum": 0.9, "weight_decay": 0.01, "nesterov": True},
    "Adam": {"lr": 0.01, "weight_decay": 0.02},
    "AdamW": {"lr": 0.01, "amsgrad": True},
}


@pytest.mark.parametrize("schedule", SCHEDULERS)
@pytest.mark.parametrize("foreach", [False, True], ids=["one by one", "foreach"])
@pytest.mark.parametrize("name", OPTIMIZERS)
def test_a_learning_rate_with_a_scheduler(name, foreach, schedule):
    if schedule == "one cycle" and name == "SGD":
        pytest.skip("it needs a momentum")

    def made():
        torch.manual_seed(0)
        model = nn.Sequential(nn.Linear(5, 8), nn.Tanh(), nn.Linear(8, 2).double().float())
        cls = getattr(torch.optim, name.split()[0])
        optimizer = cls(model.parameters(), foreach=foreach, **OPTIMIZERS[name])
        return model, optimizer, SCHEDULERS[schedule](optimizer)

    (mine, ours, my_scheduler), (theirs, plain, their_scheduler) = made(), made()
    step = stator.compile(lambda: ours.step(), fullgraph=True)
    for index in range(50):
        data = torch.full((4, 5), 0.1 * index).sin()
        for model in (mine, theirs):
            model.zero_grad()
            model(data).square().mean().backward()
        step(), plain.step()
        my_scheduler.step(), their_scheduler.step()
        for a, b in zip(mine.parameters(), theirs.parameters(), strict=True):
            assert torch.equal(a, b), index
    assert_same(list(ours.state.values()), list(plain.state.values()), "state")
    assert captures() <= 3
