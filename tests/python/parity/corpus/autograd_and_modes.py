"""Gradients, grad modes, inference mode, autograd functions, autocast, default dtype."""

import torch
from torch.autograd import grad

from tests.python.parity.corpus.registry import f, i, p, program


class Square(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return x * x

    @staticmethod
    def backward(ctx, g):
        (x,) = ctx.saved_tensors
        return g * 3 * x


class Scaled(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, k):
        ctx.k = k
        return x * k

    @staticmethod
    def backward(ctx, g):
        return g * ctx.k * 10, None


class TwoOutputs(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, y):
        ctx.save_for_backward(x, y)
        ctx.set_materialize_grads(False)
        return x + y, x * y

    @staticmethod
    def backward(ctx, ga, gb):
        x, y = ctx.saved_tensors
        left = 0 if ga is None else ga
        right = 0 if gb is None else gb
        return left + right * y, left + right * x


class StraightThrough(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        return x.round()

    @staticmethod
    def backward(ctx, g):
        return g


@program(f(3, grad=True), f(2, 2, grad=True))
def plain_gradients(x):
    return (x.sin() * x).sum(), x.exp()


@program((f(3, grad=True), f(3)), (f(3), f(3, grad=True)), (f(3), f(3)))
def which_requires_grad(x, y):
    return x * y, x + 1, y * 2


@program(f(3, grad=True), f(2, grad=True))
def custom_function(x):
    return Square.apply(x) + x


@program((f(3, grad=True), 2), (f(3, grad=True), 5))
def custom_function_with_constant(x, k):
    return Scaled.apply(x, k)


@program((f(3, grad=True), f(3, grad=True)), (f(2, grad=True), f(2)))
def custom_function_with_two_outputs(x, y):
    a, c = TwoOutputs.apply(x, y)
    return a * 2, c


@program(f(4, grad=True), f(4))
def straight_through(x):
    return StraightThrough.apply(x * 3) * 2


@program(f(3, grad=True), f(2, grad=True))
def gradient_inside(x):
    y = (x**3).sum()
    (g,) = grad(y, x)
    return g * 2


@program(f(3, grad=True), f(2, grad=True))
def double_backward(x):
    y = (x**3).sum()
    (g,) = grad(y, x, create_graph=True)
    return (g**2).sum()


@program(f(3, grad=True), f(2, grad=True))
def backward_inside(x):
    loss = (x * x).sum()
    loss.backward()
    return x.grad * 2, loss.detach()


@program(f(3, grad=True), f(3, grad=True))
def backward_accumulates(x):
    (x * 2).sum().backward()
    (x * 3).sum().backward()
    total = x.grad.clone()
    x.grad = None
    return total


@program(f(3, grad=True), f(2, grad=True))
def grad_is_zeroed(x):
    if x.grad is not None:
        x.grad.zero_()
    (x**2).sum().backward()
    x.grad.mul_(0.5)
    return x.grad


@program(f(3, grad=True), f(3))
def no_grad_decorator(x):
    @torch.no_grad()
    def evaluate(t):
        return t * 2

    return evaluate(x), x * 3


@program(f(3, grad=True), f(3))
def inference_mode(x):
    with torch.inference_mode():
        y = x * 2
    return y.is_inference(), x * 3


@program((f(3, grad=True), True), (f(3, grad=True), False))
def grad_mode_follows_flag(x, train):
    with torch.set_grad_enabled(train):
        y = x.exp()
    return y, torch.is_grad_enabled()


@program(f(3, grad=True), f(3, grad=True))
def mode_set_and_restored(x):
    before = torch.is_grad_enabled()
    torch.set_grad_enabled(False)
    y = x * 2
    torch.set_grad_enabled(before)
    return y, x * 2


@program(f(3, grad=True), f(2, grad=True))
def detach_stops_gradients(x):
    target = (x * 2).detach()
    return ((x - target) ** 2).mean()


@program(f(3), f(2))
def requires_grad_set_inside(x):
    y = x.clone().requires_grad_()
    z = (y**2).sum()
    (g,) = grad(z, y)
    return g


@program(f(3, 3), f(2, 2))
def autocast_matmul(x):
    with torch.autocast("cpu", dtype=torch.bfloat16):
        y = x @ x
        z = y + 1
        with torch.autocast("cpu", enabled=False):
            w = x @ x
    return y, z, w


@program(f(3, 3), f(2, 2))
def autocast_decorator(x):
    @torch.autocast("cpu", dtype=torch.bfloat16)
    def run(t):
        return torch.nn.functional.linear(t, t)

    return run(x), torch.is_autocast_enabled("cpu")


@program((f(3), torch.float64), (f(3), torch.float32))
def default_dtype_inside(x, dtype):
    before = torch.get_default_dtype()
    torch.set_default_dtype(dtype)
    y = torch.ones(3) + x
    torch.set_default_dtype(before)
    return y


@program(f(3, grad=True), f(2, grad=True))
def retain_grad(x):
    y = x * 2
    y.retain_grad()
    (y**2).sum().backward()
    return y.grad, x.grad


@program((p(3, grad=True), i(3, high=3)), (p(2, grad=True), i(2, high=2)))
def gradients_through_indexing(x, index):
    return x[index] * x.gather(0, index), torch.stack([x[0], x[-1]]).log()


@program(f(3, grad=True), f(2, 2, grad=True))
def grad_fn_is_asked(x):
    y = x * 2
    return y, y.grad_fn is not None, x.grad_fn is None, y.is_leaf, type(y.grad_fn).__name__


@program(f(4, grad=True), f(2, grad=True))
def gradient_penalty(x):
    out = (x.tanh() * x).sum()
    g = grad(out, x, create_graph=True)[0]
    return out + (g.norm() - 1) ** 2


@program(f(3, grad=True), f(3))
def anomaly_and_graph_free(x):
    with torch.autograd.set_grad_enabled(False):
        y = torch.relu(x)
    return y.requires_grad, torch.relu(x)


@program(f(grad=True), f())
def ends_of_a_factory(end):
    made = torch.linspace(0, end, 3), torch.logspace(start=end, end=1, steps=2)
    return made, [one.requires_grad for one in made], end * 2
