"""Operators that return sizes (`aten.size.default`). Torch computes them outside of its dispatcher, as plain integers;
in a trace they give what the methods of tensors give, symbols among them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

from .replaced import replace_in_traces

_METHODS: dict[Any, Callable[..., Any]] = {
    torch.ops.aten.size.default: lambda tensor: list(tensor.size()),
    torch.ops.aten.size.int: lambda tensor, dim: tensor.size(dim),
    torch.ops.aten.stride.default: lambda tensor: list(tensor.stride()),
    torch.ops.aten.stride.int: lambda tensor, dim: tensor.stride(dim),
    torch.ops.aten.storage_offset.default: lambda tensor: tensor.storage_offset(),
    torch.ops.aten.numel.default: lambda tensor: tensor.numel(),
}

for _overload, _method in _METHODS.items():
    replace_in_traces(_overload, "_op", _overload._op, _method)
