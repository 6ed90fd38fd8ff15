"""Other tools of torch on a compiled thing do what they do on the original."""

import functools
import inspect
import types

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


def test_a_call_of_what_torch_compile_returned(original, x):
    inner = torch.compile(original, backend="eager")
    compiled = stator.compile(lambda x: inner(x) * 2, fullgraph=True)
    for _ in range(2):
        assert torch.equal(compiled(x), original(x) * 2)


def test_a_wrapper_around_what_torch_compile_returned(x):
    inner = torch.compile(f, backend="eager")

    @functools.wraps(inner)
    def wrapper(x):
        return inner(x) * 2

    assert torch.equal(stator.compile(wrapper)(x), f(x) * 2)


class Counted:
    """A backend that counts its graphs."""

    def __init__(self):
        self.graphs = 0

    def __call__(self, gm, example_inputs):
        self.graphs += 1
        return gm.forward


@pytest.mark.parametrize("fullgraph", [False, True])
def test_torch_compile(original, x, fullgraph):
    peer = Counted()
    compiled = torch.compile(stator.compile(original), backend=peer, fullgraph=fullgraph)
    for _ in range(2):
        assert torch.equal(compiled(x), original(x))
    assert peer.graphs == 1 and captures() == 0


def test_a_call_inside_torch_compile(original, x):
    inner, peer = stator.compile(original), Counted()
    compiled = torch.compile(lambda x: inner(x) * 2, backend=peer, fullgraph=True)
    for _ in range(2):
        assert torch.equal(compiled(x), original(x) * 2)
    assert peer.graphs == 1 and captures() == 0


@pytest.mark.parametrize("strict", [False, True])
def test_export(x, strict):
    model = Model()
    texts = [str(torch.export.export(m, (x,), strict=strict).graph) for m in (model, stator.compile(model))]
    assert texts[0] == texts[1]


def test_symbolic_trace(original, x):
    if not isinstance(original, torch.nn.Module) and original is not f:
        pytest.skip("torch.fx takes no methods")
    compiled = stator.compile(original)
    assert str(torch.fx.symbolic_trace(compiled).graph) == str(torch.fx.symbolic_trace(original).graph)


def test_jit(x):
    assert torch.jit.script(stator.compile(f)).code == torch.jit.script(f).code
    for original in (f, Model()):
        traced = torch.jit.trace(stator.compile(original), (x,))
        assert torch.equal(traced(x), original(x))
        assert traced.code == torch.jit.trace(original, (x,)).code


def test_a_compiled_function_reads_like_the_function():
    compiled = stator.compile(f)
    assert isinstance(compiled, types.FunctionType) and inspect.isfunction(compiled)
    assert type(compiled) is not types.FunctionType
    assert compiled.__code__ is f.__code__ and compiled.__globals__ is f.__globals__
    assert inspect.getsource(compiled) == inspect.getsource(f)
    assert inspect.signature(compiled) == inspect.signature(f)


def test_a_wrapper_around_a_compiled_function_is_not_taken_for_it(x):
    inner = stator.compile(f)

    @functools.wraps(inner)
    def wrapper(x):
        return inner(x) * 3

    assert torch.equal(torch.compile(wrapper, backend="eager")(x), f(x) * 3)
    assert torch.equal(stator.compile(wrapper)(x), f(x) * 3)
