"""Tensor subclasses, __torch_function__, torch-function modes, parameters made in the program."""

import torch
from torch import nn
from torch.overrides import TorchFunctionMode

from tests.python.parity.corpus.registry import f, factory, program

log = []


class Tagged(torch.Tensor):
    """A subclass that changes nothing."""


class Logging(torch.Tensor):
    @classmethod
    def __torch_function__(cls, func, types, args=(), kwargs=None):
        log.append(getattr(func, "__name__", str(func)))
        return super().__torch_function__(func, types, args, kwargs or {})


class Doubling(torch.Tensor):
    @classmethod
    def __torch_function__(cls, func, types, args=(), kwargs=None):
        out = super().__torch_function__(func, types, args, kwargs or {})
        if func is not torch.Tensor.add:
            return out
        with torch._C.DisableTorchFunctionSubclass():
            return out * 2


class Wrapper:
    """Not a tensor, but torch's functions take it."""

    def __init__(self, x, unit):
        self.x, self.unit = x, unit

    @classmethod
    def __torch_function__(cls, func, types, args=(), kwargs=None):
        plain = [a.x if isinstance(a, Wrapper) else a for a in args]
        unit = next(a.unit for a in args if isinstance(a, Wrapper))
        return Wrapper(func(*plain, **(kwargs or {})), unit)


class Counting(TorchFunctionMode):
    def __init__(self):
        super().__init__()
        self.names = []

    def __torch_function__(self, func, types, args=(), kwargs=None):
        self.names.append(getattr(func, "__name__", "?"))
        return func(*args, **(kwargs or {}))


class Replacing(TorchFunctionMode):
    def __torch_function__(self, func, types, args=(), kwargs=None):
        if func is torch.sin:
            func = torch.cos
        return func(*args, **(kwargs or {}))


@program(f(3).as_subclass(Tagged), f(2).as_subclass(Tagged))
def plain_subclass(x):
    y = x + 1
    return y, type(y).__name__, torch.relu(y)


@program((f(3), 2), (f(2), 3))
def subclass_made_inside(x, n):
    t = x.as_subclass(Tagged)
    return t * n, isinstance(t, Tagged), isinstance(t, torch.Tensor)


@program(f(3).as_subclass(Logging), f(2).as_subclass(Logging))
def logging_subclass(x):
    return (x + 1).sum()


@program((f(3).as_subclass(Tagged), f(3)), (f(2).as_subclass(Tagged), f(2)))
def mixed_with_plain(x, y):
    return x + y, y * x, torch.cat([x, y])


@program((f(3), "m"), (f(2), "s"))
def wrapper_class(x, unit):
    w = torch.add(Wrapper(x, unit), 1)
    return w.x, w.unit, torch.mul(w, 2)


@program(Wrapper(f(3), "kg"), Wrapper(f(2), "g"))
def wrapper_taken(w):
    return torch.sin(w).x * 2, w.unit


@program(f(3), f(2))
def counting_mode(x):
    with Counting() as mode:
        y = torch.sin(x) + 1
    return y, mode.names


@program(f(3), f(2))
def replacing_mode(x):
    with Replacing():
        y = torch.sin(x)
    return y, torch.sin(x)


@program(f(3), f(2))
def nested_modes(x):
    with Counting() as outer, Replacing():
        y = torch.sin(x)
    return y, len(outer.names) > 0


@program((f(3), 2), (f(2), 3))
def parameter_made_inside(x, n):
    w = nn.Parameter(torch.full((x.shape[0],), float(n)))
    y = (w * x).sum()
    (g,) = torch.autograd.grad(y, w)
    return g, isinstance(w, nn.Parameter), w.requires_grad


@program(nn.Parameter(torch.ones(3)), nn.Parameter(torch.ones(2)))
def parameter_argument(w):
    return w * 2, isinstance(w, nn.Parameter), type(w).__name__, type(w * 1).__name__


@program(f(3), f(2))
def default_device_mode(x):
    with torch.device("cpu"):
        y = torch.ones(x.shape[0])
    return x + y


@program(f(3), f(2))
def meta_device(x):
    with torch.device("meta"):
        y = torch.ones(4, 2)
    return x * y.shape[0], y.device.type


@factory(f(3), f(2))
def buffer_subclass():
    class Model(nn.Module):
        def __init__(self):
            super().__init__()
            self.scale = nn.Buffer(torch.tensor(2.0))

        def forward(self, x):
            return x * self.scale

    return Model()


@program(torch.eye(3).to_sparse(), torch.eye(2).to_sparse())
def sparse_tensor(s):
    return s.to_dense() * 2, s.is_sparse, torch.sparse.mm(s, torch.ones(s.shape[0], 2))


@program(torch.nested.nested_tensor([torch.ones(2), torch.ones(3)]), torch.nested.nested_tensor([torch.ones(1)]))
def nested_tensor(n):
    return [t * 2 for t in n.unbind()], n.is_nested


@program(f(3).as_subclass(Tagged), f(2).as_subclass(Tagged))
def attribute_on_subclass(x):
    x.label = "name"
    return x * 2, x.label


@program(torch.quantize_per_tensor(f(3), 0.1, 0, torch.qint8), torch.quantize_per_tensor(f(2), 0.1, 0, torch.qint8))
def quantized_tensor(q):
    return q.dequantize() + 1


@program(f(3).as_subclass(Doubling), f(2).as_subclass(Doubling))
def subclass_that_computes(x):
    return x.add(1), x - 1


@program(f(3).to(torch.complex64), f(2).to(torch.complex64))
def complex_argument(z):
    return z * 1j, z.conj(), z.real + 1, z.abs(), torch.view_as_real(z)


@program(f(3), f(2))
def break_under_a_mode(x):
    with Counting() as mode:
        y = torch.sin(x)
        print("inside")
        y = y + torch.ones(x.shape[0])
    return y * 2, mode.names


@program((f(3).as_subclass(Doubling), f(3)), (f(2).as_subclass(Doubling), f(2)))
def subclass_under_a_mode(x, y):
    with Replacing():
        return torch.sin(x), x.add(y), y.add(x), x.shape


@program(f(3, grad=True), f(2, grad=True))
def modes_see_the_grad_mode(x):
    with Counting() as mode, torch.no_grad():
        y = x * 2
    return y, y.requires_grad, mode.names


@program((f(3).as_subclass(Tagged), 2), (f(2).as_subclass(Tagged), 3))
def break_with_a_subclass(x, n):
    y = x * n
    print("inside", type(y).__name__)
    return y + 1, [type(row).__name__ for row in y], len(y), y[0], y.max(), torch.stack([y, y]).sum(0)


@program(f(3), f(4))
def hooks_on_a_subclass_are_asked_for_once(x):
    log.clear()
    leaf = x.as_subclass(Logging).requires_grad_()
    y = leaf * 2
    y.register_hook(lambda g: g * 3)
    return y + 1, list(log)


@program(f(3), f(4))
def flags_of_a_subclass(x):
    log.clear()
    y = x.as_subclass(Logging)
    y.requires_grad_()
    y.retain_grad()
    return y * 2, y.is_leaf, list(log)
