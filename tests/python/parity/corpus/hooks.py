"""Hooks on modules and tensors."""

import functools

import torch
from torch import nn

from tests.python.parity.corpus.registry import call, f, factory, program

log = []


def shape_hook(module, args, output):
    log.append((type(module).__name__, tuple(output.shape)))


def doubling_hook(module, args, output):
    return output * 2


def adding_pre_hook(module, args):
    return (args[0] + 1,)


@factory(f(2, 3), f(2, 3), f(4, 3))
def forward_hook_logs():
    model = nn.Sequential(nn.Linear(3, 4), nn.ReLU())
    for layer in model:
        layer.register_forward_hook(shape_hook)
    return model


@factory(f(2, 3), f(4, 3))
def forward_hook_changes_output():
    layer = nn.Linear(3, 2)
    layer.register_forward_hook(doubling_hook)
    return layer


@factory(f(2, 3), f(4, 3))
def forward_pre_hook():
    layer = nn.Linear(3, 2)
    layer.register_forward_pre_hook(adding_pre_hook)
    return nn.Sequential(layer)


@factory(call(f(2, 3), scale=2), call(f(2, 3), scale=3))
def hooks_with_kwargs():
    class Scaled(nn.Module):
        def forward(self, x, scale=1):
            return x * scale

    def pre(module, args, kwargs):
        return args, {"scale": kwargs["scale"] + 1}

    def post(module, args, kwargs, output):
        return output + kwargs["scale"]

    layer = Scaled()
    layer.register_forward_pre_hook(pre, with_kwargs=True)
    layer.register_forward_hook(post, with_kwargs=True)
    return layer


@factory(f(2, 3), f(2, 3))
def several_hooks_in_order():
    layer = nn.Linear(3, 2)
    layer.register_forward_hook(lambda m, a, o: log.append("first"))
    layer.register_forward_hook(lambda m, a, o: o + 1)
    layer.register_forward_hook(lambda m, a, o: log.append("zeroth"), prepend=True)
    return layer


handles = []


@factory(f(2, 3), call(f(2, 3), before=lambda m: handles.pop().remove()))
def hook_removed_between_calls():
    layer = nn.Linear(3, 2)
    handles.append(layer.register_forward_hook(doubling_hook))
    return layer


@factory(f(2, 3), call(f(2, 3), before=lambda m: m[0].register_forward_hook(doubling_hook)))
def hook_added_between_calls():
    return nn.Sequential(nn.Linear(3, 2))


@factory(f(2, 3), f(2, 3))
def hook_keeps_activations():
    kept = {}
    model = nn.Sequential(nn.Linear(3, 4), nn.Tanh())
    model[0].register_forward_hook(lambda m, a, o: kept.__setitem__("hidden", o))

    def fn(x):
        y = model(x)
        return y, kept["hidden"] * 2

    return fn


@factory(f(2, 3, grad=True), f(2, 3, grad=True))
def full_backward_hook():
    layer = nn.Linear(3, 2)
    layer.register_full_backward_hook(lambda m, gi, go: log.append(tuple(go[0].shape)))
    return layer


@factory(f(2, 3, grad=True), f(2, 3, grad=True))
def backward_hook_changes_gradient():
    layer = nn.Linear(3, 2)
    layer.register_full_backward_hook(lambda m, gi, go: (gi[0] * 10,))
    return layer


@program(f(3, grad=True), f(2, grad=True))
def tensor_hook(x):
    y = x * 2
    y.register_hook(lambda g: g * 5)
    return y * 3


@program(f(3, grad=True), f(2, grad=True))
def tensor_hook_logs(x):
    y = x * 2
    y.register_hook(lambda g: log.append(tuple(g.shape)))
    return y.sin()


@program(f(3, grad=True), f(3, grad=True))
def hook_on_input(x):
    handle = x.register_hook(lambda g: g + 1)
    y = (x * 2).sum()
    (g,) = torch.autograd.grad(y, x)
    handle.remove()
    return g


@factory(f(2, 3), f(2, 3))
def parameter_hook():
    layer = nn.Linear(3, 2)
    layer.weight.register_hook(lambda g: g * 0.5)
    return layer


@program((nn.Linear(3, 2), f(2, 3)), (nn.Linear(3, 2), f(2, 3)))
def registered_and_removed_inside(layer, x):
    handle = layer.register_forward_hook(doubling_hook)
    y = layer(x)
    handle.remove()
    return y, layer(x)


@factory(f(2, 3), f(2, 3))
def hook_with_state():
    counts = {"calls": 0}

    def hook(module, args, output):
        counts["calls"] += 1
        return output * counts["calls"]

    layer = nn.Linear(3, 2)
    layer.register_forward_hook(hook)
    return layer


@factory(f(2, 3), f(2, 3))
def global_module_hook():
    layer = nn.Linear(3, 2)

    def fn(x):
        handle = nn.modules.module.register_module_forward_hook(shape_hook)
        try:
            return layer(x)
        finally:
            handle.remove()

    return fn


@factory(f(2, 3), f(2, 3))
def hook_raises():
    def hook(module, args, output):
        if len(log) > 0:
            raise RuntimeError("hook refuses")
        log.append("called")

    layer = nn.Linear(3, 2)
    layer.register_forward_hook(hook)
    return layer


@factory(f(2, 3), f(2, 3))
def hook_prints():
    layer = nn.Linear(3, 2)
    layer.register_forward_hook(lambda m, a, o: print("shape", tuple(o.shape)))
    return nn.Sequential(layer, nn.ReLU())


@factory(f(2, 3, grad=True), f(3, 3, grad=True))
def pre_backward_and_post_accumulate():
    layer = nn.Linear(3, 2)
    layer.weight.register_post_accumulate_grad_hook(lambda p: log.append(tuple(p.grad.shape)))

    def fn(x):
        loss = layer(x).sum()
        loss.backward()
        return loss.detach()

    return fn


@program(f(3, grad=True), f(2, grad=True))
def several_tensor_hooks(x):
    y = x * 2
    first = y.register_hook(lambda g: g * 5)
    y.register_hook(lambda g: log.append(tuple(g.shape)))
    x.register_hook(scaled_by(3))
    return y * 3, first


def scaled_by(factor):
    def hook(g):
        log.append(factor)
        return g * factor

    return hook


@program(f(3, grad=True), f(3, grad=True))
def tensor_hook_with_closure(x):
    y = x * 2
    scale = x.detach().abs().sum()
    seen = []

    def hook(g):
        seen.append(scale)
        return g * scale

    y.register_hook(hook)
    return y.sin(), seen


@program(f(3, grad=True), f(3, grad=True))
def tensor_written_after_its_hook(x):
    y = x * 2
    y.register_hook(lambda g: g * 5)
    y.mul_(3)
    y.register_hook(lambda g: g + 1)
    return y.sin()


@program(f(3, grad=True), f(3, grad=True))
def tensor_hook_removed(x):
    y = x * 2
    handle = y.register_hook(lambda g: g * 5)
    z = y.sin()
    handle.remove()
    return z


@program(f(3, grad=True), f(3, grad=True))
def tensor_hook_and_backward(x):
    y = x * 2
    handle = y.register_hook(lambda g: g * 5)
    y.retain_grad()
    y.sin().sum().backward()
    handle.remove()
    return x.grad, y.grad


@program(f(3, grad=True), f(3))
def hook_without_gradient(x):
    y = x * 2
    try:
        y.register_hook(lambda g: g * 5)
    except RuntimeError as error:
        return y, str(error)
    return y


@factory(f(2, 3), f(2, 3))
def hook_of_parameter_made_inside():
    layer = nn.Linear(3, 2)

    def fn(x):
        layer.weight.register_hook(lambda g: g * 0.5)
        layer.bias.register_post_accumulate_grad_hook(lambda p: log.append(tuple(p.grad.shape)))
        return layer(x)

    return fn


@program(f(3, grad=True), f(3, grad=True))
def gradient_retained(x):
    y = x * 2
    y.retain_grad()
    z = y.sin()
    return z, y


@factory(f(3, grad=True), f(3, grad=True))
def hook_replaced_around_a_break():
    def fn(x):
        handle = x.register_hook(lambda g: g * 2)
        print("between")
        handle.remove()
        x.register_hook(lambda g: g * 3)
        return x.sin()

    return fn


kept = {}


@program(
    f(3, grad=True),
    call(f(3, grad=True), before=lambda fn: kept.clear()),
    call(f(3, grad=True), before=lambda fn: None),
)
def handle_from_elsewhere_removed(x):
    y = x * 2
    if "handle" in kept:
        kept["handle"].remove()
    else:
        kept["handle"] = x.register_hook(lambda g: g * 7)
    x.register_hook(lambda g: g + 1)
    return y.cos()


@program(f(3, grad=True), f(3, grad=True))
def hook_removed_after_a_write(x):
    y = x * 2
    handle = y.register_hook(lambda g: g * 5)
    y.mul_(3)
    other = y.register_hook(lambda g: g + 1)
    handle.remove()
    z = y.sin()
    other.remove()
    other.remove()
    return z


@program(f(3, grad=True), f(3, grad=True))
def hook_inside_of_a_block(x):
    y = x * 2
    with y.register_hook(lambda g: g * 5) as handle:
        z = y.sin()
    return z, type(handle).__name__, isinstance(handle, torch.utils.hooks.RemovableHandle), handle is None


class Gain:
    def __init__(self, gain):
        self.gain = gain

    def __call__(self, g):
        log.append(self.gain)
        self.gain += 1
        return g * self.gain


def times(g, factor):
    log.append(factor)
    return g * factor


gain = Gain(2.0)


@program(f(3, grad=True), f(3, grad=True))
def hooks_that_are_objects(x):
    y = x * 2
    y.register_hook(gain)
    y.register_hook(Gain(3.0))
    y.register_hook(functools.partial(times, factor=4))
    y.register_hook(torch.sin)
    return y.sin()
