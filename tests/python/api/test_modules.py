"""A compiled module differs from the original only in how a call runs."""

import copy
import io
import pickle
import weakref

import pytest
import torch
from torch import nn

import stator
from tests.python.helpers import Counting, captures, collect


class Net(nn.Module):
    """A net."""

    registry = []

    def __init_subclass__(cls, **kwargs):
        super().__init_subclass__(**kwargs)
        Net.registry.append(cls)

    def __init__(self):
        super().__init__()
        self.l = nn.Linear(3, 4)
        self.drop = nn.Dropout(0.5)
        self.register_buffer("offset", torch.arange(4.0))
        self.scale = 2.0

    def forward(self, x):
        assert type(self) is Net
        return self.drop(self.l(x) * self.scale + self.offset)

    def helper(self):
        return self.scale

    @property
    def doubled(self):
        return self.scale * 2


@pytest.fixture
def x():
    return torch.randn(2, 3)


@pytest.fixture
def m():
    torch.manual_seed(0)
    return Net().eval()


def test_state_is_the_originals(m, x):
    o = stator.compile(m)
    assert list(o.state_dict()) == list(m.state_dict()) == ["offset", "l.weight", "l.bias"]
    assert all(a is b for a, b in zip(o.parameters(), m.parameters(), strict=True))
    assert [n for n, _ in o.named_parameters()] == ["l.weight", "l.bias"]
    assert [n for n, _ in o.named_buffers()] == ["offset"]
    assert [n for n, _ in o.named_children()] == ["l", "drop"]
    assert [n for n, _ in o.named_modules()] == ["", "l", "drop"]
    assert torch.equal(o(x), m(x))
    assert captures() == 1
    o.load_state_dict({name: torch.zeros_like(value) for name, value in m.state_dict().items()})
    assert m.l.weight.abs().sum() == 0
    assert torch.equal(o(x), m(x))


def test_looks_like_the_original(m):
    o = stator.compile(m)
    assert isinstance(o, Net) and isinstance(o, nn.Module)
    assert repr(o) == repr(m) and str(o) == str(m)
    assert type(o).__name__ == "Net" and type(o).__qualname__ == "Net" and type(o).__module__ == Net.__module__
    assert o.__doc__ == "A net."
    assert set(dir(m)) <= set(dir(o))
    assert o.helper() == 2.0 and o.doubled == 4.0
    assert o.__dict__ is m.__dict__


def test_the_original_is_left_alone(m, x):
    before = type(m), dict(vars(type(m))), list(vars(m))
    registered = list(Net.registry)
    o = stator.compile(m)
    o(x)
    assert (type(m), dict(vars(type(m))), list(vars(m))) == before
    assert Net.registry == registered
    counted = captures()
    m(x)
    assert captures() == counted


def test_attributes_go_both_ways(m):
    o = stator.compile(m)
    o.k = 5
    assert m.k == 5
    del o.k
    assert not hasattr(m, "k")
    m.k = 6
    assert o.k == 6
    o.extra = nn.Linear(1, 1)
    assert "extra.weight" in m.state_dict()
    del o.extra
    assert "extra.weight" not in m.state_dict()
    with pytest.raises(AttributeError, match="'Net' object has no attribute 'nothing'"):
        _ = o.nothing


def test_changed_attributes_are_seen_by_calls(m, x):
    o = stator.compile(m)
    for scale in (2.0, 3.0, 2.0):
        o.scale = scale
        assert torch.equal(o(x), m(x))
    o.l = nn.Linear(3, 4)
    assert torch.equal(o(x), m(x))
    m.l.weight = nn.Parameter(torch.zeros(4, 3))
    assert torch.equal(o(x), m(x))


def test_training_flag(m, x):
    K = Counting()
    o = stator.compile(m, backend=K)
    assert o.training is False
    assert o.train() is o and m.training and m.l.training
    torch.manual_seed(3)
    a = o(x)
    torch.manual_seed(3)
    assert torch.equal(a, m(x))
    o.eval()
    assert not m.training
    assert torch.equal(o(x), m(x))
    assert K.count == 2


def test_conversion(m, x):
    o = stator.compile(m)
    assert torch.equal(o(x), m(x))
    assert o.to(torch.float64) is o and m.l.weight.dtype == torch.float64
    y = o(x.double())
    assert y.dtype == torch.float64 and torch.equal(y, m(x.double()))
    o.float().requires_grad_(False)
    assert not o(x).requires_grad
    o.apply(lambda module: None)
    o.zero_grad()


def test_hooks_fire_once_and_are_shared(m, x):
    o = stator.compile(m)
    seen = []
    handle = o.register_forward_hook(lambda module, args, out: seen.append(type(module)) or out + 1)
    y = o(x)
    assert seen == [Net]
    handle.remove()
    assert torch.equal(y, o(x) + 1)
    pre = m.register_forward_pre_hook(lambda module, args: (args[0] * 2,))
    assert torch.equal(o(x), m(x))
    pre.remove()
    assert torch.equal(o(x), m(x))
    assert len(seen) == 1


def test_global_module_hook_fires_as_in_eager(m, x):
    o = stator.compile(m)
    seen = []
    handle = nn.modules.module.register_module_forward_hook(lambda module, args, out: seen.append(type(module)))
    try:
        m(x)
        expected, seen[:] = list(seen), []
        o(x)
        assert seen == expected
    finally:
        handle.remove()


def test_containers():
    s = stator.compile(nn.Sequential(nn.Linear(3, 3), nn.ReLU()))
    assert len(s) == 2 and isinstance(s[1], nn.ReLU) and [type(c) for c in s] == [nn.Linear, nn.ReLU]
    x = torch.randn(2, 3)
    assert s(x).shape == (2, 3) and captures() == 1
    with pytest.raises(TypeError, match="Net"):
        len(stator.compile(Net()))


def test_builtin_module_is_captured(x):
    K = Counting()
    linear = nn.Linear(3, 3)
    o = stator.compile(linear, backend=K, fullgraph=True)
    for _ in range(2):
        assert torch.equal(o(x), linear(x))
    assert K.count == 1


@pytest.mark.parametrize("how", ["deepcopy", "pickle", "torch.save"])
def test_copies(m, x, how):
    K_free = stator.compile(m, fullgraph=True)
    y = K_free(x)
    if how == "deepcopy":
        c = copy.deepcopy(K_free)
    elif how == "pickle":
        c = pickle.loads(pickle.dumps(K_free))
    else:
        file = io.BytesIO()
        torch.save(K_free, file)
        file.seek(0)
        c = torch.load(file, weights_only=False)
    before, hits = captures(), stator.counters()["cache"]["hits"]
    assert isinstance(c, Net) and type(c) is not Net
    assert torch.equal(c(x), y)
    assert stator.counters()["cache"]["hits"] == hits + 1, "the copy is compiled too"
    assert captures() == before, "the copy shares the entries of the original"
    assert all(a is not b for a, b in zip(c.parameters(), m.parameters(), strict=True))
    c.scale = 7.0
    assert m.scale == 2.0
    assert torch.equal(K_free(x), y)


def test_shallow_copy_shares_parameters(m, x):
    c = copy.copy(stator.compile(m))
    assert c.l is m.l
    assert torch.equal(c(x), m(x))


def test_compiled_inside_a_bigger_module(x):
    class Outer(nn.Module):
        def __init__(self):
            super().__init__()
            self.inner = stator.compile(nn.Linear(3, 3))
            self.last = nn.Linear(3, 1)

        def forward(self, x):
            return self.last(self.inner(x))

    outer = Outer()
    assert list(outer.state_dict()) == ["inner.weight", "inner.bias", "last.weight", "last.bias"]
    y = outer(x)
    assert captures() == 1
    K = Counting()
    whole = stator.compile(outer, backend=K, fullgraph=True)
    assert torch.equal(whole(x), y)
    assert K.count == 1
    twin = copy.deepcopy(outer)
    assert torch.equal(twin(x), y)


def test_compile_twice_is_one_layer(m, x):
    K = Counting()
    o = stator.compile(stator.compile(m), backend=K)
    assert type(o).__mro__[1] is Net
    assert torch.equal(o(x), m(x)) and K.count == 1


def test_lazy_module(x):
    K = Counting()
    lazy = nn.LazyLinear(4)
    o = stator.compile(lazy, backend=K)
    y = o(x)
    assert y.shape == (2, 4) and type(lazy) is nn.Linear and isinstance(o, nn.Linear)
    assert torch.equal(o(x), y) and torch.equal(lazy(x), y)
    assert K.count == 1


def test_slots():
    class Slotted(nn.Module):
        __slots__ = ("fast",)

        def __init__(self):
            super().__init__()
            self.fast = 3

        def forward(self, x):
            return x * self.fast

    x = torch.ones(2)
    m = Slotted()
    o = stator.compile(m)
    assert o.fast == 3 and torch.equal(o(x), x * 3)
    o.fast = 4
    assert m.fast == 4 and torch.equal(o(x), x * 4)


def test_graph_module_is_not_kept_alive(m, x):
    traced = torch.fx.symbolic_trace(nn.Sequential(nn.Linear(3, 3), nn.ReLU()))
    o = stator.compile(traced)
    assert torch.equal(o(x), traced(x)) and captures() == 1
    alive = weakref.ref(traced)
    del traced, o
    collect()
    assert alive() is None


def test_wrapper_keeps_nothing_after_it_dies(m, x):
    o = stator.compile(m)
    o(x)
    parameter, wrapper = weakref.ref(m.l.weight), weakref.ref(o)
    del o
    collect()
    assert wrapper() is None
    del m
    collect()
    # The fixture still has a reference to the module.
    assert parameter() is not None


def test_module_in_a_local_scope_dies(x):
    def scope():
        module = Net().eval()
        o = stator.compile(module)
        o(x)
        return weakref.ref(module), weakref.ref(module.l.weight)

    module, weight = scope()
    collect()
    assert module() is None and weight() is None


def test_calling_forward_directly_is_plain(x):
    o = stator.compile(nn.Linear(3, 3))
    assert torch.equal(o.forward(x), o(x))
    assert captures() == 1
    o.forward(torch.randn(5, 3))
    assert captures() == 1


def test_scripted_module_is_refused():
    with pytest.raises(stator.InvalidTarget, match="TorchScript"):
        stator.compile(torch.jit.script(nn.Linear(2, 2)))


def test_module_whose_forward_raises(x):
    class Raises(nn.Module):
        def forward(self, x):
            raise LookupError("from forward")

    o = stator.compile(Raises())
    for _ in range(2):
        with pytest.raises(LookupError, match="from forward"):
            o(x)


def test_backward_through_a_compiled_module(m, x):
    o = stator.compile(m, fullgraph=True)
    o(x).sum().backward()
    mine = m.l.weight.grad.clone()
    m.zero_grad()
    m(x).sum().backward()
    assert torch.equal(mine, m.l.weight.grad)
