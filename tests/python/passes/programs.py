"""Programs that write to tensors and make views of them, for tests of functionalisation: name -> (function, inputs)."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch.nn import functional as F

Program = tuple[Callable, Callable]
PROGRAMS: dict[str, Program] = {}


def program(*shapes, make=None):
    def add(fn):
        def inputs():
            torch.manual_seed(1)
            return make() if make else [torch.randn(shape) for shape in shapes]

        PROGRAMS[fn.__name__] = (fn, inputs)
        return fn

    return add


@program((3, 4))
def add_in_place(x):
    y = x * 2
    y.add_(1)
    return y


@program((3, 4))
def write_input(x):
    x.mul_(2)
    return x + 1


@program((3, 4))
def write_through_slice(x):
    y = x.clone()
    y[1:].add_(1)
    return y


@program((3, 4))
def write_through_chained_views(x):
    y = x.clone()
    y[1:].t()[0].view(-1).mul_(3)
    return y, y.sum()


@program((6, 4))
def overlapping_slices(x):
    y = x.clone()
    a, b = y[:4], y[2:]
    a.add_(1)
    b.mul_(2)
    a.sub_(3)
    return y, a, b


@program((4,))
def row_of_expanded(x):
    y = x.clone()
    e = y.expand(3, 4)
    e[1].add_(1)
    return y, e


@program((4,))
def fill_expanded(x):
    y = x.clone()
    y[:1].expand(5).fill_(7)
    return y


@program((1, 4))
def base_written_expanded_read(x):
    y = x.clone()
    e = y.expand(3, 4)
    y.add_(1)
    return e * 1


@program((3, 4))
def as_strided_write(x):
    y = x.clone()
    y.as_strided((2, 2), (4, 1), 1).mul_(10)
    return y


@program((3, 4))
def as_strided_of_view(x):
    y = x.clone()
    y[1:].as_strided((2,), (2,), 4).zero_()
    return y


@program((5, 4))
def index_put(x):
    y = x.clone()
    y.index_put_((torch.tensor([0, 2]),), torch.tensor(1.0))
    y[torch.tensor([1, 3])] = 5.0
    return y


@program((5, 4))
def mask_assign(x):
    y = x.clone()
    y[y > 0] = -1.0
    return y


@program((5, 4))
def mask_assign_input(x):
    x[x > 0] = 0.5
    return x.sum()


@program((3, 4))
def write_through_detach(x):
    y = x * 1
    y.detach().add_(1)
    return y


@program((3, 4))
def unbind_views(x):
    y = x.clone()
    a, b, c = y.unbind(0)
    b.add_(1)
    c.copy_(a)
    return y, b


@program((6, 4))
def split_views(x):
    y = x.clone()
    parts = y.split(2)
    parts[1].mul_(0)
    return y, parts[1], parts[2]


@program((7, 4))
def chunk_views(x):
    y = x.clone()
    parts = y.chunk(3, 0)
    parts[-1].add_(5)
    return y


@program((4, 6))
def split_with_sizes(x):
    y = x.clone()
    a, b = y.split([2, 4], dim=1)
    b.neg_()
    a.copy_(b[:, :2])
    return y


@program((4, 6))
def tensor_split(x):
    y = x.clone()
    torch.tensor_split(y, 3, dim=1)[2].add_(1)
    return y


@program((4, 6))
def hsplit_write(x):
    y = x.clone()
    torch.hsplit(y, 2)[1].zero_()
    return y


@program((3, 4))
def two_views_of_one_base(x):
    y = x.clone()
    a, b = y.view(12), y.t()
    a[3] = 9.0
    b[0].add_(1)
    return a, b, y


@program((3, 4))
def input_written_old_view_read(x):
    v = x[0]
    x.add_(1)
    return v + 0, v


@program((3, 4))
def input_view_written(x):
    x[1].mul_(3)
    return x.t()


@program((3, 4), (3, 4), (3, 4))
def out_argument(x, y, z):
    torch.add(x, y, out=z)
    return z * 2


@program((3, 4), (3, 4))
def out_view(x, y):
    z = torch.zeros(6, 4)
    torch.mul(x, y, out=z[::2])
    return z


@program((3, 4))
def out_resized(x):
    z = torch.empty(0)
    torch.sin(x, out=z)
    return z


@program((3, 4))
def out_of_other_dtype(x):
    z = torch.zeros(3, dtype=torch.float64)
    torch.sum(x, 1, out=z)
    return z


@program((3, 4), (2,))
def foreach(x, y):
    a, b = x.clone(), y.clone()
    torch._foreach_add_([a, b], 2.0)
    torch._foreach_mul_([a[0], b], [a[1], b])
    return a, b


@program((4, 4))
def foreach_in_one_memory(x):
    y = x.clone()
    torch._foreach_add_([y[:3], y[1:]], 1.0)
    torch._foreach_mul_([y, y], 2.0)
    return y


@program((3, 4))
def transpose_in_place(x):
    y = x.clone()
    y.t_()
    y[0].add_(1)
    return y


@program((3, 4))
def input_transposed_in_place(x):
    x.t_()
    x.add_(1)
    return x * 2


@program((3, 4))
def old_view_of_transposed_input(x):
    v = x[0]
    x.transpose_(0, 1)
    v.add_(1)
    return x + 0, v


@program((3, 1, 4))
def squeeze_in_place(x):
    y = x.clone()
    y.squeeze_(1).unsqueeze_(0)
    y[0, 0] = 1.0
    return y


@program((2, 3, 4))
def swaps_in_place(x):
    y = x.clone()
    y.swapaxes_(0, 1)
    y.swapdims_(1, 2).mul_(2)
    return y


def _complex():
    return [torch.randn(3, 4, dtype=torch.complex64)]


@program(make=_complex)
def real_and_imag(x):
    y = x.clone()
    y.real.add_(1)
    y.imag.mul_(2)
    return y


@program(make=_complex)
def view_as_real(x):
    y = x.clone()
    torch.view_as_real(y)[..., 0] = 3.0
    return y


@program((3, 2))
def view_as_complex(x):
    y = x.clone()
    torch.view_as_complex(y).mul_(1j)
    return y


@program(make=_complex)
def conjugate_view(x):
    y = x.clone()
    y.conj().add_(1j)
    return y


@program(make=_complex)
def adjoint_view(x):
    y = x.clone()
    y.mH[0].add_(1j)
    return y


@program((4,))
def dtype_view(x):
    y = x.clone()
    y.view(torch.int32).add_(1)
    return y


@program((4,))
def dtype_view_of_other_size(x):
    y = x.clone()
    y.view(torch.int16)[1::2].zero_()
    return y


@program((4,))
def atleast(x):
    y = x.clone()
    torch.atleast_1d(y).add_(1)
    torch.atleast_2d(y).mul_(2)
    torch.atleast_3d(y).sub_(3)
    return y


@program((3, 4))
def contiguous_that_aliases(x):
    y = x.clone()
    y.contiguous().add_(1)
    y.t().contiguous().add_(100)
    return y


@program((3, 4))
def reshape_that_aliases(x):
    y = x.clone()
    y.reshape(12)[0] = 1.0
    y.t().reshape(12)[1] = 2.0
    return y


@program((3, 4))
def to_that_aliases(x):
    y = x.clone()
    y.to(torch.float32).add_(1)
    y.to(torch.float64).add_(1)
    y.float().mul_(2)
    return y


@program((3, 4))
def dropout_in_eval(x):
    y = x.clone()
    F.dropout(y, 0.5, training=False).add_(1)
    return y


@program((3, 4))
def random_writes(x):
    y = x.clone()
    y.uniform_()
    y[:, ::2].normal_()
    y.t().bernoulli_(0.5)
    return y, torch.rand(2)


@program((3, 4), (4,), (4,))
def batch_norm_statistics(x, mean, var):
    var = var.abs()
    out = F.batch_norm(x, mean, var, training=True)
    return out, mean * 1, var


@program((2, 4, 5), (4,))
def instance_norm_statistics(x, mean):
    var = mean.abs() + 1
    return F.instance_norm(x, mean, var, use_input_stats=True), var


@program((3, 4))
def fill_diagonal(x):
    y = x.clone()
    y.fill_diagonal_(5)
    y.diagonal().add_(1)
    return y


@program((3, 4))
def diagonal_views(x):
    y = x.clone()
    torch.diagonal(y, 1).zero_()
    return y


@program((3, 4))
def same_tensor_twice(x):
    y = x * 2
    y.add_(y)
    y.mul_(y.sum())
    return y, y


@program((3, 4))
def outputs_share_memory(x):
    y = x + 1
    v = y[0]
    v.add_(1)
    return v, y, y.view(-1)


@program((3, 4))
def output_is_view_of_written_input(x):
    v = x[1:]
    x.add_(1)
    v.mul_(2)
    return v, x


@program((3, 4))
def unwritten_views_of_input(x):
    return x.view(12), x.t(), x[0]


@program((3, 4))
def write_then_restore(x):
    old = x.clone()
    x.zero_()
    y = x + 1
    x.copy_(old)
    return y


@program((3, 4))
def masked_writes(x):
    y = x.clone()
    m = y > 0
    y.masked_fill_(m, 2.0)
    y.masked_scatter_(m, torch.arange(12.0).view(3, 4))
    return y


@program((5, 4))
def scatter_writes(x):
    y = x.clone()
    i = torch.tensor([[0, 1, 2, 0]])
    y.scatter_(0, i, 1.0)
    y.scatter_add_(0, i, torch.ones(1, 4))
    y.index_add_(0, torch.tensor([1, 1]), torch.ones(2, 4))
    y.index_fill_(1, torch.tensor([3]), 0.5)
    y.index_copy_(0, torch.tensor([4]), torch.full((1, 4), 9.0))
    return y


@program((3, 4))
def movedim_and_flatten(x):
    y = x.clone()
    y.movedim(0, 1)[0].add_(1)
    y.flatten()[5:7].mul_(3)
    y.unflatten(1, (2, 2))[:, 1].neg_()
    return y


@program((4, 4))
def transposed_write_keeps_strides(x):
    y = x.t().clone()
    y.add_(x)
    return y


@program(make=lambda: [torch.randn(4, 6)[:, ::2].t()])
def strided_input(x):
    x.add_(torch.ones(4))
    return x, x[0]


@program(make=lambda: [torch.randn(5)[1:]])
def input_with_offset(x):
    x[1:].mul_(2)
    return x.as_strided((2,), (1,), 1)


def _shared():
    base = torch.randn(4, 4)
    return [base, base[0], base.t()]


@program(make=_shared)
def inputs_in_one_memory(a, b, c):
    b.add_(1)
    a.mul_(2)
    c[1].sub_(3)
    return a + 0, b, c.sum()


@program(make=lambda: [torch.randn(4).expand(3, 4)])
def overlapping_input(x):
    x[0].add_(1)
    return x * 1


@program((3, 4), (3, 4))
def data_and_set(x, y):
    z = x.clone()
    z.set_(y)
    z.add_(1)
    return z


@program((3, 4))
def resize_smaller(x):
    y = x.clone()
    y.resize_(2, 3)
    y.add_(1)
    return y


@program((2, 3))
def resize_input(x):
    x.resize_(3, 4)
    x.fill_(2)
    return x


@program((3, 4))
def empty_slices(x):
    y = x.clone()
    y[3:].add_(1)
    y[:, 2:2].zero_()
    return y


@program((3, 4))
def promoted_write(x):
    y = x.clone()
    y.add_(torch.ones(3, 4, dtype=torch.float64))
    z = torch.arange(4)
    z.mul_(2)
    return y, z


@program((3, 4))
def sorts_into(x):
    values, indices = torch.empty(3, 4), torch.empty(3, 4, dtype=torch.int64)
    torch.sort(x, dim=1, out=(values, indices))
    return values, indices


@program((3, 4))
def lerp_and_friends(x):
    y = x.clone()
    y.lerp_(torch.ones(3, 4), 0.5).clamp_(0, 1).sigmoid_().addcmul_(x, x, value=2)
    return y


@program((3, 4))
def relu_functional_in_place(x):
    y = x * 1
    F.relu(y, inplace=True)
    F.hardtanh_(y[1:], -0.1, 0.1)
    return F.leaky_relu_(y)


@program((3, 4))
def bitwise_in_place(x):
    m = x > 0
    m &= x < 1
    m |= x > 2
    return m.logical_not_()


@program((4, 3))
def real_use_of_cumsum_and_roll(x):
    y = x.clone()
    y.cumsum_(0)
    y[1:] += y[:-1].clone()
    return y


@program((3, 4))
def loop_over_rows(x):
    y = torch.zeros(3, 4)
    for i in range(3):
        y[i] = x[i] * i
    return y


@program((2, 3, 4))
def deep_chain(x):
    y = x.clone()
    y.permute(2, 0, 1)[1].unsqueeze(0).squeeze().t().select(0, 2).add_(4)
    return y
