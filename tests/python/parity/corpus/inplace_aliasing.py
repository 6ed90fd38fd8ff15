"""In-place operators on inputs and intermediates, aliasing between inputs, outputs and state."""

import torch

from tests.python.parity.corpus.registry import call, f, factory, program

base = torch.arange(6.0)
buffer = torch.zeros(3)


@program(f(3), f(3), f(2, 3))
def returns_the_input(x):
    return x, x + 1


@program(f(3), f(2, 3))
def returns_input_twice(x):
    return [x, x, {"again": x}]


@program(f(3), f(2, 3))
def in_place_and_returned(x):
    x.add_(1)
    return x


@program((f(3), f(3)), (f(2), f(2)))
def augmented_operators(x, y):
    x += y
    y *= 2
    x -= y
    x /= 2
    return x


@program(f(3), f(4))
def augmented_on_fresh(x):
    y = x + 0
    z = y
    y += 1
    return z, z is y


@factory(f(6), f(6))
def same_tensor_twice():
    def fn(x):
        return inner(x, x)

    def inner(a, c):
        a.add_(1)
        return a + c, a is c

    return fn


@program(call(*[f(3)] * 2), call(f(3), f(3)))
def arguments_may_alias(a, c):
    a.mul_(2)
    return a + c


shared = f(8)


@program((shared[:4], shared[4:]), (shared[:4], shared[2:6]), (f(4), f(4)))
def overlapping_views_as_arguments(a, c):
    a.add_(1)
    return c * 2


@program((f(4), 0), (f(4), 1))
def view_argument_changes_base(x, k):
    v = x.view(2, 2)
    v[k].zero_()
    return x * 1, v


@program(f(6), f(6))
def global_base_changed(x):
    base.copy_(x)
    return base.view(2, 3) * 2


@program(f(3), f(3))
def global_buffer_accumulates(x):
    buffer.add_(x)
    return buffer.clone()


@program(f(3), f(3))
def global_buffer_returned(x):
    buffer.copy_(x)
    return buffer


@program((f(3), [f(3), f(3)]), (f(3), [f(3)]))
def in_place_on_elements(x, parts):
    for part in parts:
        part.add_(x)
    return sum(parts)


@program({"a": f(3), "b": f(3)}, {"a": f(2), "b": f(2)})
def in_place_on_dict_values(d):
    for value in d.values():
        value.neg_()
    return d["a"] + d["b"]


@program(f(2, 3), f(3, 2))
def metadata_in_place(x):
    y = x.clone()
    y.t_()
    y.unsqueeze_(0)
    y.squeeze_(0)
    return y, y.stride(), x.shape


@program(f(2, 3), f(3, 2))
def input_metadata_in_place(x):
    x.transpose_(0, 1)
    return x + 1, x.shape


@program(f(3, grad=True), f(2, grad=True))
def in_place_on_intermediate_with_grad(x):
    y = x * 2
    y.add_(1)
    y[0] = 0
    return y.pow(2)


@program(f(3, grad=True), f(2, grad=True))
def in_place_on_leaf_is_an_error(x):
    y = x * 2
    x.add_(1)
    return y


@program(f(3, grad=True), f(3, grad=True))
def in_place_on_leaf_without_grad(x):
    with torch.no_grad():
        x.mul_(0.5)
    return x * 2


@program((f(3), f(3)), (f(2, 2), f(2, 2)))
def swap_data(x, y):
    t = x.clone()
    x.copy_(y)
    y.copy_(t)
    return x - y


@program((f(3), 0.9), (f(3), 0.5))
def moving_average(x, momentum):
    buffer.mul_(momentum).add_(x, alpha=1 - momentum)
    return x - buffer


@program(f(4), f(6))
def fill_and_zero(x):
    y = torch.empty_like(x)
    y.fill_(3)
    x.zero_()
    return y + x, torch.zeros(2).fill_(1)


@program((f(3), f(3)), (f(2), f(2)))
def chained_in_place(x, y):
    return x.add_(y).mul_(2).clamp_(min=0), x is x.abs_()


@program((f(4), f(4)), (f(3), f(3)))
def copy_between_dtypes(x, y):
    z = torch.zeros(x.shape, dtype=torch.float64)
    z.copy_(x)
    y.copy_(z * 2)
    return z, y


@program(f(2, 4), f(3, 4))
def set_item_with_views(x):
    head, tail = x[:, :2], x[:, 2:]
    head[...] = tail
    return x, head


@program((f(3), True), (f(3), False))
def mutation_in_branch(x, flag):
    if flag:
        x.add_(1)
        return x * 2
    return x.add(1)


@program(f(3), f(3))
def data_attribute(x):
    x.data = x.data * 2
    x.data.add_(1)
    return x + 0


@program((f(3), f(5)), (f(2), f(2)))
def resized_output(x, y):
    x.set_(y.clone())
    return x * 2
