"""Subclasses of `torch.autograd.Function` that the program makes in each call."""

import pytest
import torch
from torch.autograd.function import once_differentiable

import stator
from tests.python.helpers import captures
from tests.python.parity.corpus.observe import Walk, difference, gradients


def observe(fn, x):
    walk = Walk()
    walk.describe(x)
    result = fn(x)
    seen = {"result": walk.describe(result)}
    return seen | {"gradients": gradients(walk, result)}


def check(fn, fullgraph=True, runs=3):
    """Compares several calls with the plain program; one capture serves them all."""
    compiled = stator.compile(fn, fullgraph=fullgraph)
    for run in range(runs):
        made = torch.arange(1.0, 7.0).reshape(2, 3) + run
        mine, plain = made.clone().requires_grad_(), made.clone().requires_grad_()
        assert difference(observe(compiled, mine), observe(fn, plain)) is None
    return captures()


def made_and_not_used(x):
    def helper(value):
        return value * 2

    class Doubled(torch.autograd.Function):
        @staticmethod
        def forward(ctx, value):
            return helper(value)

        @staticmethod
        def backward(ctx, grad):
            return helper(grad)

    return helper(x) if x.dim() else Doubled.apply(x)


def made_and_applied(x):
    class Cubed(torch.autograd.Function):
        @staticmethod
        def forward(ctx, value):
            ctx.save_for_backward(value)
            return value**3

        @staticmethod
        def backward(ctx, grad):
            (value,) = ctx.saved_tensors
            return 7 * grad * value

    return Cubed.apply(x) + 1


def made_with_setup(x):
    class Scaled(torch.autograd.Function):
        """A scaled copy."""

        @staticmethod
        def forward(value, by):
            return value * by

        @staticmethod
        def setup_context(ctx, inputs, output):
            ctx.by = inputs[1]

        @staticmethod
        def backward(ctx, grad):
            return grad * ctx.by * 11, None

    return Scaled.apply(x, 3.0)


@pytest.mark.parametrize("program", [made_and_not_used, made_and_applied, made_with_setup])
def test_in_one_graph(program):
    assert check(program) == 1


def closes_over_a_number(x):
    factor = float(x.dim())

    class Scaled(torch.autograd.Function):
        @staticmethod
        def forward(ctx, value):
            return value * factor

        @staticmethod
        def backward(ctx, grad):
            return grad * factor * 5

    made = Scaled.apply(x)
    factor = 3.0
    return made


def decorated(x):
    class Once(torch.autograd.Function):
        @staticmethod
        def forward(ctx, value):
            return value * 2

        @staticmethod
        @once_differentiable
        def backward(ctx, grad):
            return grad * 13

    return Once.apply(x)


def changed_later(x):
    class Changed(torch.autograd.Function):
        @staticmethod
        def forward(ctx, value):
            return value * 2

        @staticmethod
        def backward(ctx, grad):
            return grad * 3

    Changed.backward = staticmethod(lambda ctx, grad: grad * 17)
    return Changed.apply(x)


@pytest.mark.parametrize("program", [closes_over_a_number, decorated, changed_later])
def test_breaks_that_are_right(program):
    check(program, fullgraph=False)


def test_the_class_is_new_in_each_call():
    def makes(x):
        class Same(torch.autograd.Function):
            @staticmethod
            def forward(ctx, value):
                return value.clone()

            @staticmethod
            def backward(ctx, grad):
                return grad

        return x + 1, Same

    compiled = stator.compile(makes, fullgraph=True)
    x = torch.ones(2, requires_grad=True)
    (_, first), (_, second) = compiled(x), compiled(x)
    assert first is not second and first.__qualname__ == makes(x)[1].__qualname__
    assert issubclass(first, torch.autograd.Function)
    assert first._backward_cls._forward_cls is first
    assert first._backward_cls._autograd_function_id != second._backward_cls._autograd_function_id
    made = first.apply(x)
    made.sum().backward()
    assert torch.equal(x.grad, torch.ones(2)) and captures() == 1
