"""Backends that trace the graph ahead of time (aot_eager): what the backward of a `torch.autograd.Function` reads and
does is the plain program's, operators without a derivative run, and operators that raise do so."""

from __future__ import annotations

import math
import random
import types
import warnings

import pytest
import torch
import torch.nn.functional as F
from torch.amp import custom_bwd, custom_fwd
from torch.autograd.function import once_differentiable

import stator
from tests.python.helpers import captures

G = types.SimpleNamespace(scale=1.0, calls=0, events=[])
FACTOR = 1.0
WEIGHT = torch.nn.Parameter(torch.ones(2))


def twice(grad):
    return grad * 2


def thrice(grad):
    return grad * 3


def helper(grad):
    return twice(grad)


def custom(backward, forward=None):
    def copied(ctx, t):
        ctx.save_for_backward(t)
        return t * 1

    members = {"forward": staticmethod(forward or copied), "backward": staticmethod(backward), "scale": 1.0}
    return type("Custom", (torch.autograd.Function,), members)


# Backward functions that depend on more than their context and arguments, or have effects.


def reads_an_attribute(ctx, grad):
    return grad * G.scale


def reads_a_global(ctx, grad):
    return grad * FACTOR


def reads_its_class(ctx, grad):
    return grad * Kept.scale


def draws(ctx, grad):
    return grad * random.random()


def counts(ctx, grad):
    G.calls += 1
    return grad * G.calls


def logs(ctx, grad):
    G.events.append(("backward", tuple(grad.shape)))
    return grad


def raises(ctx, grad):
    if G.scale > 1:
        raise ValueError("too large")
    return grad


def reads_a_tensor(ctx, grad):
    return grad * WEIGHT


def writes_a_tensor(ctx, grad):
    with torch.no_grad():
        WEIGHT.add_(1)
    return grad * 2


def looks_at_data(ctx, grad):
    (t,) = ctx.saved_tensors
    return grad * (2 if t.sum() > 1 else 3)


def calls_a_reader(ctx, grad):
    return reads_a_global(ctx, grad)


def changes_its_context(ctx, grad):
    ctx.calls = getattr(ctx, "calls", 0) + 1
    return grad * ctx.calls


def always_raises(ctx, grad):
    raise NotImplementedError("has no derivative")


Kept = custom(reads_its_class)
OPEN = [
    reads_an_attribute,
    reads_a_global,
    reads_its_class,
    draws,
    counts,
    logs,
    raises,
    reads_a_tensor,
    writes_a_tensor,
    looks_at_data,
    calls_a_reader,
    changes_its_context,
    always_raises,
]


def observe(run, function):
    """What three calls with changes between them give."""
    global FACTOR
    G.scale, G.calls, G.events, FACTOR, Kept.scale = 1.0, 0, [], 1.0, 1.0
    WEIGHT.data = torch.ones(2)
    random.seed(0)

    def program(t):
        G.events.append("forward")
        return function.apply(t * 1).sum()

    compiled = run(program)
    seen = []
    for value in (1.0, 2.0, -1.0):
        G.scale = FACTOR = Kept.scale = value
        t = torch.full((2,), value, requires_grad=True)
        try:
            result = compiled(t)
            if value == 2.0:
                G.scale = FACTOR = Kept.scale = 5.0  # between forward and backward
            result.backward()
            seen.append(t.grad.tolist())
        except (ValueError, NotImplementedError) as error:
            seen.append(repr(error))
    return seen, G.calls, G.events, WEIGHT.tolist()


@pytest.mark.parametrize("backward", OPEN, ids=lambda backward: backward.__name__)
def test_backward_that_depends_on_the_program(backward):
    function = Kept if backward is reads_its_class else custom(backward)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        seen = observe(lambda fn: stator.compile(fn, backend="aot_eager"), function)
    assert seen == observe(lambda fn: fn, function)
    assert captures() > 0
    assert any("cannot trace the backward of Custom" in str(warning.message) for warning in caught)


# Backward functions that may be traced: those that people write.


def relu(ctx, grad):
    (t,) = ctx.saved_tensors
    grad = grad.clone()
    grad[t < 0] = 0
    return grad


def straight_through(ctx, grad):
    return F.hardtanh(grad)


def gelu(ctx, grad):
    (t,) = ctx.saved_tensors
    cdf = 0.5 * (1 + torch.erf(t / math.sqrt(2.0)))
    return grad * (cdf + t * torch.exp(-0.5 * t * t) / math.sqrt(2 * math.pi))


def with_a_list(ctx, grad):
    grads = []
    for needed in ctx.needs_input_grad:
        grads.append(grad * 2 if needed else None)
    return tuple(grads)


def checks_its_argument(ctx, grad):
    if not isinstance(grad, torch.Tensor) or grad.dtype not in (torch.float32, torch.float64):
        raise TypeError(f"not {grad}")
    return torch.ops.aten.mul.Tensor(grad, 2) + sum([torch.zeros_like(grad) for _ in range(2)])


def calls_a_helper(ctx, grad):
    return helper(grad)


@once_differentiable
def once(ctx, grad):
    return grad * 4


@custom_bwd(device_type="cpu")
def cast(ctx, grad):
    return grad * 5


CLOSED = [relu, straight_through, gelu, with_a_list, checks_its_argument, calls_a_helper, once, cast]


@pytest.mark.parametrize("backward", CLOSED, ids=lambda backward: backward.__name__)
def test_backward_that_stays_in_the_graph(backward):
    forward = None
    if backward is cast:
        forward = custom_fwd(lambda ctx, t: t * 1, device_type="cpu")
    function = custom(backward, forward)
    compiled = stator.compile(lambda t: function.apply(t * 1).sum(), backend="aot_eager", fullgraph=True)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for _ in range(2):
            t, u = (torch.tensor([1.0, -2.0], requires_grad=True) for _ in range(2))
            result = compiled(t)
            assert "CompiledFunction" in type(result.grad_fn).__name__
            result.backward()
            function.apply(u * 1).sum().backward()
            torch.testing.assert_close(t.grad, u.grad)
    assert captures() == 1


def test_functions_that_backward_calls_are_guarded(monkeypatch):
    function = custom(calls_a_helper)
    compiled = stator.compile(lambda t: function.apply(t * 1).sum(), backend="aot_eager")
    gradients = []
    for change in (None, "twice", "backward", None):
        if change == "twice":
            monkeypatch.setitem(globals(), "twice", thrice)
        elif change == "backward":
            function.backward = staticmethod(straight_through)
        t = torch.ones(2, requires_grad=True)
        compiled(t).backward()
        gradients.append(t.grad[0].item())
    assert gradients == [2, 3, 1, 1] and captures() == 3


def test_a_function_of_a_closure():
    def make(by):
        def backward(ctx, grad):
            return grad * by

        return custom(backward)

    for by in (2, 3):
        function = make(by)
        t = torch.ones(2, requires_grad=True)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            stator.compile(lambda t, function=function: function.apply(t).sum(), backend="aot_eager")(t).backward()
        assert t.grad.tolist() == [by, by]


def test_reading_the_metadata_does_not_run_backward():
    function = custom(logs)

    def reading(gm, example_inputs):
        for node in gm.graph.nodes:
            node.meta.get("val")
        return gm

    t = torch.ones(2, requires_grad=True)
    G.events = []
    stator.compile(lambda t: function.apply(t).sum(), backend=reading)(t).backward()
    assert G.events == [("backward", (2,))]


WITHOUT_DERIVATIVE = {
    "unique": lambda t: torch.unique(t).sum(),
    "unique_consecutive": lambda t: torch.unique_consecutive(t).sum(),
    "bincount": lambda t: torch.bincount(torch.tensor([0, 1, 1]), t),
    "histogram": lambda t: torch.histogram(t, 3)[0],
    "heaviside": lambda t: torch.heaviside(t, t),
    "igamma": lambda t: torch.igamma(t + 1, t + 1),
}


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("name", WITHOUT_DERIVATIVE)
def test_operators_without_a_derivative(name):
    call = WITHOUT_DERIVATIVE[name]
    compiled = stator.compile(call, backend="aot_eager")
    for requires_grad in (True, False):
        t = torch.tensor([1.0, 2.0, 2.0], requires_grad=requires_grad)
        result, expected = compiled(t), call(t)
        assert torch.equal(result, expected) and result.requires_grad == expected.requires_grad


BAD = torch.tensor([9])

# Operators that raise, and whose result is not needed to compute the answer.
UNNEEDED = {
    "index": lambda t: t[BAD],
    "its_function": lambda t: t[BAD] * 2,
    "only_the_shape": lambda t: torch.zeros_like(t[BAD]),
    "take": lambda t: t.take(BAD),
    "embedding": lambda t: F.embedding(BAD, t.view(3, 1)),
    "svd": lambda t: torch.linalg.svd(torch.full((2, 2), math.nan) * t[0]),
    "cholesky": lambda t: torch.linalg.cholesky(-torch.eye(2) * t[0]),
    "into_a_copy": lambda t: t.clone().index_put_((BAD,), torch.ones(1)),
    "into_a_view": lambda t: t.clone()[:2].index_fill_(0, BAD, 1.0),
    "of_a_branch": lambda t: torch.cond(t.sum() > 0, lambda t: t[BAD], lambda t: t[:1] * 2, (t,)),
}


@pytest.mark.parametrize("requires_grad", [False, True])
@pytest.mark.parametrize("name", UNNEEDED)
def test_an_operator_that_raises_unneeded(name, requires_grad):
    call = UNNEEDED[name]

    def program(t):
        log = []
        try:
            call(t)
            log.append("not reached")
        except (IndexError, RuntimeError):
            log.append("raised")
        return t * 2, log

    compiled = stator.compile(program, backend="aot_eager")
    for _ in range(2):
        t = torch.ones(3, requires_grad=requires_grad)
        assert compiled(t)[1] == program(t)[1] == ["raised"]


def test_an_operator_that_raises_overwritten():
    def program(t, index):
        try:
            row = t[index]
            row.zero_()
        except IndexError:
            return t - 1
        return row + 1

    compiled = stator.compile(program, backend="aot_eager")
    for index in (torch.tensor([1]), BAD, torch.tensor([0])):
        t = torch.ones(3)
        assert torch.equal(compiled(t, index), program(t, index))


def test_outputs_that_keep_operators_are_dropped():
    outputs = []

    def backend(gm, example_inputs):
        outputs.append(len(gm.graph.output_node().args[0]))
        return gm

    compiled = stator.compile(lambda t, i: (t[i], t + 1)[1], backend=backend)
    t = torch.ones(3, requires_grad=True)
    result = compiled(t, torch.tensor([1]))
    result.sum().backward()
    assert torch.equal(result, t + 1) and t.grad.tolist() == [1, 1, 1] and outputs == [2]


@pytest.mark.parametrize("size", [0, 2, 6])
@pytest.mark.parametrize("backend", [None, "aot_eager"])
def test_the_truth_of_a_tensor_that_has_none(size, backend):
    compiled = stator.compile(lambda t: 1 if t else 2, backend=backend, fullgraph=True)
    what = "no values" if size == 0 else "more than one value"
    with pytest.raises(RuntimeError, match=f"Boolean value of Tensor with {what} is ambiguous"):
        compiled(torch.ones(size))
    with pytest.raises(stator.Unsupported):
        compiled(torch.ones(1))
