"""Indexing, slicing, views that share memory, assignment through them."""

import torch

from tests.python.parity.corpus.registry import b, f, i, program


@program(f(4, 5), f(6, 5))
def basic_slices(x):
    return x[1:3], x[:, ::2], x[-2:], x[1:, 1:3], x[:0], x[..., -1]


@program((f(4, 5), 1), (f(4, 5), 3))
def integer_index(x, k):
    return x[k], x[k, k], x[:, k], x[-k], x[k].sum()


@program((f(4, 5), i(3, high=4)), (f(4, 5), i(2, 2, high=4)))
def tensor_index(x, index):
    return x[index], x[:, index], x[index, 0], x[index.flatten()[0]] if False else 0


@program((f(4, 5), i(3, high=4), i(3)), (f(4, 5), i(1, high=4), i(1)))
def two_tensor_indices(x, rows, columns):
    return x[rows, columns], x[rows[:, None], columns[None, :]]


@program((f(4, 5), b(4, 5)), (f(2, 5), b(2, 5)))
def masked_assignment(x, mask):
    y = x.clone()
    y[mask] = 0.0
    return y


@program(f(4, 5), f(3, 5))
def none_and_ellipsis(x):
    return x[None], x[:, None], x[..., None], x[None, ..., None, 0], x[:, None, :].shape


@program((f(4, 5), [0, 2]), (f(4, 5), [1]))
def list_index(x, rows):
    return x[rows], x[:, rows], x[rows, rows]


@program((f(4, 5), (1, 2)), (f(4, 5), (0, slice(1, 3))))
def tuple_index(x, key):
    return x[key]


@program((f(4, 5), slice(1, 3)), (f(4, 5), slice(None, None, 2)))
def slice_object(x, s):
    return x[s], x[:, s], x[s, s]


@program(f(4, 5), f(3, 5))
def assigned_slices(x):
    y = x.clone()
    y[0] = 1
    y[:, 1] = torch.arange(y.shape[0], dtype=y.dtype)
    y[1:, 2:4] = y[:-1, 2:4] * 2
    y[..., -1] += 5
    return y


@program((f(4, 5), i(2, high=4)), (f(4, 5), i(3, high=4)))
def assigned_by_index(x, index):
    y = x.clone()
    y[index] = -1.0
    y.index_fill_(1, index, 2.0)
    return y, x.index_add(0, index, torch.ones(len(index), 5)), x.index_copy(0, index[:1], torch.zeros(1, 5))


@program(f(4, 6), f(2, 6))
def input_changed_through_view(x):
    row = x[0]
    row.mul_(2)
    x.view(-1)[1] = 7
    return x.sum()


@program(f(4, 6), f(2, 6))
def views_returned(x):
    return x[1:], x.t(), x.view(-1), x.detach(), x.unsqueeze(0)


@program(f(4, 6), f(2, 6))
def view_of_view(x):
    a = x[1:]
    c = a.t()
    d = c[0]
    d.add_(1)
    return a, c, d


@program(f(4, 6), f(2, 6))
def view_of_fresh_tensor(x):
    y = x * 2
    first = y[0]
    first.zero_()
    return y, first


@program((f(4, 6), True), (f(4, 6), False))
def maybe_alias(x, flag):
    y = x if flag else x + 0
    y.add_(1)
    return y, x is y


@program(f(6), f(8))
def overlapping_windows(x):
    w = x.unfold(0, 3, 1)
    return w.mean(1), w, x.as_strided((2, 3), (1, 1))


@program((f(4, 6), f(4, 6)), (f(2, 3), f(2, 3)))
def split_parts_are_views(x, y):
    a, c = x.chunk(2, dim=1)
    a.copy_(y[:, : a.shape[1]])
    return x, c


@program(f(3, 4, 5), f(2, 4, 5))
def transposed_writes(x):
    t = x.permute(2, 0, 1)
    t[0] = 0
    t[1:, 0] -= 1
    return t.contiguous(), t


@program((f(3, 4), i(3, 1, high=4)), (f(2, 4), i(2, 1, high=4)))
def take_along(x, index):
    return torch.take_along_dim(x, index, 1), x.take(index), x.gather(1, index).squeeze(1)


@program((f(2, 3), 2), (f(2, 3), 1))
def select_narrow_diagonal(x, k):
    return x.select(1, k), x.narrow(1, 0, k), x.diagonal(), x.narrow(1, 0, k).add_(1)


@program(f(2, 3), f(3, 3))
def expanded_views(x):
    e = x[:1].expand(4, -1)
    return e, e + 1, e.stride(), e.clone().stride()


@program((f(5), [f(5), f(5)]), (f(3), [f(3)]))
def buffer_filled_in_loop(x, parts):
    out = torch.zeros(len(parts) + 1, x.shape[0])
    out[0] = x
    for k, part in enumerate(parts):
        out[k + 1] = part * 2
    return out


@program((f(4), 10), (f(4), 1))
def index_out_of_range(x, k):
    try:
        return x[k]
    except IndexError as error:
        return x, str(error)
