"""Shape functions for CUDA kernels: fakes on a CUDA device against what the kernels returned on a GPU.

`cuda_layouts.json` holds calls of operators that were recorded on a GPU: the metadata of arguments and results. Fakes
have no data, so the shape functions run on machines without a GPU too. `make test-cuda` compares with the real kernels.
"""

import json
import pathlib

import pytest
import torch

from stator import _C
from tests.python.helpers import fake_scope

_fake = _C._fake

RECORDED = json.loads((pathlib.Path(__file__).parent / "cuda_layouts.json").read_text())


def made(value):
    """The argument that a record describes."""
    if isinstance(value, list):
        return [made(item) for item in value]
    if not isinstance(value, dict):
        return value
    sizes, strides, dtype, *device = value["t"]
    where = torch.device(device[0]) if device else torch.device("cuda", 0)
    return torch.ops.aten.empty_strided.default(sizes, strides, dtype=getattr(torch, dtype), device=where)


def described(value):
    """What must agree; strides of dimensions of size one, and of empty tensors, are ignored."""
    if isinstance(value, torch.Tensor):
        value = {"t": [list(value.shape), list(value.stride()), str(value.dtype)[6:], value.device.type]}
    if not isinstance(value, dict):
        return value
    sizes, strides, dtype, *device = value["t"]
    strides = [0 if size == 1 or 0 in sizes else stride for size, stride in zip(sizes, strides, strict=True)]
    return sizes, strides, dtype, device[0] if device else "cuda"


@pytest.mark.parametrize("name", RECORDED)
def test_layouts(name):
    op = getattr(torch.ops.aten, name).default
    wrong = []
    _fake.take_poison()
    for arguments, results in RECORDED[name]:
        with fake_scope():
            positional, named = made_for(op, arguments)
            found = op(*positional, **named)
            reason = _fake.take_poison()
        assert reason is None, f"{reason} for {arguments}"
        found = [described(result) for result in (found if isinstance(found, (tuple, list)) else [found])]
        expected = [described(result) for result in results]
        if found != expected:
            wrong.append(f"{arguments}: {found}, on the GPU {expected}")
    assert not wrong, f"{len(wrong)} of {len(RECORDED[name])} differ; the first: {wrong[0]}"


def made_for(op, arguments):
    """Positional and keyword arguments of a record, which lists all by position."""
    values = [made(value) for value in arguments]
    schema = op._schema.arguments
    places = [i for i, argument in enumerate(schema[: len(values)]) if not argument.kwarg_only]
    named = {argument.name: value for argument, value in zip(schema, values, strict=False) if argument.kwarg_only}
    return [values[i] for i in places], named


def test_the_page_says_what_was_recorded():
    page = (pathlib.Path(__file__).parents[3] / "docs" / "gpu.md").read_text()
    assert f"{len(RECORDED)} operators, {sum(map(len, RECORDED.values())):,} calls" in page
