"""Traces functions to graphs, and compares runs of graphs with eager."""

from __future__ import annotations

import torch

from stator import _C


def trace(fn, inputs, grad=False):
    """The graph of a function of tensors, with its list below autograd."""
    tracer = _C.Tracer("traced", aten=True)
    fakes = [tracer.input(tensor, f"x{i}") for i, tensor in enumerate(inputs)]
    with torch.set_grad_enabled(grad):
        outputs = tracer.call(fn, *fakes)
    outputs = list(outputs) if isinstance(outputs, (list, tuple)) else [outputs]
    return tracer.finish(outputs)


def ops(graph):
    return [name.removeprefix("aten::") for name, *_ in graph.nodes()]


def tensors(results):
    return list(results) if isinstance(results, (list, tuple)) else [results]


def same(got, want):
    """Equal in metadata and bits; NaNs are equal."""
    assert got.dtype == want.dtype and got.shape == want.shape, (got.dtype, want.dtype, got.shape, want.shape)
    assert got.stride() == want.stride(), (got.stride(), want.stride())
    assert torch.equal(got.isnan(), want.isnan()) if got.is_floating_point() or got.is_complex() else True
    assert torch.equal(torch.nan_to_num(got), torch.nan_to_num(want)), (got, want)


def storages(inputs, outputs):
    """Which of these tensors share memory: a number for each."""
    seen: dict[int, int] = {}
    numbers = []
    for tensor in [*inputs, *outputs]:
        memory = tensor.untyped_storage().data_ptr() if tensor.numel() else id(tensor)
        numbers.append(seen.setdefault(memory, len(seen)))
    return numbers


def close(got, want):
    """Equal in metadata, and in values up to rounding."""
    assert (got.dtype, got.shape, got.stride()) == (want.dtype, want.shape, want.stride())
    torch.testing.assert_close(got, want, equal_nan=True)


def check_run(run, fn, make_inputs, same=same):
    """A run does what the function does: results, changed inputs, memory that is shared."""
    given, mine = make_inputs(), make_inputs()
    with torch.no_grad():
        torch.manual_seed(5)
        want, next_number = tensors(fn(*given)), torch.rand(1)
        torch.manual_seed(5)
        got = list(run(*mine))
        assert torch.equal(next_number, torch.rand(1)), "another number of random draws"
    assert len(got) == len(want)
    for one, other in zip(got, want, strict=True):
        same(one, other)
    for one, other in zip(mine, given, strict=True):
        same(one, other)
    assert storages(mine, got) == storages(given, want)
