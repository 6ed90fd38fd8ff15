"""Global state after a capture, a failed capture or an error is unchanged, except for the program's own changes."""

import random
import sys
import warnings

import pytest
import torch
from torch.overrides import TorchFunctionMode
from torch.utils._python_dispatch import TorchDispatchMode

import stator
from tests.python.helpers import assert_same, run_program

x = torch.arange(6.0)


class Counts(TorchFunctionMode):
    def __init__(self):
        self.calls = 0

    def __torch_function__(self, func, types, args=(), kwargs=None):
        self.calls += 1
        return func(*args, **(kwargs or {}))


class Passes(TorchDispatchMode):
    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        return func(*args, **(kwargs or {}))


def state():
    return {
        "grad": torch.is_grad_enabled(),
        "inference": torch.is_inference_mode_enabled(),
        "autocast": (
            torch.is_autocast_enabled("cpu"),
            torch.get_autocast_dtype("cpu"),
            torch.is_autocast_cache_enabled(),
        ),
        "rng": torch.get_rng_state().tolist(),
        "python rng": random.getstate(),
        "dtype": torch.get_default_dtype(),
        "device": torch.get_default_device(),
        "deterministic": (
            torch.are_deterministic_algorithms_enabled(),
            torch.is_deterministic_algorithms_warn_only_enabled(),
            torch.utils.deterministic.fill_uninitialized_memory,
        ),
        "function modes": torch._C._len_torch_function_stack(),
        "dispatch modes": torch._C._len_torch_dispatch_stack(),
        "saved tensor hooks": torch._C._autograd._saved_tensors_hooks_is_enabled(),
        "anomaly": torch.is_anomaly_enabled(),
        "threads": torch.get_num_threads(),
        "flush": torch._C._get_cudnn_enabled(),
        "matmul": torch.get_float32_matmul_precision(),
        "compiling": (stator.is_compiling(), torch.compiler.is_compiling()),
        "recursion": sys.getrecursionlimit(),
        "trace": (sys.gettrace(), sys.getprofile()),
        "filters": list(warnings.filters),
        "registry": {k: v for k, v in globals().get("__warningregistry__", {}).items() if k != "version"},
    }


class Refused:
    """A call that always breaks."""

    def __getattribute__(self, name):
        raise ValueError("refused")


def in_one_graph(x):
    with torch.no_grad():
        y = x.sin()
    return torch.dropout(y, 0.5, True) + torch.rand(6)


def broken(x):
    with torch.autocast("cpu", dtype=torch.bfloat16):
        y = x.reshape(2, 3) @ x.reshape(3, 2)
        stator.graph_break()
        z = y @ y
    return z, torch.randn(2)


def raises(x):
    with torch.no_grad(), torch.autocast("cpu", dtype=torch.bfloat16):
        y = x + torch.rand(6)
        return y.view(7)


def raises_after_a_break(x):
    with torch.inference_mode():
        y = x + 1
        stator.graph_break()
        return y.view(7)


def fails(x):
    with torch.enable_grad():
        return x + torch.rand(6), Refused().value


def warns(x):
    y = x + 1
    warnings.warn("once", stacklevel=1)
    return y * 2


def sets(x):
    torch.set_grad_enabled(not torch.is_grad_enabled())
    y = x * 2
    torch.set_default_dtype(torch.float64)
    return y, torch.ones(2)


def data_dependent(x):
    with torch.no_grad():
        if x.sum() > 3:
            return x * torch.rand(6)
        return x


PROGRAMS = [in_one_graph, broken, raises, raises_after_a_break, fails, warns, sets, data_dependent]


def outcome(fn):
    torch.manual_seed(3)
    random.seed(3)
    globals().pop("__warningregistry__", None)
    grad, dtype = torch.is_grad_enabled(), torch.get_default_dtype()
    try:
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("default")
            try:
                result = fn(x)
            except Exception as error:
                result = (type(error), str(error))
            after = state()
        return result, after, [(str(w.message), w.filename, w.lineno, w.category) for w in caught]
    finally:
        torch.set_grad_enabled(grad)
        torch.set_default_dtype(dtype)


@pytest.mark.parametrize(
    "settings", [{}, {"fullgraph": True}, {"backend": "fails"}], ids=["plain", "fullgraph", "backend"]
)
@pytest.mark.parametrize("fn", PROGRAMS, ids=lambda fn: fn.__name__)
def test_state_after_a_call(fn, settings):
    def backend(gm, example_inputs):
        raise RuntimeError("no")

    # Random state and warnings are compared below.
    own = {"rng", "python rng", "registry"}
    expected = outcome(fn)
    before = {name: value for name, value in state().items() if name not in own}
    compiled = stator.compile(fn, **(settings | ({"backend": backend} if "backend" in settings else {})))
    for _ in range(3):
        actual = outcome(compiled)
        assert {name: value for name, value in state().items() if name not in own} == before
        failed = isinstance(actual[0], tuple) and isinstance(actual[0][0], type)
        if failed and issubclass(actual[0][0], stator.StatorError):
            # Raised by Stator: nothing of the program has run.
            assert settings
            continue
        assert_same(actual[0], expected[0])
        assert actual[1] == expected[1]
        assert actual[2] == expected[2]


@pytest.mark.parametrize("fn", PROGRAMS, ids=lambda fn: fn.__name__)
@pytest.mark.parametrize("mode", [Counts, Passes, torch.inference_mode, torch.no_grad], ids=lambda mode: mode.__name__)
def test_state_under_a_mode(fn, mode):
    results = []
    compiled = stator.compile(fn)
    # The first run triggers torch's late imports.
    for side in (fn, fn, compiled, compiled):
        with mode() as entered:
            results.append((outcome(side), entered.calls if mode is Counts else None))
    assert_same(results[2], results[1])
    assert_same(results[3], results[1])


def test_random_numbers_are_drawn_by_the_program_alone():
    def fn(x):
        y = torch.rand(3) + torch.dropout(x[:3], 0.5, True)
        stator.graph_break()
        return y + torch.randn(3)

    compiled = stator.compile(fn)
    torch.manual_seed(11)
    expected = [fn(x) for _ in range(4)]
    after = torch.get_rng_state()
    torch.manual_seed(11)
    assert_same([compiled(x) for _ in range(4)], expected)
    assert torch.equal(torch.get_rng_state(), after)


def test_modules_that_a_capture_imports():
    """Only the modules that the program itself imports are imported afterwards."""
    program = """
        import sys, torch, stator
        def fn(x):
            y = torch.nn.functional.layer_norm(x, (3,)) + torch.rand(3)
            stator.graph_break()
            if y.sum() > 100: import colorsys
            return torch.softmax(y, -1)
        compiled = stator.compile(fn)
        fn(torch.ones(3))
        before = set(sys.modules)
        for _ in range(3): compiled(torch.ones(3))
        try: stator.compile(lambda x: x.view(7))(torch.ones(3))
        except RuntimeError: pass
        print(sorted(set(sys.modules) - before))
    """
    assert run_program(program) == "[]"
