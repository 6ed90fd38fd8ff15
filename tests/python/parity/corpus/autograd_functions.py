"""torch.autograd.Function: custom backward functions."""

import torch
from torch.amp import custom_bwd, custom_fwd
from torch.autograd import Function
from torch.autograd.function import once_differentiable

from tests.python.parity.corpus.registry import f, factory, p, program

log = []


class Doubled(Function):
    """A backward that is not the derivative, so that calling another one is noticed."""

    @staticmethod
    def forward(ctx, x):
        y = x.exp()
        ctx.save_for_backward(y)
        return y

    @staticmethod
    def backward(ctx, grad):
        (y,) = ctx.saved_tensors
        return grad * y * 2


doubled = Doubled.apply


@program(f(3, grad=True), f(3, grad=True), f(3), f(2, 2, grad=True))
def saved_result(x):
    return Doubled.apply(x.sin()).cos()


@program(f(3, grad=True), f(3))
def apply_by_another_name(x):
    return doubled(x) + doubled(x * 0.5)


@program(f(3, grad=True), f(3, grad=True))
def applied_twice(x):
    return Doubled.apply(Doubled.apply(x * 0.1))


@program(f(3, grad=True), f(3))
def under_no_grad(x):
    with torch.no_grad():
        a = Doubled.apply(x)
    return a, a.requires_grad, Doubled.apply(x)


class Scaled(Function):
    @staticmethod
    def forward(ctx, x, scale, names=()):
        ctx.scale, ctx.shape, ctx.names = scale, x.shape, names
        ctx.positive = x > 0
        return x * scale

    @staticmethod
    def backward(ctx, grad):
        log.append((ctx.needs_input_grad, ctx.names))
        return grad * ctx.scale * ctx.positive + ctx.shape[0], None, None


@program((f(3, grad=True), 2.5), (f(3, grad=True), 2.5), (f(3, grad=True), -1), (f(3), 2.5))
def attributes_of_the_context(x, scale):
    return Scaled.apply(x * 1, scale, ("a", ("b", 1)))


class Several(Function):
    @staticmethod
    def forward(ctx, a, b):
        where = a.argmax(0)
        ctx.save_for_backward(a, b)
        ctx.mark_non_differentiable(where)
        ctx.set_materialize_grads(False)
        return a * b, where, a + b, 3

    @staticmethod
    def backward(ctx, product, _where, total, _number):
        a, b = ctx.saved_tensors
        log.append((product is None, total is None))
        parts_a = [g for g in (None if product is None else product * b, total) if g is not None]
        parts_b = [g for g in (None if product is None else product * a, total) if g is not None]
        return sum(parts_a) if parts_a else None, sum(parts_b) if parts_b else None


@program((f(4, grad=True), f(4, grad=True)), (f(4, grad=True), f(4)), (f(4), f(4)))
def several_results(a, b):
    product, where, total, number = Several.apply(a, b)
    return product * number, where, total


@program((f(4, grad=True), f(4, grad=True)), (f(4, grad=True), f(4)))
def some_results_unused(a, b):
    return Several.apply(a, b.cos())[2]


class InPlace(Function):
    @staticmethod
    def forward(ctx, x):
        x.mul_(3)
        ctx.mark_dirty(x)
        return x

    @staticmethod
    def backward(ctx, grad):
        return grad * 5


@program(f(3, grad=True), f(3, grad=True), f(3))
def dirty_argument(x):
    y = x * 1
    z = InPlace.apply(y)
    return z + y, z is y


@program(f(3, grad=True), f(3))
def dirty_leaf(x):
    return InPlace.apply(x)


class Same(Function):
    @staticmethod
    def forward(ctx, x):
        return x

    @staticmethod
    def backward(ctx, grad):
        return grad * 7


@program(f(3, grad=True), f(3))
def argument_as_result(x):
    y = Same.apply(x)
    return y * 2, y is x


class Flat(Function):
    @staticmethod
    def forward(ctx, x):
        ctx.shape = x.shape
        return x.view(-1)

    @staticmethod
    def backward(ctx, grad):
        return grad.view(ctx.shape) * 2


@program(f(2, 3, grad=True), f(2, 3), f(3, 1, grad=True))
def view_as_result(x):
    return Flat.apply(x * 2) + 1


class Power(Function):
    @staticmethod
    def forward(x, exponent):
        return x**exponent, x.sum()

    @staticmethod
    def setup_context(ctx, inputs, output):
        x, ctx.exponent = inputs
        ctx.save_for_backward(x, output[0])

    @staticmethod
    def backward(ctx, grad, grad_of_sum):
        x, y = ctx.saved_tensors
        return grad * ctx.exponent * y / x + grad_of_sum, None


@program((p(3, grad=True), 3), (p(3, grad=True), 3), (p(3, grad=True), 2), (p(3), 2))
def context_set_up_apart(x, exponent):
    power, total = Power.apply(x, exponent)
    return power * total


class Once(Function):
    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return x.sin()

    @staticmethod
    @once_differentiable
    def backward(ctx, grad):
        return grad * ctx.saved_tensors[0].cos()


@program(f(3, grad=True), f(3, grad=True))
def differentiable_once(x):
    return Once.apply(x) * x


class StraightThrough(Function):
    @staticmethod
    def forward(ctx, x):
        return x.round()

    @staticmethod
    def backward(ctx, grad):
        return grad


@program(f(3, grad=True), f(3, grad=True), f(3))
def rounded(x):
    return StraightThrough.apply(x * 3) * x


class Logged(Function):
    @staticmethod
    def forward(ctx, x):
        log.append(f"forward of {x.shape[0]}")
        return x * 2

    @staticmethod
    def backward(ctx, grad):
        log.append("backward")
        return grad * 2


@program(f(3, grad=True), f(2, grad=True), f(3))
def effects_of_forward(x):
    log.append("before")
    y = Logged.apply(x)
    log.append("after")
    return y


class Picky(Function):
    @staticmethod
    def forward(ctx, x):
        if x.shape[0] == 2:
            raise ValueError("not two")
        return x * 2

    @staticmethod
    def backward(ctx, grad):
        return grad


@program(f(3, grad=True), f(2, grad=True), f(3, grad=True))
def forward_raises(x):
    try:
        return Picky.apply(x)
    except ValueError as error:
        return x + len(str(error)), torch.is_grad_enabled()


class Graded(Function):
    """Differentiates inside its own forward."""

    @staticmethod
    def forward(ctx, x):
        assert not torch.is_grad_enabled()
        with torch.enable_grad():
            y = x.detach().requires_grad_()
            z = (y * y).sum()
        ctx.save_for_backward(x)
        return z.detach() * x

    @staticmethod
    def backward(ctx, grad):
        return grad * ctx.saved_tensors[0]


@program(f(3, grad=True), f(3))
def grad_mode_inside(x):
    return Graded.apply(x) + 1


class Printing(Function):
    @staticmethod
    def forward(ctx, x):
        print("forward", tuple(x.shape))
        ctx.save_for_backward(x)
        return x * 2

    @staticmethod
    def backward(ctx, grad):
        print("backward")
        return grad * ctx.saved_tensors[0]


@program(f(3, grad=True), f(2, grad=True), f(3))
def break_in_forward(x):
    y = Printing.apply(x + 1)
    return y * 2


class Listed(Function):
    @staticmethod
    def forward(ctx, x, *parts):
        ctx.sizes = [part.shape[0] for part in parts]
        return torch.cat([x, *parts])

    @staticmethod
    def backward(ctx, grad):
        ctx.sizes.append(0)
        log.append(list(ctx.sizes))
        return (grad[: -sum(ctx.sizes)], *(g * 2 for g in grad[-sum(ctx.sizes) :].split(ctx.sizes[:-1])))


@program((f(3, grad=True), f(2, grad=True)), (f(3, grad=True), f(2, grad=True)), (f(3), f(4, grad=True)))
def list_in_the_context(x, y):
    return Listed.apply(x, y, y * 2) * 2


class Mixed(Function):
    @staticmethod
    @custom_fwd(device_type="cpu", cast_inputs=torch.float32)
    def forward(ctx, a, b):
        ctx.save_for_backward(a, b)
        return a @ b

    @staticmethod
    @custom_bwd(device_type="cpu")
    def backward(ctx, grad):
        a, b = ctx.saved_tensors
        return grad @ b.t(), a.t() @ grad


@program((f(2, 2, grad=True), f(2, 2, grad=True)), (f(2, 2, grad=True), f(2, 2)))
def casts_of_autocast(a, b):
    with torch.autocast("cpu", torch.bfloat16):
        return Mixed.apply(a, b) @ b


@factory(f(3, grad=True), f(3, grad=True))
def function_of_a_closure():
    factor = 3

    class Inner(Function):
        @staticmethod
        def forward(ctx, x):
            return x * factor

        @staticmethod
        def backward(ctx, grad):
            return grad * factor * 2

    def fn(x):
        return Inner.apply(x) + 1

    return fn


class Watching(Function):
    def __init_subclass__(cls):
        log.append(cls.__name__)


class Watched(Watching):
    @staticmethod
    def forward(ctx, x):
        return x * 2

    @staticmethod
    def backward(ctx, grad):
        return grad * 3


@program(f(3, grad=True), f(3, grad=True))
def subclasses_are_watched(x):
    return Watched.apply(x) + 1


class Weighted(Function):
    @staticmethod
    def forward(ctx, x, weight=2.0, power=1):
        ctx.save_for_backward(x)
        ctx.rest = (weight, power, ctx.needs_input_grad)
        return x**power * weight

    @staticmethod
    def backward(ctx, grad):
        (x,) = ctx.saved_tensors
        weight, power, needs = ctx.rest
        log.append((weight, power, needs))
        return tuple([grad * weight * x] + [None] * (len(needs) - 1))


@program(f(3, grad=True), f(3, grad=True), f(3))
def called_with_keywords(x):
    return (
        Weighted.apply(x, weight=3.0),
        Weighted.apply(x, power=2, weight=0.5),
        Weighted.apply(x=x),
        Weighted.apply(x, 4.0, power=3),
    )


class Shifted(Function):
    @staticmethod
    def forward(x, by=1.0, times=3):
        return (x + by) * times

    @staticmethod
    def setup_context(ctx, inputs, output):
        log.append(len(inputs))
        ctx.by, ctx.times = inputs[1:]

    @staticmethod
    def backward(ctx, grad):
        return grad * ctx.times * ctx.by, None, None


@program(f(3, grad=True), f(3, grad=True), f(3))
def defaults_of_forward(x):
    return Shifted.apply(x), Shifted.apply(x, 2.0), Shifted.apply(times=2, x=x), Shifted.apply(x, times=5)


class Pair:
    def __init__(self, a, b):
        self.a, self.b = a, b


class Sundry(Function):
    @staticmethod
    def forward(ctx, x):
        y = x.exp()
        ctx.save_for_backward(y)
        return y, [1, y * 2], Pair(y + 1, "b"), None

    @staticmethod
    def backward(ctx, grad, *others):
        (y,) = ctx.saved_tensors
        log.append(others)
        return grad * y


@program(f(3, grad=True), f(3, grad=True), f(3))
def results_that_are_no_tensors(x):
    y, items, pair, nothing = Sundry.apply(x)
    return y + items[1] + pair.a, items, pair.b, nothing, items[1].requires_grad, pair.a.requires_grad


class Remembering(Function):
    @staticmethod
    def forward(ctx, x, sizes):
        ctx.sizes = sizes
        ctx.notes = {"shapes": [x.shape, (x + 1).shape], "kept": x * 2}
        return x.exp()

    @staticmethod
    def backward(ctx, grad):
        ctx.sizes.append(len(ctx.sizes))
        ctx.notes["shapes"].pop()
        log.append((list(ctx.sizes), ctx.notes["shapes"]))
        return grad * ctx.notes["kept"] * ctx.sizes[0], None


@program(f(3, grad=True), f(3, grad=True), f(3, grad=True))
def containers_in_the_context(x):
    return Remembering.apply(x, [2, 3]) + Remembering.apply(x, [4])


@program(f(3, grad=True), f(3, grad=True))
def containers_that_others_see(x):
    sizes = [2, 3]
    y = Remembering.apply(x, sizes)
    return y, sizes
