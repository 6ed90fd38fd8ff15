"""torch.func: grad, vjp, jvp, vmap, jacobians, functional_call."""

import torch
from torch import nn
from torch.func import (
    functional_call,
    grad,
    grad_and_value,
    hessian,
    jacfwd,
    jacrev,
    jvp,
    stack_module_state,
    vjp,
    vmap,
)

from tests.python.parity.corpus.registry import f, factory, program


@program(f(3), f(4))
def gradient(x):
    return grad(lambda t: (t.sin() * t).sum())(x)


@program((f(3), f(3)), (f(2), f(2)))
def gradient_of_second_argument(x, y):
    return grad(lambda a, c: (a * c**2).sum(), argnums=1)(x, y), grad(lambda a, c: (a * c).sum(), argnums=(0, 1))(x, y)


@program(f(3), f(2))
def gradient_and_value(x):
    g, value = grad_and_value(lambda t: t.exp().sum())(x)
    return g, value


@program(f(3), f(2))
def gradient_with_aux(x):
    return grad(lambda t: ((t**2).sum(), t * 2), has_aux=True)(x)


@program(f(3), f(2))
def second_derivative(x):
    return grad(lambda t: grad(lambda s: (s**3).sum())(t).sum())(x)


@program((f(3), f(3)), (f(2), f(2)))
def forward_mode(x, t):
    return jvp(torch.sin, (x,), (t,))


@program((f(3), f(3)), (f(2), f(2)))
def reverse_mode(x, c):
    out, pull = vjp(torch.tanh, x)
    return out, pull(c)[0]


@program(f(3), f(2))
def jacobians(x):
    return jacrev(lambda t: t**2)(x), jacfwd(lambda t: t**2)(x)


@program(f(3), f(2))
def hessian_matrix(x):
    return hessian(lambda t: (t**3).sum())(x)


@program((f(4, 3), f(4, 3)), (f(2, 3), f(2, 3)))
def vmap_dot(x, y):
    return vmap(torch.dot)(x, y)


@program((f(4, 3), f(3)), (f(2, 3), f(3)))
def vmap_in_dims(x, y):
    return vmap(lambda a, c: a * c, in_dims=(0, None))(x, y), vmap(torch.sum, in_dims=1)(x)


@program((f(4, 3), 2), (f(2, 3), 3))
def vmap_with_constant(x, k):
    return vmap(lambda t: t.sum() * k)(x), vmap(lambda t: (t, t * k), out_dims=(0, 1))(x)


@program(f(2, 3, 4), f(3, 2, 4))
def nested_vmap(x):
    return vmap(vmap(lambda t: t.sum()))(x)


@program((f(3), f(5, 3)), (f(3), f(2, 3)))
def per_sample_gradients(w, xs):
    def loss(w, x):
        return ((w * x).sum() - 1) ** 2

    return vmap(grad(loss), in_dims=(None, 0))(w, xs)


@program(f(4, 3), f(2, 3))
def vmap_over_dict(x):
    return vmap(lambda d: d["a"] + d["b"].sum())({"a": x, "b": x * 2})


@factory(f(2, 3), f(4, 3))
def call_with_other_parameters():
    model = nn.Linear(3, 2)

    def fn(x):
        params = {name: p * 2 for name, p in model.named_parameters()}
        return functional_call(model, params, (x,))

    return fn


@factory(f(2, 3), f(4, 3))
def gradient_of_functional_call():
    model = nn.Linear(3, 2)

    def fn(x):
        params = {name: p.detach() for name, p in model.named_parameters()}
        return grad(lambda ps: functional_call(model, ps, (x,)).pow(2).sum())(params)

    return fn


@factory(f(2, 3), f(4, 3))
def ensemble():
    models = [nn.Linear(3, 2) for _ in range(2)]
    params, buffers = stack_module_state(models)

    def fn(x):
        return vmap(lambda p, b: functional_call(models[0], (p, b), (x,)), in_dims=(0, 0))(params, buffers)

    return fn


@program(f(3, grad=True), f(2, grad=True))
def transform_inside_autograd(x):
    g = grad(lambda t: (t**3).sum())(x)
    return (g * x).sum()


@program((f(3), 2), (f(3), 3))
def closure_over_locals(x, n):
    scale = x.sum()
    return grad(lambda t: (t * scale * n).sum())(x)


@program(f(3), f(3))
def effects_inside_transform(x):
    seen = []

    def loss(t):
        seen.append(t.shape)
        return (t**2).sum()

    return grad(loss)(x), seen


@program((f(4, 3), True), (f(4, 3), False))
def vmap_with_branch(x, flag):
    def fn(t):
        return t * 2 if flag else t.sum()

    return vmap(fn)(x)


@program(f(5, 2), f(3, 2))
def vmap_chunked(x):
    return vmap(lambda t: t.exp().sum(), chunk_size=2)(x)


@program(f(2, 2), f(3))
def a_flag_set_inside_of_a_level(x):
    level = torch._C._functorch._grad_increment_nesting()
    torch._C._functorch.set_inplace_requires_grad_allowed(True)
    x.requires_grad_()
    torch._C._functorch.set_inplace_requires_grad_allowed(False)
    torch._C._functorch._grad_decrement_nesting()
    return x + level, x.requires_grad
