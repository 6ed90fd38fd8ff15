"""Calls torch's bindings with probe arguments to learn what they pass to `__torch_function__`."""

from __future__ import annotations

import functools
from typing import Any

import torch


class Watch:
    """A torch-function mode that intercepts every call and stores its arguments."""

    def __init__(self) -> None:
        self.seen: tuple[Any, ...] | None = None

    def __torch_function__(self, func: Any, types: Any, *rest: Any) -> Any:
        self.seen = (func, types, *rest)
        return self


class _Other:
    """Base class of the probe arguments for objects that are not tensors but have a `__torch_function__`."""

    @classmethod
    def __torch_function__(cls, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        return NotImplemented


@functools.cache
def probe_argument(index: int, is_tensor: bool) -> type:
    """The class of the probe argument for the index-th overriding argument of a call. Each is a new class that derives
    from no other one, so torch reports them in the order of the arguments."""
    return type(f"Probe{index}", (torch.Tensor if is_tensor else _Other,), {})
