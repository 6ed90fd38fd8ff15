"""Backends: names, callables, their arguments, and their failures."""

import contextlib

import pytest
import torch

import stator
from stator import _C, backends


def f(x):
    return x.sin() + 1


@pytest.fixture
def x():
    return torch.ones(3)


@pytest.fixture
def registry(monkeypatch):
    monkeypatch.setattr(backends, "_registry", {})


def test_unknown_name():
    with pytest.raises(stator.InvalidBackend, match="nonesuch") as error:
        stator.compile(f, backend="nonesuch")
    assert "list_backends" in str(error.value)
    assert "reference" in str(error.value)


def test_not_a_backend():
    for wrong in (3, [], object()):
        with pytest.raises(stator.InvalidBackend, match=type(wrong).__name__):
            stator.compile(f, backend=wrong)


def test_register_and_list(x, registry):
    seen = []

    @stator.register_backend
    def mine(gm, example_inputs):
        seen.append(example_inputs)
        return gm.forward

    @stator.register_backend(name="tagged", tags=["debug"])
    def other(gm, example_inputs):
        return gm.forward

    assert "mine" in stator.list_backends()
    assert "tagged" not in stator.list_backends()
    assert "tagged" in stator.list_backends(None)
    assert torch.equal(stator.compile(f, backend="mine")(x), f(x))
    assert len(seen) == 1
    with pytest.raises(stator.InvalidBackend, match="exists"):
        stator.register_backend(mine)
    with pytest.raises(stator.InvalidBackend):
        stator.register_backend(5)


def test_given_a_graph_module_and_example_inputs(x):
    got = []

    def look(gm, example_inputs):
        got.append((gm, example_inputs))
        return gm.forward

    weight = torch.randn(3, requires_grad=True)

    def uses_weight(x):
        return (x * weight).sum()

    compiled = stator.compile(uses_weight, backend=look)
    assert torch.equal(compiled(x), uses_weight(x))
    ((gm, inputs),) = got
    assert isinstance(gm, torch.fx.GraphModule)
    assert all(isinstance(value, torch.Tensor) for value in inputs)
    placeholders = [node for node in gm.graph.nodes if node.op == "placeholder"]
    assert len(placeholders) == len(inputs) == 2
    assert "mul" in gm.code and "sum" in gm.code


def test_result_of_the_backend_is_what_runs(x):
    def zeros(gm, example_inputs):
        return lambda *args: [torch.zeros_like(out) for out in gm.forward(*args)]

    compiled = stator.compile(f, backend=zeros)
    assert torch.equal(compiled(x), torch.zeros(3))
    assert torch.equal(compiled(x), torch.zeros(3))


def test_failing_backend_is_named(x):
    def broken(gm, example_inputs):
        raise ValueError("boom")

    with pytest.raises(stator.BackendCompilerFailed) as error:
        stator.compile(f, backend=broken)(x)
    assert "broken" in str(error.value) and "boom" in str(error.value)
    assert isinstance(error.value.__cause__, ValueError)
    assert isinstance(error.value.inner_exception, ValueError)
    assert error.value.graph_name in str(error.value)
    frames = []
    traceback = error.value.__traceback__
    while traceback is not None:
        frames.append(traceback.tb_frame.f_code.co_name)
        traceback = traceback.tb_next
    assert frames[-1] == "broken"


def test_suppressed_errors_run_eager_with_one_warning(x):
    calls = []

    def broken(gm, example_inputs):
        calls.append(1)
        raise ValueError("boom")

    compiled = stator.compile(f, backend=broken)
    with stator.config.patch(suppress_errors=True):
        with pytest.warns(RuntimeWarning, match="boom") as caught:
            for _ in range(3):
                assert torch.equal(compiled(x), f(x))
    assert len(calls) == 1
    assert len(caught) == 1
    assert "f" in str(caught[0].message)


def test_backend_that_returns_nothing_callable(x):
    with pytest.raises(stator.BackendCompilerFailed, match="NoneType"):
        stator.compile(f, backend=lambda gm, inputs: None)(x)


def test_backend_may_skip_a_frame(x):
    calls = []

    def picky(gm, example_inputs):
        calls.append(1)
        raise stator.SkipFrame("too small")

    compiled = stator.compile(f, backend=picky)
    for _ in range(3):
        assert torch.equal(compiled(x), f(x))
    assert len(calls) == 1


def test_context_and_config_of_a_backend(x):
    events = []

    @contextlib.contextmanager
    def context():
        events.append("in")
        yield
        events.append("out")

    class Backend:
        compiler_name = "with context"
        backend_ctx_ctor = staticmethod(context)
        config = {"level": 3}

        def __call__(self, gm, example_inputs):
            return gm.forward

        def get_compiler_config(self):
            return self.config

    backend = Backend()
    compiled = stator.compile(f, backend=backend)
    for _ in range(2):
        assert torch.equal(compiled(x), f(x))
    assert events == ["in", "out", "in", "out"]
    assert compiled.get_compiler_config() is backend.config
    assert stator.compile(f).get_compiler_config() is None
    backend.compiler_name = 5
    with pytest.raises(stator.InvalidBackend, match="compiler_name"):
        stator.compile(f, backend=backend)


def test_mode_and_options_go_to_the_backend(x):
    got = []

    def takes(gm, example_inputs, **keywords):
        got.append(keywords)
        return gm.forward

    stator.compile(f, backend=takes, mode="fast")(x)
    stator.compile(f, backend=takes, options={"level": 2})(x)
    stator.compile(f, backend=takes, mode="default")(x)
    assert got == [{"mode": "fast"}, {"options": {"level": 2}}, {}]


@pytest.mark.parametrize(
    "settings",
    [
        {"mode": "max-autotune"},
        {"options": {"a": 1}},
        {"mode": "a", "options": {"b": 1}, "backend": lambda gm, inputs: gm},
        {"options": [1]},
        {"options": {1: 2}},
        {"mode": 5},
        {"fullgraph": "yes"},
        {"disable": 1},
    ],
)
def test_wrong_options(settings):
    with pytest.raises(stator.InvalidOption):
        stator.compile(f, **settings)


def test_target_with_a_compiler_config_of_its_own():
    def strange(x):
        return x

    strange.get_compiler_config = lambda: 1
    with pytest.raises(AssertionError, match="get_compiler_config"):
        stator.compile(strange)


def test_a_backend_may_refer_weakly_to_its_graph():
    import weakref

    def watching(gm, example_inputs):
        assert weakref.ref(gm.forward)() is gm.forward
        return gm.forward

    x = torch.ones(3)
    assert torch.equal(stator.compile(lambda x: x.sin(), backend=watching)(x), x.sin())


def test_numbers_from_tensors_in_an_expanded_graph():
    def scaled(x, steps):
        steps.add_(1)
        count = steps.item()
        chosen = torch.where(x > 0, x, count)
        return x * count + torch.full((2,), count), count, count + 1, chosen, torch.zeros(x.nonzero().shape[0])

    def branches(x, steps):
        doubled = x + steps
        return doubled * 2 if doubled.sum().item() > 2 else doubled * 3

    def looks(gm, _):
        gm.graph.lint()
        return gm

    for fn in (scaled, branches):
        for dtype in (torch.float32, torch.float16):
            x, mine, theirs = torch.tensor([1, 0], dtype=dtype), torch.tensor(2.5), torch.tensor(2.5)
            expected, given = fn(x, mine), stator.compile(fn, backend=looks)(x, theirs)
            torch.testing.assert_close(given, expected, rtol=0, atol=0)
            assert torch.equal(mine, theirs)
            if isinstance(expected, tuple):
                assert [type(e) for e in expected] == [type(g) for g in given]


def _through_modes(gm, example_inputs):
    from functorch.compile import nop
    from torch._functorch.aot_autograd import aot_module_simplified

    return aot_module_simplified(gm, example_inputs, fw_compiler=nop, keep_inference_input_mutations=True)


@pytest.mark.parametrize("backend", [_through_modes, "eager"])
def test_data_of_another_shape(backend):
    def give(a, b):
        before = a[:1] + 0
        a.data = b.t()
        return before, a * 2

    def run(fn):
        a, b = torch.arange(6.0).reshape(2, 3), torch.arange(8.0).reshape(2, 4)
        results = fn(a, b)
        return results, a.shape, a.stride(), a.tolist(), a.data_ptr() == b.data_ptr()

    # Compilers that trace ahead of time cannot give a tensor another layout: a break for all Python backends.
    expected, seen = run(give), run(stator.compile(give, backend=backend, fullgraph=backend == "eager"))
    assert seen[1:] == expected[1:]
    assert all(torch.equal(x, y) for x, y in zip(seen[0], expected[0], strict=True))


class TestNativeBackends:
    def test_the_extension_lists_them(self):
        rows = _C.native_backends()
        assert rows[0] == ("reference", ("eager",), {})
        assert {name for row in rows for name in (row[0], *row[1])} <= set(stator.list_backends())

    @pytest.mark.parametrize("name", ["reference", None])
    def test_options_that_it_does_not_have(self, name):
        with pytest.raises(stator.errors.InvalidOption, match="backend 'reference' has no option 'speed'"):
            stator.compile(lambda x: x, backend=name, options={"speed": 1})
        with pytest.raises(stator.errors.InvalidOption, match="option 'speed' is a list"):
            stator.compile(lambda x: x, backend=name, options={"speed": []})
        with pytest.raises(stator.errors.InvalidOption, match="has no mode"):
            stator.compile(lambda x: x, backend=name, mode="max-autotune")

    def test_equal_choices_share_entries(self):
        def program(x):
            return x + 1

        for name in ("reference", "eager", None):
            assert torch.equal(stator.compile(program, backend=name)(torch.ones(2)), torch.full((2,), 2.0))
        assert len(stator.cache_entries(program)) == 1
