"""Backends that torch knows by name, with mode and options as torch.compile passes them."""

import subprocess
import sys

import pytest
import torch

import stator
from stator import backends
from tests.python.helpers import assert_same, captures


def f(x):
    return (x.sin() + 1).relu().sum()


@pytest.fixture
def x():
    return torch.linspace(-1, 1, 12).reshape(3, 4)


@pytest.fixture
def torch_names(monkeypatch):
    """A place for names that a test registers in torch."""
    from torch._dynamo.backends import registry

    monkeypatch.setattr(registry, "_BACKENDS", dict(registry._BACKENDS))
    monkeypatch.setattr(registry, "_COMPILER_FNS", dict(registry._COMPILER_FNS))
    yield registry
    torch.compiler.set_default_backend(None)


NAMES = ["eager", "aot_eager", "aot_eager_decomp_partition", "pre_dispatch_eager", "eager_debug", "eager_noexcept"]


@pytest.mark.parametrize("name", NAMES)
def test_a_function_and_its_gradients(x, name, capsys):
    weight = torch.ones(4, requires_grad=True)

    def loss(x):
        return (x * weight).tanh().sum()

    compiled = stator.compile(loss, backend=name, fullgraph=True)
    for _ in range(2):
        mine, theirs = compiled(x), loss(x)
        torch.testing.assert_close(mine, theirs)
        if name == "pre_dispatch_eager":  # as under torch.compile, it gives results without gradients
            continue
        torch.testing.assert_close(*(torch.autograd.grad(value, weight)[0] for value in (mine, theirs)))
    assert captures() == 1


def test_inductor(x):
    weight = torch.ones(2, 4, requires_grad=True)

    def loss(x):
        return torch.nn.functional.linear(x, weight).relu().square().sum()

    compiled = stator.compile(loss, backend="inductor", options={"max_fusion_size": 32})
    for _ in range(2):
        mine, theirs = compiled(x), loss(x)
        torch.testing.assert_close(mine, theirs)
        torch.testing.assert_close(*(torch.autograd.grad(value, weight)[0] for value in (mine, theirs)))
    assert captures() == 1
    assert compiled.get_compiler_config()["max_fusion_size"] == 32


def test_torch_dynamo_is_imported_only_for_its_names():
    program = """
import sys, torch, stator
f = lambda x: x + 1
for backend in (None, "eager", "reference", lambda gm, inputs: gm.forward):
    assert stator.compile(f, backend=backend)(torch.ones(1)).item() == 2
assert "torch._dynamo" not in sys.modules
stator.compile(f, backend="aot_eager")
assert "torch._dynamo" in sys.modules
"""
    subprocess.run([sys.executable, "-c", program], check=True)


def test_modes_and_options_of_inductor_are_checked_by_inductor():
    made = backends.resolve("inductor", "reduce-overhead", None)
    assert made.target.config == torch._inductor.list_mode_options("reduce-overhead")
    assert made.name == "inductor"
    assert backends.resolve("inductor", None, {"max-fusion-size": 3}).target.config == {"max_fusion_size": 3}
    for wrong in ({"mode": "fastest"}, {"options": {"nonesuch": 1}}, {"options": {"max_fusion_size": "many"}}):
        with pytest.raises(stator.InvalidOption):
            stator.compile(f, backend="inductor", **wrong)


def test_equal_settings_share_entries(x):
    for _ in range(2):
        stator.compile(f, backend="aot_eager")(x)
    assert len(stator.cache_entries(f)) == 1


def test_names_registered_in_torch(x, torch_names):
    got = []

    @torch._dynamo.register_backend(name="mine_in_torch")
    def mine(gm, example_inputs, **keywords):
        got.append(keywords)
        return gm.forward

    assert torch.equal(stator.compile(f, backend="mine_in_torch", options={"level": 2})(x), f(x))
    assert got == [{"options": {"level": 2}}]
    assert "mine_in_torch" in stator.list_backends()


def test_names_of_entry_points(x, torch_names, monkeypatch):
    from importlib import metadata

    class Entry:
        name = "installed"

        def load(self):
            return lambda gm, example_inputs: gm.forward

    def entry_points(*, group, name=None):
        return [Entry()] if group == "torch_dynamo_backends" and name in (None, "installed") else []

    monkeypatch.setattr(metadata, "entry_points", entry_points)
    monkeypatch.setattr(backends, "_registry", {})
    assert "installed" in stator.list_backends()
    assert torch.equal(stator.compile(f, backend="installed")(x), f(x))


def test_list_has_torchs_names():
    assert {"inductor", "cudagraphs", "eager", "reference"} <= set(stator.list_backends())
    assert "aot_eager" not in stator.list_backends() and "aot_eager" in stator.list_backends(None)


def test_the_name_eager_ignores_mode_and_options(x):
    for settings in ({"mode": "reduce-overhead"}, {"options": {"level": 3}}):
        with pytest.warns(UserWarning, match="'eager' ignores"):
            compiled = stator.compile(f, backend="eager", **settings)
        assert torch.equal(compiled(x), f(x))


def test_a_mode_without_a_backend_says_which_one_has_it():
    with pytest.raises(stator.InvalidOption, match='backend="inductor"'):
        stator.compile(f, mode="reduce-overhead")


def test_default_backend_of_torch(x, torch_names):
    got = []

    def mine(gm, example_inputs):
        got.append(gm)
        return gm.forward

    torch.compiler.set_default_backend(mine)
    assert torch.equal(stator.compile(f)(x), f(x))
    assert len(got) == 1
    assert torch.equal(stator.compile(f, backend="eager")(x), f(x))
    assert len(got) == 1
    torch.compiler.set_default_backend(None)
    assert backends.resolve(None, None, None).name == "reference"


class TestForcedBackend:
    def test_replaces_the_backend_of_each_call(self, x):
        got = []

        def forced(gm, example_inputs):
            got.append("forced")
            return gm.forward

        def own(gm, example_inputs):
            got.append("own")
            return gm.forward

        compiled = stator.compile(f, backend=own)
        with torch.compiler.set_stance("default", force_backend=forced):
            for _ in range(2):
                assert torch.equal(compiled(x), f(x))
            assert got == ["forced"]
        assert torch.equal(compiled(x), f(x))
        assert got == ["forced", "own"]
        with torch.compiler.set_stance("default", force_backend=forced):
            compiled(x)
        assert got == ["forced", "own"]

    def test_of_a_module(self, x):
        got = []

        def forced(gm, example_inputs):
            got.append("forced")
            return gm.forward

        layer = torch.nn.Linear(4, 2)
        compiled = stator.compile(layer)
        for stance in ({}, {"force_backend": forced}, {}):
            with torch.compiler.set_stance("default", **stance):
                for _ in range(2):
                    assert torch.equal(compiled(x), layer(x))
        assert got == ["forced"]

    def test_by_name(self, x):
        with torch.compiler.set_stance("default", force_backend="aot_eager"):
            torch.testing.assert_close(stator.compile(f)(x), f(x))
        assert [entry["backend"] for entry in stator.cache_entries(f)] == ["aot_eager"]


def test_operators_that_compilers_cannot_trace():
    def f(a, labels):
        lengths = torch.tensor([6, 6]), torch.tensor([2, 1])
        return torch.nn.functional.ctc_loss(a.log_softmax(-1), labels, *lengths) * 2

    compiled = stator.compile(f, backend="aot_eager")
    labels = torch.tensor([[1, 2], [3, 1]])
    inputs = [torch.linspace(0, 1, 48).view(6, 2, 4).requires_grad_() for _ in range(2)]
    with pytest.warns(UserWarning, match="runs without the backend"):
        compiled(inputs[0], labels)
    for function, a in zip((f, compiled), inputs, strict=True):
        function(a, labels).backward()
    assert torch.equal(inputs[0].grad, inputs[1].grad)


# Torch's fakes have no shape function for `geqrf`; with constant sizes they run it.
REFUSED = {"cov": "it looks at data", "corrcoef": "it looks at data", "geqrf": "torch has no shape function"}


@pytest.mark.parametrize("name", REFUSED)
def test_operators_whose_fakes_torch_refuses(name):
    def f(a):
        return list(getattr(torch, name)(a))

    compiled = stator.compile(f, backend="aot_eager", dynamic=name == "geqrf")
    a, b = torch.randn(3, 5), torch.randn(3, 6)
    with pytest.warns(UserWarning, match=REFUSED[name]):
        seen = compiled(a)
    assert_same(seen, f(a))
    assert_same(compiled(b), f(b))


@pytest.mark.parametrize("first", [True, False], ids=["batch first", ""])
@pytest.mark.parametrize("dropout", [0.0, 0.5])
@pytest.mark.parametrize("kind", [torch.nn.LSTM, torch.nn.GRU, torch.nn.RNN], ids=lambda kind: kind.__name__)
def test_recurrent_layers(kind, dropout, first):
    """Torch's compilers would draw other random numbers for them, and fail on the gradients of an LSTM."""
    layer = kind(4, 6, 2, dropout=dropout, batch_first=first)

    def f(a):
        return layer(a * 2)[0].square().mean() + 1

    compiled = stator.compile(f, backend="aot_eager")
    for seed in range(3):
        seen = []
        for function in (f, compiled):
            layer.zero_grad()
            torch.manual_seed(seed)
            result = function(torch.randn(2, 5, 4))
            result.backward()
            seen.append((result.detach(), [p.grad.clone() for p in layer.parameters()], torch.rand(1)))
        assert_same(seen[1], seen[0])
    assert captures() == 2, "what precedes the layer, and what follows it"
