"""Writes that other values see, under backends that compute first and write later.

Torch's compilers take overlapping inputs, elements of one list of tensors, and the memories of a tensor that gets other
data for independent.
"""

import pytest
import torch

import stator
from tests.python.helpers import Counting, captures
from tests.python.parity.test_aliases import BACKENDS, agree, apart, attempt, tied


def shifted():
    base = torch.arange(12.0)
    return [base[:6].view(2, 3), base[3:9].view(2, 3)]


def turned():
    base = torch.arange(9.0).reshape(3, 3)
    return [base[:2], base.t()[:2]]


def same_data():
    base = torch.arange(6.0).reshape(2, 3)
    return [base, base.data]


def columns():
    base = torch.arange(12.0).reshape(2, 6)
    return [base[:, :3], base[:, 3:]]


def halves():
    base = torch.arange(12.0)
    return [base[:6].view(2, 3), base[6:].view(2, 3)]


LAYOUTS = [apart, tied, shifted, turned, same_data, columns, halves]


def adds(x, y):
    x.add_(1)
    return y * 2


def adds_to_each_other(x, y):
    r = x.add_(y)
    y.mul_(2)
    return r, x, y


def writes_to_views(x, y):
    v = x[0]
    v.zero_()
    return y + 1, v, y.reshape(-1)


def writes_items(x, y):
    x[0, 1] = y[1, 0]
    y[1] = x[0]
    x[:, 0] += y[:, 1]
    return x, y


def writes_to_data(x, y):
    d = x.data
    d.add_(1)
    return y + x, d


def swaps(x, y):
    t = x.clone()
    x.copy_(y)
    y.copy_(t)
    return x - y


def one_list(x, y):
    torch._foreach_add_([x, y], 1.0)
    torch._foreach_mul_([y, x], 3.0)
    return x + y


def crossed_lists(x, y):
    torch._foreach_mul_([y, x], [x, y])
    return x, y


def part_and_whole(x, y):
    torch._foreach_add_([x[:1], x], 1.0)
    return x, y


def parts_inside(x, y):
    whole = torch.cat([x.flatten(), y.flatten()])
    return whole[:6].add_(whole[3:9])


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize(
    "fn",
    [adds, adds_to_each_other, writes_to_views, writes_items, writes_to_data, swaps, one_list, crossed_lists]
    + [part_and_whole, parts_inside],
    ids=lambda fn: fn.__name__,
)
def test_writes_to_overlapping_tensors(fn, backend):
    agree(fn, *LAYOUTS, backend=BACKENDS[backend])


def data_then_write(x, y):
    z = y + 1
    x.data = z
    z.mul_(2)
    return x, z


def data_of_an_argument(x, y):
    x.data = y
    y.add_(1)
    return x * 1, y * 1


def data_of_a_part(x, y):
    z = torch.cat([y, y])
    x.data = z[1:3]
    x.add_(1)
    return z


def old_data(x, y):
    v = x.view(-1)
    x.data = y + 1
    v.add_(5)
    return x * 2, v


def data_alone(x, y):
    x.data = y + 1
    return x * 2


@pytest.mark.parametrize("backend", ["reference", "aot_eager"])
@pytest.mark.parametrize(
    "fn", [data_then_write, data_of_an_argument, data_of_a_part, old_data, data_alone], ids=lambda fn: fn.__name__
)
def test_writes_to_data_that_a_tensor_gets(fn, backend):
    agree(fn, apart, backend=backend)


@pytest.mark.parametrize(("make", "is_compiled"), [(apart, 1), (columns, 1), (halves, 1), (shifted, 0), (same_data, 0)])
def test_inputs_that_are_apart_are_compiled(make, is_compiled):
    backend = Counting()
    compiled = stator.compile(adds, backend=backend)
    expected = attempt(adds, make())
    assert str(attempt(compiled, make())) == str(expected)
    assert captures() == 1
    assert backend.count == is_compiled


REFUSED = {
    "mul_": lambda x, ints: ints.mul_(1.5),
    "add out": lambda x, ints: torch.add(ints, 2.5, out=torch.empty_like(ints)),
    "sin out": lambda x, ints: torch.sin(ints, out=torch.empty_like(ints)),
    "complex": lambda x, ints: torch.add(x, 1j, out=torch.empty(2, 3)),
    "after a write": lambda x, ints: (x.add_(1), ints.mul_(1.5)),
}


@pytest.mark.parametrize("backend", ["reference", "aot_eager"])
@pytest.mark.parametrize("name", REFUSED)
def test_writes_that_kernels_refuse(name, backend):
    def args():
        return [torch.ones(2, 3), torch.arange(6).reshape(2, 3)]

    fn = REFUSED[name]
    compiled = stator.compile(fn, backend=backend)
    for _ in range(2):
        expected, actual = attempt(fn, args()), attempt(compiled, args())
        assert expected[0][0] == "RuntimeError"
        assert str(actual) == str(expected)
