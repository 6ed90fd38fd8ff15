"""Programs that torch's make_fx traces wrong, or fails on, without need."""

import functools
import threading

import pytest
import torch
import torch.nn.functional as F

import stator
from tests.python.make_fx.helpers import calls, node, placeholders

MODES = ["real", "fake", "symbolic"]
aten = torch.ops.aten


@pytest.fixture
def x():
    torch.manual_seed(0)
    return torch.randn(3, 4)


TRANSFORMS = {
    "vmap": lambda a: torch.func.vmap(torch.sin)(a),
    "vmap of grad": lambda a: torch.func.vmap(torch.func.grad(lambda z: (z * z).sum()))(a),
    "jvp": lambda a: torch.func.jvp(torch.sin, (a,), (torch.ones_like(a),))[1],
    "vjp": lambda a: torch.func.vjp(torch.sin, a)[1](torch.ones_like(a))[0],
}


@pytest.mark.parametrize("name", TRANSFORMS)
def test_transforms_above_autograd(x, name):
    module = stator.make_fx(TRANSFORMS[name], pre_dispatch=True)(x)
    assert [n for n in module.graph.nodes if n.op == "get_attr"] == []
    torch.testing.assert_close(module(x + 1), TRANSFORMS[name](x + 1))


def test_a_graph_is_decomposed_without_stray_nodes(x):
    module = stator.make_fx(lambda a: F.silu(a) + 1)(x)
    again = stator.make_fx(module, {aten.silu.default: lambda t: t * t.sigmoid()})(x)
    assert calls(again) == ["sigmoid.default", "mul.Tensor", "add.Tensor"]
    assert placeholders(again) == ["arg0_1"]
    torch.testing.assert_close(again(x + 1), module(x + 1))


class Leaf(torch.nn.Module):
    def forward(self, x):
        return x.sin()


class TwoNames(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.a = Leaf()
        self.b = self.a
        self.items = torch.nn.ModuleList([self.a])

    def forward(self, x):
        return self.items[0](self.b(self.a(x)))


def test_two_names_of_one_module(x):
    reader = torch.nn.Module.__getattr__
    module = stator.make_fx(TwoNames(), record_module_stack=True)(x)
    stacks = [list(n.meta["nn_module_stack"].values())[-1][0] for n in module.graph.nodes if n.op == "call_function"]
    assert stacks == ["a", "b", "items.0"]
    assert torch.nn.Module.__getattr__ is reader


def test_names_of_modules_in_traces_that_overlap(x):
    """The first trace ends while the second one runs."""
    inside, ended, found = [threading.Event(), threading.Event()], threading.Event(), [None, None]

    class Waits(TwoNames):
        def __init__(self, number):
            super().__init__()
            self.number = number

        def forward(self, x):
            inside[self.number].set()
            assert (ended if self.number else inside[1]).wait(60)
            return super().forward(x)

    def trace(number):
        module = stator.make_fx(Waits(number), record_module_stack=True)(x)
        nodes = [n for n in module.graph.nodes if n.op == "call_function"]
        found[number] = [list(n.meta["nn_module_stack"].values())[-1][0] for n in nodes]

    reader = torch.nn.Module.__getattr__
    first, second = (threading.Thread(target=trace, args=(number,)) for number in range(2))
    first.start()
    assert inside[0].wait(60)
    second.start()
    first.join()
    ended.set()
    second.join()
    assert found == [["a", "b", "items.0"]] * 2
    assert torch.nn.Module.__getattr__ is reader


def test_calls_of_one_module_under_one_name(x):
    class Again(TwoNames):
        def forward(self, x):
            return self.items[0](self.items[0](x))

    module = stator.make_fx(Again(), record_module_stack=True)(x)
    keys = [list(n.meta["nn_module_stack"])[-1] for n in module.graph.nodes if n.op == "call_function"]
    assert keys == ["items.0", "items.0@1"]


def test_the_names_of_functions_can_be_left_out(x):
    module = stator.make_fx(TwoNames(), record_module_stack=True, _disable_torch_fn_metadata_mode=True)(x)
    assert "nn_module_stack" in node(module, "sin").meta and "torch_fn" not in node(module, "sin").meta
    assert "torch_fn" in node(stator.make_fx(TwoNames(), record_module_stack=True)(x), "sin").meta


def test_modules_that_are_not_registered(x):
    other, graph = Leaf(), stator.make_fx(Leaf())(x)

    class Calls(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.graph = graph

        def forward(self, x):
            return self.graph(other(x))

    module = stator.make_fx(Calls(), record_module_stack=True)(x)
    assert [list(n.meta["nn_module_stack"]) for n in module.graph.nodes if n.op == "call_function"] == [[""], [""]]


@pytest.mark.parametrize("mode", MODES)
def test_a_constructor_that_reads_traced_data(x, mode):
    with pytest.raises(RuntimeError, match="cannot be traced.*torch.tensor"):
        stator.make_fx(lambda a: torch.tensor([a.sum(), a.sum()]), tracing_mode=mode)(x)


@pytest.mark.parametrize("mode", MODES)
def test_tensors_that_are_swapped(x, mode):
    """Torch swaps no tensors with weak references, and a trace holds such references."""

    def program(a):
        b, c = a.sin(), a.cos()
        torch.utils.swap_tensors(b, c)
        return b, c

    with pytest.raises(RuntimeError, match="Expected no weakrefs"):
        stator.make_fx(program, tracing_mode=mode)(x)


def test_the_name_of_the_module_and_no_dynamo(x):
    def named(a):
        return torch.cond(a.sum() > 0, torch.sin, torch.cos, (a,))

    from torch._dynamo.utils import counters

    counters.clear()
    module = stator.make_fx(named)(x)
    assert type(module).__name__ == "named"
    assert calls(module) == ["sum.default", "gt.Scalar", "cond", "getitem"]
    assert not counters["frames"]


def test_compiled_and_scripted_functions(x):
    def program(a):
        return (a * 2).sin()

    for function in (stator.compile(program), torch.jit.script(program), torch.jit.trace(program, (x,))):

        def call(a, *, function=function):
            return function(a)

        module = stator.make_fx(functools.partial(call))(x)
        assert torch.equal(module(x + 1), program(x + 1))


def test_a_generator_function(x):
    def rows(a):
        yield a[0] * 2
        with torch.no_grad():
            yield a[1] * 3

    module = stator.make_fx(lambda a: torch.stack(list(rows(a))))(x)
    assert torch.equal(module(x + 1), torch.stack(list(rows(x + 1))))

    def suspended(a):
        made = rows(a)
        next(made)
        return next(made)

    stator.make_fx(suspended)(x)
    assert torch.is_grad_enabled()
