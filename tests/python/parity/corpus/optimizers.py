"""Training steps and optimizers."""

import torch
import torch.nn.functional as F
from torch import nn, optim

from tests.python.parity.corpus.registry import call, f, factory, i, program


def step_with(make_optimizer, zero=True):
    model = nn.Linear(3, 2)
    optimizer = make_optimizer(model.parameters())

    def step(x):
        if zero:
            optimizer.zero_grad()
        loss = model(x).pow(2).mean()
        loss.backward()
        optimizer.step()
        return loss.detach(), model.weight.detach().clone()

    return step


@factory(f(4, 3), f(4, 3), f(2, 3))
def sgd():
    return step_with(lambda ps: optim.SGD(ps, lr=0.1))


@factory(f(4, 3), f(4, 3), f(4, 3))
def sgd_momentum():
    return step_with(lambda ps: optim.SGD(ps, lr=0.1, momentum=0.9, nesterov=True, weight_decay=0.01))


@factory(f(4, 3), f(4, 3), f(4, 3))
def adam():
    return step_with(lambda ps: optim.Adam(ps, lr=0.01))


@factory(f(4, 3), f(4, 3))
def adam_foreach():
    return step_with(lambda ps: optim.Adam(ps, lr=0.01, foreach=True))


@factory(f(4, 3), f(4, 3))
def adamw():
    return step_with(lambda ps: optim.AdamW(ps, lr=0.01, weight_decay=0.1))


@factory(f(4, 3), f(4, 3))
def adamw_amsgrad():
    return step_with(lambda ps: optim.AdamW(ps, lr=0.01, amsgrad=True))


@factory(f(4, 3), f(4, 3))
def rmsprop():
    return step_with(lambda ps: optim.RMSprop(ps, lr=0.01, momentum=0.5, centered=True))


@factory(f(4, 3), f(4, 3))
def adagrad():
    return step_with(lambda ps: optim.Adagrad(ps, lr=0.1))


@factory(f(4, 3), f(4, 3))
def gradients_accumulate():
    return step_with(lambda ps: optim.SGD(ps, lr=0.1), zero=False)


@factory(f(4, 3), f(4, 3), f(2, 3))
def by_hand():
    model = nn.Linear(3, 2)

    def step(x):
        loss = model(x).pow(2).mean()
        grads = torch.autograd.grad(loss, list(model.parameters()))
        with torch.no_grad():
            for parameter, g in zip(model.parameters(), grads):
                parameter -= 0.1 * g
        return loss.detach()

    return step


@factory(f(4, 3), f(4, 3))
def forward_and_loss_only():
    model = nn.Sequential(nn.Linear(3, 4), nn.ReLU(), nn.Linear(4, 2))

    def loss(x):
        return F.cross_entropy(model(x), torch.zeros(len(x), dtype=torch.int64))

    return loss


@factory((f(4, 3), i(4, high=2)), (f(4, 3), i(4, high=2)))
def classifier_step():
    model = nn.Sequential(nn.Linear(3, 4), nn.Tanh(), nn.Linear(4, 2))
    optimizer = optim.SGD(model.parameters(), lr=0.5)

    def step(x, y):
        loss = F.cross_entropy(model(x), y)
        optimizer.zero_grad(set_to_none=False)
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        return loss.detach()

    return step


@factory(f(4, 3), f(4, 3), f(4, 3))
def learning_rate_schedule():
    model = nn.Linear(3, 1)
    optimizer = optim.SGD(model.parameters(), lr=1.0)
    scheduler = optim.lr_scheduler.StepLR(optimizer, 1, gamma=0.5)

    def step(x):
        model(x).sum().backward()
        optimizer.step()
        scheduler.step()
        optimizer.zero_grad()
        return scheduler.get_last_lr()[0], model.bias.detach().clone()

    return step


@factory(f(4, 3), call(f(4, 3), before=lambda t: t.optimizer.param_groups[0].update(lr=0.5)))
def rate_changed_between_calls():
    model = nn.Linear(3, 1)
    optimizer = optim.SGD(model.parameters(), lr=0.1)

    def step(x):
        model(x).sum().backward()
        optimizer.step()
        optimizer.zero_grad()
        return model.weight.detach().clone()

    step.optimizer = optimizer
    return step


@factory(f(3), f(3), f(3))
def optimizer_step_only():
    parameter = nn.Parameter(torch.ones(3))
    optimizer = optim.SGD([parameter], lr=0.1, momentum=0.9)

    def step(g):
        parameter.grad = g
        optimizer.step()
        return parameter.detach() * 1

    return step


@factory(f(3), f(3))
def adam_step_only():
    parameter = nn.Parameter(torch.ones(3))
    optimizer = optim.Adam([parameter], lr=0.1)

    def step(g):
        parameter.grad = g
        optimizer.step()
        return parameter.detach() * 1, optimizer.state[parameter]["step"]

    return step


@factory(f(4, 3), f(4, 3))
def parameter_groups():
    model = nn.Sequential(nn.Linear(3, 4), nn.Linear(4, 1))
    optimizer = optim.SGD([{"params": model[0].parameters(), "lr": 0.01}, {"params": model[1].parameters()}], lr=0.1)

    def step(x):
        optimizer.zero_grad()
        model(x).mean().backward()
        optimizer.step()
        return [group["lr"] for group in optimizer.param_groups], model[0].bias.detach().clone()

    return step


@factory(f(4, 3), f(4, 3))
def exponential_moving_average():
    model = nn.Linear(3, 2)
    shadow = [p.detach().clone() for p in model.parameters()]

    def update(x):
        with torch.no_grad():
            for s, parameter in zip(shadow, model.parameters()):
                s.lerp_(parameter, 0.1)
        return model(x)

    return update


@program((nn.Linear(2, 2), f(3, 2)), (nn.Linear(2, 2), f(3, 2)))
def zero_grad_of_module(model, x):
    model(x).sum().backward()
    norm = model.weight.grad.norm()
    model.zero_grad()
    return norm, model.weight.grad is None


@factory(f(4, 3), f(4, 3))
def closure_style():
    model = nn.Linear(3, 1)
    optimizer = optim.SGD(model.parameters(), lr=0.1)

    def step(x):
        def closure():
            optimizer.zero_grad()
            loss = model(x).pow(2).sum()
            loss.backward()
            return loss

        return optimizer.step(closure).detach()

    return step
