"""Methods, operators and attributes of tensors."""

import torch

from tests.python.parity.corpus.registry import b, f, i, p, program


@program(f(2, 3, 4), f(4, 3, 2))
def shape_attributes(x):
    return (
        x + 1,
        x.shape,
        x.size(),
        x.size(-1),
        x.ndim,
        x.dim(),
        x.numel(),
        x.nelement(),
        len(x),
        x.stride(),
        x.storage_offset(),
    )


@program(f(2, 3), f(3, 2, dtype=torch.float64))
def kind_attributes(x):
    return (
        x * 2,
        x.dtype,
        x.device,
        x.layout,
        x.is_floating_point(),
        x.is_cuda,
        x.requires_grad,
        x.is_leaf,
        x.element_size(),
        x.itemsize,
    )


@program(f(2, 6), f(4, 6))
def views(x):
    return x.view(-1), x.view(x.size(0), 2, 3), x.reshape(3, -1), x.flatten(), x.unflatten(1, (2, 3)), x.view_as(x)


@program(f(2, 3, 4), f(1, 2, 3))
def permutations(x):
    return x.transpose(0, 1), x.permute(2, 0, 1), x.swapaxes(1, 2), x.movedim(0, -1), x[0].t(), x[0].T, x.mT


@program(f(2, 1, 3), f(1, 1, 4))
def squeezing(x):
    return x.squeeze(), x.squeeze(1), x.unsqueeze(0), x[None], x.unsqueeze(-1).squeeze(-1), torch.atleast_3d(x[0])


@program((f(1, 3), 4), (f(1, 2), 3))
def expansion(x, n):
    return x.expand(n, -1), x.expand_as(torch.ones(n, x.size(1))), x.repeat(n, 2), x.broadcast_to(n, x.shape[1])


@program((f(2, 3), f(2, 3)), (f(3, 3), f(3)))
def operators(x, y):
    return x + y, x - y, x * y, x / y, x // y, x % y, x**2, -x, +x, abs(x), x @ x.T


@program((i(2, 3), i(2, 3)), (b(3), b(3)))
def bit_operators(x, y):
    return x & y, x | y, x ^ y, ~x


@program((f(2, 3), 2), (f(2, 3), -1.5))
def reflected_operators(x, n):
    return n + x, n - x, n * x, n / x, n // x, n**x if n > 0 else x, n < x, n >= x, n == x


@program((f(3), f(3)), (f(4), f(4)))
def comparison_operators(x, y):
    return x == y, x != y, x < y, x <= y, x > y, x >= y, (x > 0) & (y > 0), x.eq(0).logical_or(y.gt(0))


@program((f(2, 3), "mean"), (f(3, 3), "sum"), (f(3, 3), "max"))
def method_by_name(x, name):
    return getattr(x, name)(), getattr(x, name)(dim=0)


@program((f(2, 3), torch.float64), (f(2, 3), torch.int32), (f(2, 3), torch.float32))
def casting(x, dtype):
    return x.to(dtype), x.double(), x.int(), x.half(), x.bool(), x.type(dtype), x.to(x), x.float() is x, x.bfloat16()


@program((f(2, 3), f(2, 3, dtype=torch.float64)), (f(2, 3), i(2, 3)))
def type_as_another(x, other):
    return (
        x.type_as(other),
        x.to(other),
        other.new_zeros(2),
        other.new_tensor([1, 2]),
        x.new_full((2,), 3.0),
        x.new_ones(2, dtype=torch.int8),
    )


@program(f(2, 3), f(3, 4))
def reductions(x):
    return x.sum(0), x.mean(), x.var(1), x.min(), x.max(1), x.argmax(), x.argmin(1), x.norm(dim=1), x.all(), x.median()


@program(f(3, 4), f(2, 5))
def sorting(x):
    values, order = x.sort(1)
    return values, order, x.argsort(0), x.topk(2).indices, x.kthvalue(1).values, x.unique_consecutive() if False else 0


@program(f(2, 3), f(4))
def copies(x):
    y = x.clone()
    z = x.detach()
    w = x.contiguous()
    return y, z, w is x, x.t().contiguous().stride() if x.dim() == 2 else 0, y.copy_(x * 2)


@program(f(2, 3, grad=True), f(2, 3))
def detaching(x):
    y = x.detach() * 2
    return y, y.requires_grad, (x * 2).detach().requires_grad, x.data * 3


@program((f(2, 3), 2), (f(4, 3), 3))
def apply_many(x, n):
    return x.add(n).mul(2).sub(1).div(n).pow(2).neg().abs().clamp(max=5).floor().sqrt()


@program(p(3), p(2, 2))
def special_functions(x):
    return (
        x.log1p(),
        x.expm1(),
        x.lgamma(),
        x.digamma(),
        x.erfc(),
        x.sinh(),
        x.atan(),
        x.reciprocal(),
        x.frac(),
        x.trunc(),
    )


@program((f(2, 3), f(2, 3), 0.5), (f(3), f(3), 0.1))
def fused_methods(x, y, w):
    return x.lerp(y, w), x.addcmul(x, y, value=w), x.addcdiv(x, y.abs() + 1), x.fmod(2), x.remainder(2), x.hypot(y)


@program((f(2, 8),), (f(3, 8),))
def unfolding(x):
    return (
        x.unfold(1, 4, 2),
        x.narrow(1, 2, 3),
        x.select(1, 0),
        x.chunk(2, 1),
        x.split(3, 1),
        x.as_strided((2, 2), (1, 2)),
    )


@program((f(2, 3), f(3)), (f(4, 3), f(3)))
def inplace_on_fresh(x, y):
    z = x.clone()
    z.add_(y).mul_(2).clamp_(-1, 1)
    z += y
    z[0] = 0
    z[:, 1] *= 3
    return z


@program((f(2, 3), 2), (f(3, 3), 1))
def subscripts(x, k):
    return x[0], x[..., k], x[:, 1:], x[-1, -1], x[None, :, k], x[[0, 1]], x[:, [k, 0]], x[0, 1:k]


@program((f(3), f(3)), (f(2), f(2)))
def membership_and_iteration(x, y):
    total = torch.zeros(())
    for a, c in zip(x, y):
        total = total + a * c
    return total, [t + 1 for t in x], len(x.unbind())


@program((f(2, 3, 4), (0, 1)), (f(2, 3, 4), (1, 2)))
def multiple_dimensions(x, dims):
    return x.sum(dims), x.mean(dim=dims, keepdim=True), x.flip(dims), x.amax(dims), x.logsumexp(dims)


@program((f(2, 2), None), (f(2, 2), 1))
def optional_arguments(x, dim):
    return (
        x.softmax(-1 if dim is None else dim),
        x.sum(dim=dim) if dim is not None else x.sum(),
        x.squeeze() if dim is None else x,
    )


@program((f(2, 3), "float"), (f(2, 3), "long"))
def custom_attribute(x, name):
    x.tag = name
    y = getattr(x, name)()
    return y, x.tag, hasattr(y, "tag")
