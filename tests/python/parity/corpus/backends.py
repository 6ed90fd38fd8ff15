"""Functions and modules as users give them to compiling backends: forward and training, without random numbers."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import nn

from tests.python.parity.corpus.registry import call, f, factory, program


@program(f(4, 3), f(4, 3))
def elementwise(x):
    return (x.sin() + 1).relu() * x.sigmoid() - x.abs().sqrt()


@program((f(3, 4), f(4, 5)), (f(3, 4), f(4, 5)))
def products(a, b):
    return (a @ b).tanh().sum(0), torch.einsum("ij,jk->ki", a, b)


@program((f(3, 4, grad=True), f(4, grad=True)), (f(3, 4, grad=True), f(4, grad=True)))
def gradients_of_two_inputs(x, weight):
    return (x * weight).exp().sum()


@program(f(2, 6), f(3, 6))
def another_shape(x):
    return x.reshape(-1, 2).mean(1), x.t().contiguous() + 1


@program(f(4), f(4))
def writes_to_the_input(x):
    x.mul_(2)
    y = x[1:3]
    y.add_(1)
    return x.sum(), y


@program(f(6), f(6))
def views_of_the_input(x):
    return x.view(2, 3).t(), x[::2], x


@program((f(5, 3, grad=True), torch.tensor([0, 2, 1, 1, 0])), (f(5, 3, grad=True), torch.tensor([1, 1, 1, 2, 0])))
def loss_of_classes(x, labels):
    return F.cross_entropy(x, labels) + F.mse_loss(x, torch.zeros_like(x))


@program(f(1, 2, 4, 8, grad=True), f(1, 2, 4, 8, grad=True))
def attention(x):
    return F.scaled_dot_product_attention(x, x, x, is_causal=True)


@program(f(4, 4), -f(4, 4))
def branch_on_data(x):
    y = x * 2
    return y + 1 if y.sum() > 0 else y - 1


@program(f(4, 4), f(4, 4))
def number_from_data(x):
    return x / x.abs().max().item(), x[x > 0].sum()


@program((f(3), f(3, grad=True)), (f(3), f(3, grad=True)))
def without_gradients(x, weight):
    with torch.no_grad():
        y = x * weight
    return y + weight


@program(call(f(2, 3)), call(f(2, 3)))
def lower_precision(x):
    with torch.autocast("cpu", dtype=torch.bfloat16):
        return (x @ x.t()).float() * 2


@program(f(3), f(3))
def handled_error(x):
    try:
        return x + x.view(7)
    except RuntimeError:
        return x - 1


class _Perceptron(nn.Module):
    def __init__(self):
        super().__init__()
        self.first, self.second = nn.Linear(6, 8), nn.Linear(8, 3)
        self.norm = nn.LayerNorm(8)
        with torch.no_grad():
            for parameter in self.parameters():
                parameter.copy_(torch.linspace(-1, 1, parameter.numel()).view_as(parameter))

    def forward(self, x):
        return self.second(F.gelu(self.norm(self.first(x))))


@factory(f(4, 6), f(4, 6))
def perceptron():
    return _Perceptron()


@factory(f(4, 6), f(4, 6))
def perceptron_in_evaluation():
    return _Perceptron().eval()


@factory(f(2, 3, 8, 8), f(2, 3, 8, 8))
def convolutions_with_statistics():
    convolution = nn.Conv2d(3, 4, 3)
    with torch.no_grad():
        for parameter in convolution.parameters():
            parameter.copy_(torch.linspace(-1, 1, parameter.numel()).view_as(parameter))
    return nn.Sequential(convolution, nn.BatchNorm2d(4), nn.ReLU(), nn.AdaptiveAvgPool2d(2), nn.Flatten())


@factory((f(4, 6), f(4, 3)), (f(4, 6), f(4, 3)))
def steps_of_training():
    model = _Perceptron()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)

    def step(x, y):
        optimizer.zero_grad()
        loss = F.mse_loss(model(x), y)
        loss.backward()
        optimizer.step()
        return loss.detach()

    return step
