"""Reentrant checkpoints: one operation to autograd, whose backward runs the part again."""

import copy

import pytest
import torch
from torch import nn

import stator
from tests.python.helpers import assert_same
from tests.python.parity.checkpointing import compare, leaf, once, plain, reentrant


def reentrant_forward(x):
    return reentrant(plain, x * 2) + 1


def test_reentrant():
    def scenario(run):
        x = leaf(3)
        y = run(x)
        node = y.grad_fn.next_functions[0][0]
        y.sum().backward(retain_graph=True)
        y.sum().backward()
        with pytest.raises(RuntimeError, match="second time") as error:
            y.sum().backward()
        return y, x.grad, node.name(), type(node).__name__, len(node.next_functions), str(error.value)

    *_, ops = compare(reentrant_forward, scenario)
    assert ops.count("sin") == 3


def test_reentrant_results_of_several_kinds():
    def part(t, n, u):
        return (t * u).sin(), n + 1, (t * 2).round().long(), None, t.exp()[1:]

    def scenario(run):
        x, u = leaf(3), leaf(3, seed=1).detach()
        first, number, rounded, none, last = run(x, u)
        flags = [t.requires_grad for t in (first, rounded, last)]
        first.sum().backward(retain_graph=True)
        found = x.grad.clone()
        (last * last).sum().backward()
        return first, number, rounded, none, last, flags, found, x.grad

    compare(lambda x, u: reentrant(part, x, 2, u), scenario)


@pytest.mark.parametrize("preserve", [True, False])
def test_reentrant_modules_with_random_numbers_and_writes(preserve):
    layer = nn.Sequential(nn.Linear(4, 4), nn.Dropout(0.5), nn.BatchNorm1d(4), nn.Sigmoid())
    state = copy.deepcopy(layer.state_dict())

    def scenario(run):
        layer.load_state_dict(state)
        layer.zero_grad()
        x = leaf(6, 4)
        y = run(layer, x)
        before = torch.rand(2)
        y.sum().backward()
        state_now = {name: tensor.clone() for name, tensor in layer.state_dict().items()}
        return y, before, torch.rand(2), x.grad, [p.grad.clone() for p in layer.parameters()], state_now

    compare(lambda layer, x: reentrant(layer, x, preserve_rng_state=preserve) * 2, scenario)


def test_reentrant_around_a_part_that_is_not():
    def outer(t):
        return once(plain, t.cos()).tanh()

    def scenario(run):
        x = leaf(3)
        y = run(x)
        y.sum().backward()
        return y, x.grad

    compare(lambda x: reentrant(outer, x), scenario)


def test_a_part_that_is_not_reentrant_around_a_reentrant_one():
    def outer(t):
        return reentrant(plain, t.cos()).tanh()

    def scenario(run):
        x = leaf(3)
        y = run(x)
        y.sum().backward()
        return y, x.grad

    compare(lambda x: once(outer, x), scenario)


def test_the_grad_mode_of_a_reentrant_part():
    def part(t):
        return t.sin() if torch.is_grad_enabled() else t.sin() * 1

    def scenario(run):
        x = leaf(3)
        run(x).sum().backward()
        return x.grad

    *_, ops = compare(lambda x: reentrant(part, x), scenario)
    assert ops.count("sin") == 2


def test_what_a_reentrant_checkpoint_forbids():
    def scenario(run):
        x = leaf(3)
        messages = []
        with pytest.raises(RuntimeError, match="use_reentrant") as error:
            torch.autograd.grad(run(x).sum(), x)
        messages.append(str(error.value))
        with pytest.raises(RuntimeError, match="use_reentrant") as error:
            run(x).sum().backward(inputs=[x])
        messages.append(str(error.value))
        return messages

    compare(reentrant_forward, scenario)


def test_a_changed_argument_of_a_reentrant_part():
    def fn(x):
        y = x * 2
        return reentrant(lambda t: t.sin(), y), y

    def scenario(run):
        x = leaf(3)
        out, y = run(x)
        y.detach().add_(1)
        with pytest.raises(RuntimeError, match="modified by an inplace operation") as error:
            out.sum().backward()
        # The name of the operation that made the tensor is in the message of both.
        return str(error.value)

    compare(fn, scenario)


def test_detached_results_of_a_reentrant_part():
    def scenario(run):
        x = leaf(3)
        y = run(x)
        with pytest.raises(RuntimeError, match="none of output") as error:
            y.sum().backward()
        return y, str(error.value)

    compare(lambda x: reentrant(lambda t: t.sin().detach() * 2, x), scenario)


def test_reentrant_views_are_protected():
    def scenario(run):
        y = run(leaf(3))
        try:
            y.add_(1)
        except RuntimeError as error:
            return str(error)
        return y

    compare(lambda x: reentrant(lambda t: t.sin()[:2], x), scenario)


@pytest.mark.parametrize(
    "part",
    [lambda t: [t.sin()], lambda t: (t, t.sin()), lambda t: t.view(3), lambda t: {"a": t.sin()}, lambda t: 3],
    ids=["list", "argument", "view", "dict", "number"],
)
def test_reentrant_results_that_run_in_torch(part):
    def scenario(run):
        x = leaf(3)
        made = run(x)
        items = list(made.values()) if isinstance(made, dict) else made if isinstance(made, (tuple, list)) else [made]
        return [(item, getattr(item, "requires_grad", None)) for item in items]

    compiled = stator.compile(lambda x: reentrant(part, x))
    scenario(compiled)
    assert_same(scenario(compiled), scenario(lambda x: reentrant(part, x)))


@pytest.mark.filterwarnings("default")
def test_reentrant_without_gradients_warns():
    compiled = stator.compile(reentrant_forward)
    for _ in range(2):
        with pytest.warns(UserWarning, match="None of the inputs have requires_grad=True"):
            compiled(torch.ones(3))
    with torch.no_grad():
        assert_same(compiled(leaf(3)), reentrant_forward(leaf(3)))


def test_reentrant_under_a_python_backend_runs_in_torch():
    def scenario(run):
        x = leaf(3)
        y = run(x)
        y.sum().backward()
        return y, x.grad

    compiled = stator.compile(reentrant_forward, backend=lambda gm, inputs: gm.forward)
    scenario(compiled)
    assert_same(scenario(compiled), scenario(reentrant_forward))


def test_reentrant_part_that_asks_whether_its_argument_is_a_leaf():
    """The backward pass gives the part detached arguments: leaves."""

    def part(t):
        return t.sin() * (3 if t.is_leaf else 2)

    def scenario(run):
        x = leaf(3)
        y = run(x * 2)
        y.sum().backward()
        return y, x.grad

    def program(x):
        return reentrant(part, x)

    compiled = stator.compile(program)
    scenario(compiled)
    assert_same(scenario(compiled), scenario(program))
