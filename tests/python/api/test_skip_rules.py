"""Frames that run as plain Python, and frames that must not."""

import collections

import pytest
import torch
from torch.overrides import TorchFunctionMode
from torch.utils._python_dispatch import TorchDispatchMode

import stator
from tests.python.helpers import captures

Pair = collections.namedtuple("Pair", "a b")


def f(x):
    return x.sin() + 1


@pytest.fixture
def x():
    return torch.ones(3)


def test_dispatch_mode_sees_every_op(x):
    class Log(TorchDispatchMode):
        def __torch_dispatch__(self, func, types, args=(), kwargs=None):
            seen.append(str(func))
            return func(*args, **(kwargs or {}))

    seen = []
    compiled = stator.compile(f)
    compiled(x)
    for _ in range(2):
        seen.clear()
        with Log():
            out = compiled(x)
        assert torch.equal(out, f(x))
        assert seen == ["aten.sin.default", "aten.add.Tensor"]


def test_function_mode_is_obeyed(x):
    class AddIsMul(TorchFunctionMode):
        def __torch_function__(self, func, types, args=(), kwargs=None):
            if func in (torch.Tensor.add, torch.add):
                func = torch.mul
            return func(*args, **(kwargs or {}))

    def add(x):
        return torch.add(x, 5)

    compiled = stator.compile(add)
    for _ in range(2):
        assert torch.equal(compiled(x), x + 5)
        with AddIsMul():
            assert torch.equal(compiled(x), x * 5)


def test_directly_compiled_function_whose_helper_makes_the_tensor(K):
    def helper(n):
        return torch.ones(n) * 2

    compiled = stator.compile(lambda n: helper(n), backend=K)
    assert torch.equal(compiled(3), torch.ones(3) * 2)
    assert K.count == 1


@pytest.mark.parametrize(
    "wrap",
    [
        lambda x: x,
        lambda x: [1, [x]],
        lambda x: {"a": {"b": x}},
        lambda x: Pair(1, x),
        lambda x: (x, (x, None)),
        lambda x: collections.OrderedDict(a=x),
    ],
    ids=["tensor", "list", "dict", "namedtuple", "tuple", "OrderedDict"],
)
def test_tensors_in_containers_are_found(x, wrap):
    def find(thing):
        if isinstance(thing, torch.Tensor):
            return thing
        values = thing.values() if isinstance(thing, dict) else thing
        for value in values:
            if value is not None and not isinstance(value, int):
                return find(value)

    def use(thing):
        return find(thing) + 1

    compiled = stator.compile(use)
    for _ in range(2):
        assert torch.equal(compiled(wrap(x)), x + 1)
    assert captures() == 1


def test_backend_that_runs_new_graph_modules_is_not_chased(x):
    built = []

    def rebuilds(gm, example_inputs):
        class Root(torch.nn.Module):
            def forward(self, x):
                return (x.sin() + 1,)

        traced = torch.fx.symbolic_trace(Root())
        built.append(traced)
        return lambda *args: traced(*args)

    compiled = stator.compile(f, backend=rebuilds)
    for _ in range(3):
        assert torch.equal(compiled(x), f(x))
    assert len(built) == 1 and captures() == 1


def test_generator_needs_an_ordinary_function(x):
    def generates(x):
        yield x + 1

    def consumes(x):
        return sum(generates(x))

    assert torch.equal(list(stator.compile(generates)(x))[0], x + 1)
    with pytest.raises(stator.Unsupported, match="generator") as error:
        list(stator.compile(generates, fullgraph=True)(x))
    assert "ordinary function" in str(error.value)
    assert torch.equal(stator.compile(consumes)(x), x + 1)


def test_code_from_a_string(x):
    namespace = {"x": x, "torch": torch}
    exec("def g(x): return torch.relu(x) + 1", namespace)
    compiled = stator.compile(namespace["g"])
    assert torch.equal(compiled(x), x + 1)
    assert captures() == 1

    def runs(x):
        scope = {"x": x}
        exec("y = x + 1", scope)
        return scope["y"]

    assert torch.equal(stator.compile(runs)(x), x + 1)


def test_jit_trace_of_a_compiled_function(x):
    compiled = stator.compile(f)
    compiled(x)
    traced = torch.jit.trace(compiled, (x,))
    y = torch.full((3,), 2.0)
    assert torch.equal(traced(y), f(y))


def test_fx_trace_of_a_compiled_function(x):
    compiled = stator.compile(f)
    compiled(x)
    gm = torch.fx.symbolic_trace(lambda t: compiled(t) * 2)
    y = torch.full((3,), 2.0)
    assert torch.equal(gm(y), f(y) * 2)


def test_setattr_that_touches_tensors(x):
    class Watch:
        def __setattr__(self, name, value):
            object.__setattr__(self, name, value + 1)

    def sets(x):
        w = Watch()
        w.v = x
        return w.v * 2

    assert torch.equal(stator.compile(sets)(x), (x + 1) * 2)
