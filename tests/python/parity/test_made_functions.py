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


class Marked(torch.Tensor):
    """A plain subclass: operators give results of the class."""


class Logged(torch.Tensor):
    log = []

    @classmethod
    def __torch_function__(cls, func, types, args=(), kwargs=None):
        cls.log.append(func.__name__)
        return super().__torch_function__(func, types, args, kwargs or {})


class Weighted(torch.autograd.Function):
    @staticmethod
    def forward(ctx, value, weight):
        ctx.save_for_backward(value, weight)
        return value * weight, weight.detach()

    @staticmethod
    def backward(ctx, grad, _):
        value, weight = ctx.saved_tensors
        SEEN.append((type(value), type(weight), type(grad)))
        return grad * weight * 3, grad * value


class Returned(torch.autograd.Function):
    @staticmethod
    def forward(ctx, value):
        return value

    @staticmethod
    def backward(ctx, grad):
        return grad * 5


SEEN = []


@pytest.mark.parametrize("cls", [Marked, Logged, torch.nn.Parameter])
@pytest.mark.parametrize("function", [Weighted, Returned])
def test_inputs_of_a_subclass(cls, function):
    def program(value, weight):
        made = Weighted.apply(value, weight) if function is Weighted else (Returned.apply(value),)
        return (*made, made[0] + 1)

    def run(fn):
        SEEN.clear()
        Logged.log.clear()
        value = torch.arange(1.0, 4.0).as_subclass(cls) if cls is not torch.nn.Parameter else cls(torch.ones(3))
        value = value.detach().requires_grad_() if cls is not torch.nn.Parameter else value
        weight = torch.full((3,), 2.0, requires_grad=True)
        result = fn(value, weight)
        result[0].sum().backward()
        grads = [None if item.grad is None else item.grad.tolist() for item in (value, weight)]
        called = [name for name in Logged.log if name not in ("tolist", "__get__")]
        return [(type(item), item.tolist(), item.requires_grad) for item in result], grads, list(SEEN), called

    # Torch makes a view of an input that is returned, by a method that the class may override: a break.
    in_one_graph = function is Weighted or cls is torch.nn.Parameter
    compiled = stator.compile(program, fullgraph=in_one_graph)
    for _ in range(3):
        assert run(compiled) == run(program)
    assert not in_one_graph or captures() == 1
