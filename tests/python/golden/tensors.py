"""Programs of the golden files: tensors, autograd, control flow operators, numbers from data."""

import numpy
import torch
from torch.utils.checkpoint import checkpoint

from tests.python.golden.registry import topic, x

# ---- views and writes in place

views = topic("views")


@views()
def of_an_argument(t):
    return t[0], t.t(), t.view(-1)[1:], t.unsqueeze(0).expand(2, -1, -1)


@views()
def write_through_a_view(t):
    t[0].add_(1)
    t[:, 1] = 7
    return t


@views(lambda: (x(), x()))
def write_to_one_of_two(a, b):
    a.mul_(2)
    return a + b


@views(make=True)
def same_tensor_twice():
    t = x()

    def fn(u):
        t.add_(u)
        return t, t

    return fn


@views()
def detached_and_cloned(t):
    y = t.clone()
    y.detach().zero_()
    return y


@views()
def set_of_data(t):
    t.data = t.data * 2
    return t + 1


@views()
def constant_that_is_written(t):
    made = torch.tensor([1.0, 2.0, 3.0])
    made.add_(t[0])
    return made


# ---- sizes and dtypes

metadata = topic("metadata")


@metadata(lambda: (x(2, 3),), lambda: (x(4, 3),), lambda: (x(5, 3),))
def sizes(t):
    n, m = t.shape
    return t.reshape(m, n) * n, t.numel()


@metadata(lambda: (x(),), lambda: (x().double(),), lambda: (x().t(),))
def dtypes_and_strides(t):
    return t.to(torch.float64), t.is_contiguous(), t.stride()


@metadata(lambda: (torch.ones(3, requires_grad=True),), lambda: (torch.ones(3),))
def requires_grad(t):
    return t * 2 if t.requires_grad else t


# ---- symbolic numbers

symbolic = topic("symbolic")


@symbolic()
def item_in_arithmetic(t):
    n = t.sum().item()
    return t * (n + 1) / 2


@symbolic()
def nonzero_and_masks(t):
    found = t.nonzero()
    return t[t > 2] + 1, found.shape[1]


@symbolic()
def size_that_depends_on_data(t):
    kept = t[t > 1]
    return kept.sum() / kept.shape[0]


@symbolic()
def item_decides(t):
    n = t.max().int().item()
    return [t] * n


@symbolic(lambda: (x(), torch.tensor(2)))
def item_as_an_argument(t, n):
    return t.clamp(max=n.item())


# ---- control flow operators

control = topic("control_flow")


@control(lambda: (x(),), lambda: (-x(),))
def cond(t):
    return torch.cond(t.sum() > 0, lambda u: u + 1, lambda u: u - 1, (t,))


@control()
def while_loop(t):
    return torch._higher_order_ops.while_loop(lambda i, u: i < 3, lambda i, u: (i + 1, u * 2), (torch.tensor(0), t))


@control()
def mapped(t):
    return torch._higher_order_ops.map(lambda row, k: row * k, t, torch.tensor(2.0))


@control(lambda: (torch.ones(3, requires_grad=True),), brief=True)
def checkpointed(t):
    return checkpoint(lambda u: (u * 2).sin(), t, use_reentrant=False)


# ---- autograd and modes

autograd = topic("autograd")


class Doubled(torch.autograd.Function):
    @staticmethod
    def forward(ctx, t):
        ctx.save_for_backward(t)
        return t * 2

    @staticmethod
    def backward(ctx, grad):
        (t,) = ctx.saved_tensors
        return grad * 2 + t * 0


@autograd(lambda: (torch.ones(3, requires_grad=True),))
def custom_function(t):
    return Doubled.apply(t).sum()


@autograd(lambda: (torch.ones(3, requires_grad=True),))
def no_grad_block(t):
    with torch.no_grad():
        y = t * 2
    return y + t


@autograd(lambda: (torch.ones(3),), brief=True)
def backward_inside(t):
    w = torch.ones(3, requires_grad=True)
    (t * w).sum().backward()
    return w.grad


@autograd()
def autocast(t):
    with torch.autocast("cpu", dtype=torch.bfloat16):
        return t @ t.t()


@autograd(brief=True)
def gradient_by_transform(t):
    return torch.func.grad(lambda u: (u**2).sum())(t)


@autograd(brief=True)
def vmapped(t):
    return torch.func.vmap(lambda row: row.sum() * 2)(t)


@autograd()
def random_numbers(t):
    return torch.nn.functional.dropout(t, 0.5) + torch.rand(3)


# ---- arrays

arrays = topic("numpy")


@arrays()
def through_an_array(t):
    return torch.from_numpy(numpy.sin(t.numpy()) + 1)


@arrays(lambda: (numpy.arange(3.0),))
def array_argument(a):
    return a * 2 + a.shape[0]
