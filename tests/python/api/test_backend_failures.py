"""Python backends: values that depend on data, and what a backend leaves behind when it fails."""

import contextlib
import logging

import pytest
import torch

import stator
from tests.python.helpers import captures, collect


def f(x):
    return (x.sin() + 1).relu().sum()


@pytest.fixture
def x():
    return torch.linspace(-1, 1, 12).reshape(3, 4)


# ---- numbers and sizes that depend on data


def scaled(x):
    return x * x.sum().item()


def shifted(x):
    return x + float(x[0, 0])


def sliced(x):
    return x.reshape(-1)[: int((x > 0).sum())] * 2


def masked(x):
    return x[x > 0].sum() * 2


def uniques(x):
    return torch.unique(x > 0), x + 1


DEPENDENT = [scaled, shifted, sliced, masked, uniques]


@pytest.mark.parametrize("program", DEPENDENT)
@pytest.mark.parametrize("name", ["aot_eager", "eager_debug"])
def test_data_dependent_values_break(x, program, name):
    compiled = stator.compile(program, backend=name)
    for argument in (x, -x, x * 2):
        torch.testing.assert_close(compiled(argument), program(argument))
    assert captures() > 0


@pytest.mark.parametrize("program", DEPENDENT)
@pytest.mark.parametrize("name", ["aot_eager", "eager_debug"])
def test_data_dependent_values_in_one_graph(x, program, name):
    compiled = stator.compile(program, backend=name, fullgraph=True)
    for argument in (x, -x, x * 2):
        torch.testing.assert_close(compiled(argument), program(argument))
    assert captures() == 1


@pytest.mark.parametrize("fullgraph", [False, True])
def test_data_dependent_values_with_inductor(x, fullgraph):
    def program(x):
        return x[x > 0].sum() * x.amax().item(), x.reshape(-1)[: int((x > 0).sum())] + 1

    compiled = stator.compile(program, backend="inductor", fullgraph=fullgraph)
    torch.testing.assert_close(compiled(x), program(x))


# ---- a backend that fails leaves nothing behind


def _state():
    weight = torch.ones(2, requires_grad=True)
    return {
        "keys": (
            torch._C._dispatch_tls_local_include_set().raw_repr(),
            torch._C._dispatch_tls_local_exclude_set().raw_repr(),
        ),
        "grad": torch.is_grad_enabled(),
        "follows": (weight * 2).requires_grad,
        "inference": torch.is_inference_mode_enabled(),
        "autocast": (torch.is_autocast_enabled("cpu"), torch.get_autocast_dtype("cpu")),
        "dtype": torch.get_default_dtype(),
        "modes": (torch._C._len_torch_function_stack(), torch._C._len_torch_dispatch_stack()),
        "hooks": torch._C._autograd._top_saved_tensors_default_hooks(True),
        "threads": torch.get_num_threads(),
        "random": torch.get_rng_state().sum().item(),
        "deterministic": torch.are_deterministic_algorithms_enabled(),
    }


class Mode(torch.utils._python_dispatch.TorchDispatchMode):
    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        return func(*args, **(kwargs or {}))


def _leave_grad():
    torch.set_grad_enabled(False)


def _leave_dtype():
    torch.set_default_dtype(torch.float64)


def _leave_dispatch_mode():
    Mode().__enter__()


def _leave_fake_mode():
    torch._subclasses.FakeTensorMode().__enter__()


def _leave_function_mode():
    torch.overrides.BaseTorchFunctionMode().__enter__()


def _leave_autocast():
    torch.autocast("cpu", dtype=torch.float16).__enter__()


def _leave_inference():
    torch.inference_mode().__enter__()


def _leave_hooks():
    torch.autograd.graph.saved_tensors_hooks(lambda x: x, lambda x: x).__enter__()


def _leave_threads():
    torch.set_num_threads(torch.get_num_threads() + 1)


def _leave_seed():
    torch.manual_seed(7)


LEFT = [
    _leave_grad,
    _leave_dtype,
    _leave_dispatch_mode,
    _leave_fake_mode,
    _leave_function_mode,
    _leave_autocast,
    _leave_inference,
    _leave_hooks,
    _leave_threads,
    _leave_seed,
]


@pytest.mark.parametrize("leave", LEFT, ids=lambda leave: leave.__name__.removeprefix("_leave_"))
@pytest.mark.parametrize("when", ["compile", "run"])
@pytest.mark.parametrize("error", [ValueError, KeyboardInterrupt])
def test_state_after_a_failure(x, leave, when, error):
    def failing(gm, example_inputs):
        def run(*inputs):
            kept = leave()
            raise error(kept)

        if when == "compile":
            run()
        return run

    before = _state()
    with pytest.raises((stator.BackendCompilerFailed, error)):
        stator.compile(f, backend=failing)(x)
    after = _state()
    if when == "run":  # these two are process-wide, and a graph that runs may change them
        before.pop("threads"), after.pop("threads")
        before.pop("random"), after.pop("random")
        torch.set_num_threads(torch.get_num_threads())
    assert after == before
    collect()
    assert (torch.ones(1, requires_grad=True) * 2).requires_grad


@pytest.mark.parametrize("when", ["compile", "run"])
def test_guard_objects_in_frames_of_an_error(x, when):
    def failing(gm, example_inputs):
        def run(*inputs):
            guard = torch._C._AutoDispatchBelowAutograd()
            try:
                raise ValueError("first")
            except ValueError as error:
                error.cycle = error  # dies only when garbage is collected
                raise RuntimeError("second", guard is None) from error

        if when == "compile":
            run()
        return run

    before = _state()
    with pytest.raises((stator.BackendCompilerFailed, RuntimeError)):
        stator.compile(f, backend=failing)(x)
    collect()
    assert _state() == before


# ---- settings of torch that a graph changes


def _attention(q):
    from torch.nn.attention import SDPBackend, sdpa_kernel

    with sdpa_kernel(SDPBackend.MATH):
        return torch.nn.functional.scaled_dot_product_attention(q, q, q)


def _removing(gm, example_inputs):
    gm.graph.eliminate_dead_code()
    gm.recompile()
    return gm


@pytest.mark.parametrize("backend", [_removing, "aot_eager"])
def test_attention_kernels_chosen_in_a_graph(backend):
    x = torch.randn(1, 2, 4, 8)
    compiled = stator.compile(_attention, backend=backend, fullgraph=True)
    before = _state()
    for _ in range(2):
        torch.testing.assert_close(compiled(x), _attention(x))
        assert _state() == before


@pytest.mark.parametrize("handled", [True, False])
def test_what_torch_logs_of_an_operator_is_held_back_if_the_failure_is_handled(handled, caplog):
    from torch._subclasses import fake_tensor

    def backend(gm, example_inputs):
        logging.getLogger("torch._subclasses.fake_tensor").error("failed while attempting to run meta")
        raise fake_tensor.DataDependentOutputException("aten.item") if handled else ValueError("other")

    compiled = stator.compile(lambda x: x * 2, backend=backend)
    with contextlib.nullcontext() if handled else pytest.raises(stator.BackendCompilerFailed):
        with pytest.warns(UserWarning, match="looks at data") if handled else contextlib.nullcontext():
            compiled(torch.ones(2))
    logging.getLogger("torch._subclasses.fake_tensor").error("later")
    texts = [record.getMessage() for record in caplog.records if record.name == "torch._subclasses.fake_tensor"]
    assert texts == (["later"] if handled else ["failed while attempting to run meta", "later"])
