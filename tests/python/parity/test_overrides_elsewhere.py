"""Overriding of torch functions combined with special methods, numbers, generators, transforms, breaks."""

import functools

import pytest
import torch
from torch import nn
from torch.overrides import TorchFunctionMode

import stator
from tests.python.parity.test_overrides import (
    Halving,
    Logged,
    Noting,
    Tagged,
    check_one_graph,
    log,
    name,
    same_calls,
    t,
)


class Measured(torch.Tensor):
    """Defines special methods that call Tensor's."""

    def __len__(self):
        return super().__len__() + 1

    def __iter__(self):
        log.append("iter")
        return super().__iter__()

    def __bool__(self):
        log.append("bool")
        return True

    def __float__(self):
        log.append("float")
        return 2.5


class SilentMeasured(Measured):
    __torch_function__ = torch._C._disabled_torch_function_impl


class Labelled(torch.Tensor):
    """Results get the label of the first argument that has one."""

    @staticmethod
    def __new__(cls, data, label="none"):
        return torch.as_tensor(data).as_subclass(cls)

    def __init__(self, data, label="none"):
        self.label = label

    @classmethod
    def __torch_function__(cls, func, types, args=(), kwargs=None):
        labels = [a.label for a in args if hasattr(a, "label")]
        result = super().__torch_function__(func, types, args, kwargs or {})
        if isinstance(result, Labelled):
            result.label = labels[0] if labels else "?"
        return result


handlers = {}


def implements(function):
    def register(handler):
        handlers[function] = functools.wraps(function)(handler)
        return handler

    return register


class Diagonal:
    def __init__(self, value, size):
        self.value, self.size = value, size

    @classmethod
    def __torch_function__(cls, func, types, args=(), kwargs=None):
        if func not in handlers or not all(issubclass(t, (torch.Tensor, Diagonal)) for t in types):
            return NotImplemented
        return handlers[func](*args, **(kwargs or {}))


@implements(torch.mean)
def diagonal_mean(diagonal):
    return float(diagonal.value) / diagonal.size


@implements(torch.add)
def diagonal_add(a, b):
    return Diagonal(a.value + (b.value if isinstance(b, Diagonal) else b), a.size)


class Printing(TorchFunctionMode):
    def __torch_function__(self, func, types, args=(), kwargs=None):
        print(name(func))
        log.append(name(func))
        return func(*args, **(kwargs or {}))


class Loud(TorchFunctionMode):
    def __torch_function__(self, func, types, args=(), kwargs=None):
        log.append(name(func))
        if func is torch.Tensor.mul:
            raise KeyError("mul")
        return func(*args, **(kwargs or {}))


class Remembering(TorchFunctionMode):
    def __init__(self):
        super().__init__()
        self.count, self.last = 0, None

    def __torch_function__(self, func, types, args=(), kwargs=None):
        self.count += 1
        self.last = func(*args, **(kwargs or {}))
        return self.last


@pytest.mark.parametrize("cls", [Measured, SilentMeasured])
def test_special_methods_that_call_tensors_own(cls):
    def fn(x):
        return len(x), [row + 1 for row in x], list(x), float(x), bool(x), 1 if x else 2, x + 1

    check_one_graph(fn, (t(cls, 1.0, 2.0),), (t(cls, 3.0, 2.0),))


def test_calls_of_len():
    """list(), tuple(), `*` and sorted() call len() before they iterate; unpacking does not."""

    def fn(x):
        first, second = x
        head, *tail = x
        return (
            [*x],
            list(x),
            tuple(x),
            (lambda *rows: rows[0])(*x),
            sorted(x, key=lambda row: 1),
            dict(zip("ab", x, strict=False)),
            list(enumerate(x)),
            first + second,
            head,
            tail,
        )

    check_one_graph(fn, (t(Logged, 1.0, 2.0),))


def test_numbers_that_depend_on_data():
    def of_a_class(x):
        total = x.sum().item()
        return x * total, x - total, int(x[0]), float(x[1]), bool(x[0])

    def under_a_mode(x):
        with Noting("mode"):
            total, first = x.sum().item(), int(x[0])
            return x * total + first, total * x, x[:first]

    check_one_graph(of_a_class, (t(Logged, 1.0, 2.0),), (t(Logged, 2.0, 5.0),))
    check_one_graph(under_a_mode, (torch.tensor([1.0, 2.0]),), (torch.tensor([2.0, 5.0]),))


def test_results_that_are_given_attributes():
    def fn(x):
        y = x + 1
        return y, y.label, y.sum().label

    def made(x):
        y = Labelled(x * 2, "made") + 1
        return y, y.label

    calls = [(Labelled(torch.ones(2), label),) for label in ("a", "b")]
    check_one_graph(fn, *calls)
    check_one_graph(made, (torch.ones(2),))


def test_functions_by_a_registry():
    def fn(x, d):
        return x * torch.mean(d), torch.add(d, d).value, torch.add(d, 2).size

    check_one_graph(fn, (torch.ones(2), Diagonal(3, 5)), (torch.ones(2), Diagonal(4, 5)))
    with pytest.raises(TypeError, match="returned NotImplemented"):
        stator.compile(lambda x, d: (x + 1, torch.mul(d, d)))(torch.ones(2), Diagonal(3, 5))


def test_what_a_mode_does_not_see():
    """Torch functions called inside torch."""

    class Square(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            ctx.save_for_backward(x)
            return x * x

        @staticmethod
        def backward(ctx, grad):
            return grad * ctx.saved_tensors[0] * 2

    def fn(x):
        with Noting("mode"):
            y = Square.apply(x) * 2
            return nn.Parameter(x), y, torch.vmap(lambda row: row * 2)(x)

    check_one_graph(fn, (torch.ones(2, requires_grad=True),), (torch.ones(2),))


def test_transforms_and_parts_under_a_mode():
    def gradient(x):
        with Noting("mode"):
            return torch.func.grad(lambda v: (v * v).sum())(x), x + 1

    def branch(x):
        with Halving():
            return torch.cond(x.sum() > 0, lambda v: v * 2, lambda v: v * 3, (x,))

    def checkpointed(x):
        with Halving():
            return torch.utils.checkpoint.checkpoint(lambda v: v.sin() * 2, x, use_reentrant=False)

    for fn in (gradient, branch):
        same_calls(fn, stator.compile(fn), (torch.ones(2),))
    grads = []
    for fn in (checkpointed, stator.compile(checkpointed)):
        x = torch.ones(2, requires_grad=True)
        fn(x).sum().backward()
        grads.append(x.grad)
    assert torch.equal(*grads)


def test_breaks_inside_of_what_overrides():
    def fn(x):
        with Printing():
            y = torch.sin(x + 1)
        return y * 2

    def loop(x):
        with Noting("mode"):
            for i in range(3):
                x = x + i
                if i == 1:
                    print("break")
        return x

    def inlined(x):
        def inner(v):
            v = v * 2
            print("break")
            return v + 1

        with Noting("mode"):
            y = inner(x)
        return inner(y)

    for function in (fn, loop, inlined):
        same_calls(function, stator.compile(function), (torch.ones(2),))


def test_errors_under_a_mode():
    def caught(x):
        y = x
        with Loud():
            try:
                y = x + 1
                y = y * 2
            except KeyError:
                y = y - 1
        return y, torch.sin(y)

    def shape(x):
        try:
            with Noting("mode"):
                x = x + 1
                print("break")
                x = x.view(7)
        except RuntimeError:
            return x, torch._C._len_torch_function_stack(), x + 1

    def out(x):
        with Loud():
            return (x + 1) * 2

    check_one_graph(caught, (torch.ones(2),))
    same_calls(shape, stator.compile(shape), (torch.ones(2),))
    for _ in range(2):
        with pytest.raises(KeyError):
            stator.compile(out)(torch.ones(2))
        assert torch._C._len_torch_function_stack() == 0


def test_generators_and_modes():
    def fn(x):
        def rows():
            with Noting("mode"):
                yield x + 1
                yield x + 2

        some = rows()
        a, b = next(some) * 2, next(some) * 3
        some.close()
        return a, b, x * 4

    check_one_graph(fn, (torch.ones(2),))


def test_modes_that_remember():
    def fn(x, mode):
        with mode, mode:
            y = x * 2
        return y, mode.count, mode.last

    mine, theirs = Remembering(), Remembering()
    compiled = stator.compile(fn)
    for i in range(4):
        x = torch.full((2,), float(i))
        actual, expected = compiled(x, mine), fn(x, theirs)
        assert actual[1] == expected[1] == mine.count
        assert torch.equal(actual[0], expected[0]) and actual[2] is mine.last is actual[0]


def test_classes_of_parameters():
    class Weight(nn.Parameter):
        pass

    weight = Weight(torch.ones(2))

    def fn(x):
        return x * weight, type(weight) is Weight, weight + 1, isinstance(weight, nn.Parameter)

    check_one_graph(fn, (torch.ones(2),))


def test_other_classes_on_later_calls():
    def fn(x):
        return torch.sin(x) * 2, type(x).__name__, x.__class__.__name__

    compiled = stator.compile(fn, fullgraph=True)
    x = torch.ones(2)
    kinds = [(x.as_subclass(Tagged),), (x,), (x.as_subclass(Logged),), (nn.Parameter(x),)]
    same_calls(fn, compiled, *kinds)


def test_backends_are_given_plain_tensors():
    classes = []

    def backend(gm, example_inputs):
        classes.append([type(example) for example in example_inputs])
        gm(*example_inputs)
        return gm.forward

    def fn(x, y):
        return x.sin() * y

    same_calls(fn, stator.compile(fn, backend=backend, fullgraph=True), (t(Logged, 1.0), torch.ones(1)))
    assert classes == [[torch.Tensor, torch.Tensor]]


@pytest.mark.parametrize("cut", [1, 3, 7, 13])
def test_programs_cut_anywhere(cut):
    """A capture that breaks leaves modes, classes and their logs as the plain program does."""

    def lengths(x):
        return [*x], (lambda *rows: rows[0])(*x), x[0], x[x > 1]

    def modes(x):
        with Noting("outer"):
            y = x + 1
            with Halving(), torch._C.DisableTorchFunctionSubclass():
                y = y * 4
            y = torch.cat([y, y])
        return y - 1

    before = stator.config.break_after
    stator.config.break_after = cut
    try:
        same_calls(lengths, stator.compile(lengths), (t(Logged, 1.0, 2.0),))
        same_calls(modes, stator.compile(modes), (torch.ones(2),), (t(Logged, 1.0),))
    finally:
        stator.config.break_after = before


def test_reports_do_not_call_the_program():
    """The text of a failed guard does not call repr() of the value."""
    seen = []

    class Shown:
        def __init__(self, value):
            self.value = value

        def __repr__(self):
            seen.append(self.value)
            return "shown"

    def fn(x, some):
        return x + (1 if some else 2), some

    compiled = stator.compile(fn)
    x, a, b = torch.ones(2), Shown(1), Shown(2)
    for some in (3, a, [a], {"b": b}, (a, b), {1, 2}, [], {}):
        assert torch.equal(compiled(x, some)[0], fn(x, some)[0])
    assert not seen
