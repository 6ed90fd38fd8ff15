"""Lazy modules that a compiled function makes, or calls for the first time: their first call runs as plain Python, and
the rest of the function is captured."""

import pytest
import torch
from torch import nn

import stator
from tests.python.helpers import assert_same, captures

MADE = {
    "linear": (lambda: nn.LazyLinear(3), (4, 5), 1),
    "conv": (lambda: nn.LazyConv2d(3, 1), (2, 5, 4, 4), 1),
    "norm": (lambda: nn.LazyBatchNorm1d(), (4, 5), 1),
    "several": (lambda: nn.Sequential(nn.LazyLinear(3), nn.ReLU(), nn.LazyLinear(2)), (4, 5), 2),
}


@pytest.mark.parametrize("backend", ["reference", "aot_eager"])
@pytest.mark.parametrize("name", MADE)
def test_called_by_a_function(name, backend):
    make, sizes, count = MADE[name]
    nets = [make() for _ in range(2)]

    def call(net):
        return lambda x: net(x) * 2

    compiled = stator.compile(call(nets[1]), backend=backend)
    for _ in range(3):
        x = torch.randn(sizes)
        state = torch.random.get_rng_state()
        expected = call(nets[0])(x)
        torch.random.set_rng_state(state)
        assert_same(compiled(x), expected)
        assert [type(m) for m in nets[1].modules()] == [type(m) for m in nets[0].modules()]
        assert_same(nets[1].state_dict(), nets[0].state_dict())
    # A capture ends at each lazy module, and one begins behind it; the later calls share another one.
    assert 0 < captures() <= 2 * count + 1


@pytest.mark.parametrize("backend", ["reference", "aot_eager"])
def test_made_by_a_function(backend):
    def fn(x):
        return nn.LazyLinear(3)(x).sum()

    compiled = stator.compile(fn, backend=backend)
    for size in (5, 5, 6):
        x = torch.randn(4, size)
        state = torch.random.get_rng_state()
        expected = fn(x)
        torch.random.set_rng_state(state)
        assert_same(compiled(x), expected)
