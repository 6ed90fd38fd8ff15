"""Operators whose kernels are made of views: their results are views only where eager's are."""

from __future__ import annotations

import pytest
import torch
from torch.nn import functional as F

import stator
from tests.python.helpers import assert_same
from tests.python.parity.test_symbolic_sizes import made


def stacked(x):
    y = torch.stack([x, x * 2])
    y.add_(1)
    return y, y[0], y.unbind(0), y.view(-1)


def without_gradients(x):
    with torch.no_grad():
        y = torch.stack([x, x])
        z = y.view(-1)
        z += 1
    return y, z, y * 2


def convolved(x):
    y = F.conv1d(x.t()[None], torch.ones(2, 6, 2))
    return y, y[0], F.conv_transpose1d(x.t()[None], torch.ones(6, 2, 2)), y.squeeze(0)


def attended(x):
    y = F.scaled_dot_product_attention(x[None, None], x[None, None], x[None, None])
    return y, y.transpose(1, 2)


def reshaped(x):
    return x.tile(2, 2), x.reshape(-1), (x + 1).reshape(-1), x.flatten(), x.chunk(2, 1), x.T, x.contiguous(), x[1:]


def ancestry(results):
    """For each tensor, whether it is a view, and the place of its base among the results."""
    tensors = torch.utils._pytree.tree_leaves(results)
    places = {id(tensor): place for place, tensor in enumerate(tensors)}
    return [(tensor._is_view(), places.get(id(tensor._base))) for tensor in tensors]


@pytest.mark.parametrize("requires_grad", [False, True])
@pytest.mark.parametrize("fn", [stacked, without_gradients, convolved, attended, reshaped], ids=lambda fn: fn.__name__)
def test_bases_of_results(fn, requires_grad):
    compiled = stator.compile(fn)
    for n in (5, 3, 7, 2):
        x = made(n).requires_grad_(requires_grad)
        actual, expected = compiled(x), fn(x)
        assert_same(actual, expected, f"length {n}")
        assert ancestry(actual) == ancestry(expected), f"length {n}"


def test_a_result_can_be_detached_in_place():
    compiled = stator.compile(lambda x: torch.stack([x, x]))
    compiled(made(3)).detach_()  # an error for views
