"""Modules and parameters that a compiled function makes, under backends of torch: the leaves are captured in one graph,
their gradients and those of the inputs are the plain program's, and what is returned is the leaf itself."""

from __future__ import annotations

import pytest
import torch
from torch import nn

import stator
from tests.python.helpers import assert_same, captures


def reading(gm, example_inputs):
    return torch.fx.GraphModule(gm, gm.graph)


BACKENDS = {"python": reading, "aot_eager": "aot_eager"}


def linear(x):
    return nn.Linear(4, 4)(x)


def linear_and_weight(x):
    layer = nn.Linear(4, 4)
    return layer(x), layer.weight, layer.bias


def several_layers(x):
    net = nn.Sequential(nn.Linear(4, 4), nn.BatchNorm1d(4), nn.ReLU(), nn.Dropout(0.0))
    return net(x), net[0].weight


def made_without_gradients(x):
    with torch.no_grad():
        layer = nn.Linear(4, 4)
    return layer(x), layer.bias


def from_an_input(x):
    weight = nn.Parameter(x.detach() * 2)
    return weight * 3, weight


def from_an_input_alone(x):
    return nn.Parameter(x.detach() * 2) * 3


def detached(x):
    y = (x * 2).detach().requires_grad_()
    return y * y, y


def in_no_grad(x):
    with torch.no_grad():
        y = (x * 2).requires_grad_()
    return y * 2, y


def initialised(x):
    weight, bias = nn.Parameter(torch.empty(4, 4)), nn.Parameter(torch.ones(4))
    nn.init.kaiming_uniform_(weight)
    nn.init.zeros_(bias)
    return x @ weight + bias, weight, bias


def of_other_layouts(x):
    weight = nn.Parameter(torch.rand(4, 4, dtype=torch.float64).t())
    return x.double() @ weight, weight


def many(x):
    weights = [nn.Parameter(x.detach() + i) for i in range(3)]
    return torch.stack([w * 2 for w in weights]).sum(0), *weights


def twice(x):
    y = (x * 2).detach().requires_grad_()
    z = y * 3
    y.requires_grad_(True)
    return z, y, [y]


def unused(x):
    nn.Linear(4, 4)
    return x * 2


ONE_GRAPH = [
    linear,
    linear_and_weight,
    several_layers,
    made_without_gradients,
    from_an_input,
    from_an_input_alone,
    detached,
    in_no_grad,
    initialised,
    of_other_layouts,
    many,
    twice,
    unused,
]


def views(x):
    weight = nn.Parameter(x.detach() * 2)
    return weight.view(-1), weight.t(), weight.detach(), weight


def over_an_input(x):
    weight = nn.Parameter(x)
    return weight * 2, weight


def frozen_again(x):
    layer = nn.Linear(4, 4)
    layer.requires_grad_(False)
    return layer(x), layer.weight


def with_a_hook(x):
    weight = nn.Parameter(x.detach() * 2)
    weight.register_hook(lambda grad: grad * 5)
    return weight * 3, weight


def gradient_inside(x):
    y = (x * 2).detach().requires_grad_()
    (grad,) = torch.autograd.grad((y**2).sum(), y)
    return y * grad, y


def in_a_checkpoint(x):
    def part(t):
        return t * nn.Parameter(torch.ones(4) * 2)

    return torch.utils.checkpoint.checkpoint(part, x, use_reentrant=False)


OTHERS = [views, over_an_input, frozen_again, with_a_hook, gradient_inside, in_a_checkpoint]


def run(fn, requires_grad, seed):
    """What two calls give: results, which of them share memory, and all gradients after a backward pass."""
    torch.manual_seed(seed)
    x = torch.arange(16.0).reshape(4, 4).div(8).requires_grad_(requires_grad)
    results = fn(x)
    flat = [
        t for r in (results if isinstance(results, tuple) else (results,)) for t in (r if isinstance(r, list) else [r])
    ]
    kinds = [(type(t).__name__, t.requires_grad, t.is_leaf, t.stride()) for t in flat]
    shared = [[a.data_ptr() == b.data_ptr() for b in [*flat, x]] for a in flat]
    same = [[a is b for b in flat] for a in flat]
    losses = [t.pow(2).sum() * (i + 1) for i, t in enumerate(flat) if t.requires_grad]
    if losses:
        sum(losses).backward()
    grads = [None if not t.is_leaf else t.grad for t in [*flat, x]]
    return kinds, shared, same, [t.detach().clone() for t in flat], grads, torch.rand(1)


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("requires_grad", [False, True])
@pytest.mark.parametrize("fn", ONE_GRAPH, ids=lambda fn: fn.__name__)
def test_in_one_graph(fn, requires_grad, backend):
    compiled = stator.compile(fn, backend=BACKENDS[backend], fullgraph=True)
    for seed in range(3):
        assert_same(run(compiled, requires_grad, seed), run(fn, requires_grad, seed))
    assert captures() == 1


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("requires_grad", [False, True])
@pytest.mark.parametrize("fn", OTHERS, ids=lambda fn: fn.__name__)
def test_other_uses(fn, requires_grad, backend):
    compiled = stator.compile(fn, backend=BACKENDS[backend])
    for seed in range(3):
        assert_same(run(compiled, requires_grad, seed), run(fn, requires_grad, seed))


def test_each_call_makes_its_own_leaf():
    compiled = stator.compile(linear_and_weight, backend="aot_eager")
    x = torch.ones(2, 4)
    _, first, _ = compiled(x)
    y, second, _ = compiled(x)
    y.sum().backward()
    assert first is not second and first.grad is None
    assert_same(second.grad, torch.full((4, 4), 2.0))


def test_a_float_that_changes_beside_a_leaf():
    def fn(x, w):
        layer = nn.Linear(4, 4)
        return torch.add(layer(x), x, alpha=w), layer.weight

    compiled = stator.compile(fn, backend="aot_eager")
    for w in (0.5, 0.25, 0.125, 2.0):
        assert_same(run(lambda x, w=w: compiled(x, w), False, 0), run(lambda x, w=w: fn(x, w), False, 0))
    assert captures() == 2


def test_the_backend_sees_a_leaf_as_an_input():
    seen = []

    def backend(gm, example_inputs):
        seen.append([(n.target, tuple(n.meta["val"].shape)) for n in gm.graph.nodes if n.op == "placeholder"])
        seen.append([(tuple(t.shape), t.requires_grad, t.is_leaf) for t in example_inputs])
        return gm.forward

    stator.compile(from_an_input, backend=backend)(torch.ones(2, 4))
    assert seen == [[("x", (2, 4)), ("leaf", (2, 4))], [((2, 4), False, True), ((2, 4), True, True)]]


@pytest.mark.parametrize("mode", [torch.no_grad, torch.inference_mode])
@pytest.mark.parametrize("backend", [*BACKENDS.values(), stator.fx.with_torch_targets(reading)])
def test_without_gradients(backend, mode):
    compiled = stator.compile(linear_and_weight, backend=backend)
    for seed in range(2):
        found = []
        for fn in (linear_and_weight, compiled):
            torch.manual_seed(seed)
            with mode():
                results = fn(torch.ones(2, 4))
            kinds = [(type(t), t.requires_grad, t.is_leaf, t.is_inference()) for t in results]
            found.append((kinds, [t.detach().clone() for t in results]))
        assert_same(found[1], found[0])
    assert captures() > 0
