"""Gradients and sizes of tensor subclasses among the arguments, and the tensors inside of them."""

import gc
import weakref

import pytest
import torch

import stator
from tests.python.make_fx.helpers import calls, names, node
from tests.python.make_fx.test_inputs import Two

MODES = ["real", "fake", "symbolic"]


def two(*size):
    torch.manual_seed(len(size))
    return Two(torch.randn(size), torch.randn(size)).requires_grad_()


PROGRAMS = {
    "a product": lambda t: t * t,
    "a number": lambda t: 1 - t / 2,
    "a saved result": lambda t: t.exp().tanh(),
    "views": lambda t: t.transpose(0, 1).sin().unsqueeze(1),
    "rows": lambda t: torch.cat([t, t * 2]).softmax(-1).cumsum(0),
    "a write": lambda t: (t * 2).add_(1).exp_(),
    "a composite": lambda t: torch.nn.functional.layer_norm(t, t.shape[-1:]),
    "a sum over rows": lambda t: (t @ t.t()).mean(1),
}


def gradient(program):
    def step(t):
        return torch.autograd.grad(program(t).sum(), t)[0]

    return step


def gradient_of_gradient(program):
    def step(t):
        (found,) = torch.autograd.grad(program(t).square().sum(), t, create_graph=True)
        return torch.autograd.grad(found.sum(), t)[0], found.detach(), program(t).data

    return step


def parts(result):
    return [part for one in (result if isinstance(result, tuple) else (result,)) for part in (one.a, one.b)]


def check(step, samples, **options):
    module = stator.make_fx(step, **options)(samples[0])
    assert names(module, "get_attr") == []
    for sample in samples:
        torch.testing.assert_close(parts(module(sample)), parts(step(sample)))
    return module


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("name", PROGRAMS)
def test_gradients(name, mode):
    other = two(5, 2) if mode == "symbolic" else Two(torch.randn(3, 4), torch.randn(3, 4)).requires_grad_()
    check(gradient(PROGRAMS[name]), [two(3, 4), other], tracing_mode=mode)


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("name", PROGRAMS)
def test_above_autograd(name, mode):
    check(PROGRAMS[name], [two(3, 4).detach(), two(3, 4).detach() * 2], tracing_mode=mode, pre_dispatch=True)
    with pytest.raises(RuntimeError, match="gradients of a tensor subclass, above autograd"):
        stator.make_fx(gradient(PROGRAMS[name]), tracing_mode=mode, pre_dispatch=True)(two(3, 4))


# Their second gradients have sizes among the arguments of operators, which torch's binding takes as plain numbers only.
PLAIN_SIZES = ("a composite", "a sum over rows")


@pytest.mark.parametrize(
    ("name", "mode"), [(n, m) for n in PROGRAMS for m in MODES if m != "symbolic" or n not in PLAIN_SIZES]
)
def test_gradients_of_gradients_and_copies(name, mode):
    other = two(5, 2) if mode == "symbolic" else Two(torch.randn(3, 4), torch.randn(3, 4)).requires_grad_()
    check(gradient_of_gradient(PROGRAMS[name]), [two(3, 4), other], tracing_mode=mode)


def test_sizes_are_symbols():
    def program(t, a):
        return (t * 2 + a).sin().view(t.shape[1], t.shape[0])

    x = torch.randn(3, 4)
    module = stator.make_fx(program, tracing_mode="symbolic")(Two(x, x + 1), x)
    assert "view.default" in calls(module)
    value = node(module, "sin").meta["val"]
    assert all(isinstance(size, torch.SymInt) for size in value.shape)
    y = torch.randn(5, 2)
    torch.testing.assert_close(parts(module(Two(y, -y), y)), parts(program(Two(y, -y), y)))


@pytest.mark.parametrize("mode", MODES)
def test_a_tensor_inside_of_a_result(mode):
    """In another run it is another."""
    with pytest.raises(RuntimeError, match="inside of a Two"):
        stator.make_fx(lambda t: (t * 2).a + 1, tracing_mode=mode)(two(3, 4))


def test_results_are_freed():
    """The trace keeps no tensor of its real mode alive."""
    kept = []

    def program(t):
        made = t * 2
        kept.append(weakref.ref(made.a))
        made = made * 3
        gc.collect()
        assert kept[0]() is None
        return made

    stator.make_fx(program)(two(3, 4).detach())
    assert len(kept) == 1
