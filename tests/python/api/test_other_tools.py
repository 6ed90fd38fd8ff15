"""Other tools of torch on a compiled thing do what they do on the original."""

import functools

import pytest
import torch

import stator
from tests.python.helpers import captures


def f(x):
    return (x.sin() + 1).relu()


class Model(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.linear = torch.nn.Linear(3, 2)

    def forward(self, x):
        return self.linear(x).relu()


@pytest.fixture
def x():
    return torch.linspace(-1, 1, 12).reshape(4, 3)


@pytest.fixture(params=["function", "module", "method"])
def original(request):
    model = Model()
    return {"function": f, "module": model, "method": model.forward}[request.param]


def test_what_torch_compile_returned(original, x):
    graphs = []

    def peer(gm, example_inputs):
        graphs.append(gm)
        return gm.forward

    compiled = stator.compile(torch.compile(original, backend=peer), fullgraph=True)
    for _ in range(2):
        assert torch.equal(compiled(x), original(x))
    assert captures() == 1 and not graphs


def test_a_wrapper_around_what_torch_compile_returned(x):
    inner = torch.compile(f, backend="eager")

    @functools.wraps(inner)
    def wrapper(x):
        return inner(x) * 2

    assert torch.equal(stator.compile(wrapper)(x), f(x) * 2)
