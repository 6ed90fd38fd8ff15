"""Parts of a program that are computed again for the backward pass."""

import torch
from torch import nn
from torch.utils.checkpoint import checkpoint, checkpoint_sequential

from tests.python.parity.corpus.registry import call, f, factory, program

log = []


def block(x, scale=1.0):
    return torch.tanh(x * scale).sin() * x


@program(f(3, grad=True), f(3, grad=True), f(3), f(2, 2, grad=True))
def one_part(x):
    return checkpoint(block, x * 2, use_reentrant=False).sum() + x


@program((f(3, grad=True), 2.0), (f(3, grad=True), 0.5))
def keyword_argument(x, scale):
    return checkpoint(block, x, scale=scale, use_reentrant=False, preserve_rng_state=False)


@program(f(3, grad=True), f(3))
def under_no_grad(x):
    with torch.no_grad():
        y = checkpoint(block, x, use_reentrant=False)
    return y, y.requires_grad


@program(f(3, grad=True), f(3, grad=True))
def several_results(x):
    def part(x):
        y = x.exp()
        return y, {"sum": y.sum(), "name": "part"}, [x, 3]

    y, found, rest = checkpoint(part, x, use_reentrant=False)
    return y * found["sum"], found["name"], rest[0] is x, rest[1]


@program(f(3, grad=True), f(3, grad=True))
def part_in_part(x):
    def outer(x):
        return checkpoint(block, x.cos(), use_reentrant=False) * 2

    return checkpoint(outer, x, use_reentrant=False)


@program(f(3, grad=True), f(3, grad=True), f(3))
def closure(x):
    y = x * 2

    def part(z):
        return (y * z).exp()

    return checkpoint(part, x, use_reentrant=False)


@factory(f(2, 4, grad=True), f(2, 4, grad=True), f(3, 4))
def layers():
    class Model(nn.Module):
        def __init__(self):
            super().__init__()
            self.layers = nn.ModuleList(nn.Sequential(nn.Linear(4, 4), nn.GELU()) for _ in range(3))

        def forward(self, x):
            for layer in self.layers:
                x = checkpoint(layer, x, use_reentrant=False)
            return x

    return Model()


@factory(f(8, 4, grad=True), f(8, 4, grad=True), f(8, 4))
def dropout_is_the_same_again():
    class Model(nn.Module):
        def __init__(self):
            super().__init__()
            self.layer = nn.Sequential(nn.Linear(4, 4), nn.Dropout(0.5), nn.ReLU(), nn.Dropout(0.2))

        def forward(self, x):
            return checkpoint(self.layer, x, use_reentrant=False) * torch.rand(4)

    return Model()


@factory(f(4, 3, grad=True), f(4, 3, grad=True), call(f(4, 3, grad=True), before=lambda m: m.eval()))
def batch_norm_counts_twice():
    class Model(nn.Module):
        def __init__(self):
            super().__init__()
            self.layer = nn.Sequential(nn.BatchNorm1d(3), nn.ReLU())

        def forward(self, x):
            return checkpoint(self.layer, x, use_reentrant=False)

    return Model()


@factory(f(2, 4, grad=True), f(2, 4, grad=True))
def in_sequence():
    model = nn.Sequential(*(nn.Linear(4, 4) for _ in range(4)))

    def fn(x):
        return checkpoint_sequential(model, 2, x, use_reentrant=False)

    return fn


@program(f(3, grad=True), f(2, grad=True))
def effects_happen_again(x):
    def part(x):
        log.append(x.shape[0])
        return x.exp()

    return checkpoint(part, x, use_reentrant=False)


@program(f(3, grad=True), f(2, grad=True))
def local_list_is_filled_again(x):
    seen = []

    def part(x):
        seen.append(x.shape[0])
        return x.exp()

    y = checkpoint(part, x, use_reentrant=False)
    return y, seen


@program(f(3, grad=True), f(2, grad=True))
def prints_again(x):
    def part(x):
        print("part")
        return x.exp()

    return checkpoint(part, x * 2, use_reentrant=False) + 1


@program(f(3, grad=True), f(3, grad=True))
def written_in_place(x):
    y = x * 1

    def part(z):
        z.mul_(2)
        return z.sin()

    return checkpoint(part, y, use_reentrant=False), y


@program(f(3, grad=True), f(3, grad=True), f(3))
def reentrant(x):
    return checkpoint(block, x * 2, use_reentrant=True) + 1


class Doubled(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        y = x.exp()
        ctx.save_for_backward(y)
        return y

    @staticmethod
    def backward(ctx, grad):
        return grad * ctx.saved_tensors[0] * 2


@program(f(3, grad=True), f(3, grad=True))
def function_in_a_part(x):
    return checkpoint(lambda x: Doubled.apply(x.cos()) * x, x, use_reentrant=False)


@program(f(3, 3, grad=True), f(3, 3, grad=True))
def autocast_in_a_part(x):
    def part(x):
        with torch.autocast("cpu", torch.bfloat16):
            return x @ x

    return checkpoint(part, x, use_reentrant=False)


@program(f(3, 3, grad=True), f(3, 3, grad=True))
def part_in_autocast(x):
    with torch.autocast("cpu", torch.bfloat16):
        y = checkpoint(lambda x: x @ x + x, x, use_reentrant=False)
    return y @ x.to(y.dtype)


@program(f(3, grad=True), f(3, grad=True))
def saved_tensor_hooks(x):
    with torch.autograd.graph.saved_tensors_hooks(lambda t: t * 2, lambda t: t):
        y = x.sin() * x
    return y


@program(f(3, grad=True), f(3, grad=True))
def saved_on_cpu(x):
    with torch.autograd.graph.save_on_cpu():
        y = x.exp()
    return y * x


@program(f(3, grad=True), f(3, grad=True))
def part_that_rebinds_a_variable(x):
    count = 0

    def part(x):
        nonlocal count
        count += 1
        return x.sin() * count

    y = checkpoint(part, x, use_reentrant=False)
    return y * 2, count
