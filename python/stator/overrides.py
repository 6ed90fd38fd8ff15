"""Asks torch's own bindings what they hand to `__torch_function__`: the capture never guesses it."""

from __future__ import annotations

import functools
from typing import Any

import torch


class Watch:
    """A torch-function mode that answers every call itself, and keeps what it was called with."""

    def __init__(self) -> None:
        self.seen: tuple[Any, ...] | None = None

    def __torch_function__(self, func: Any, types: Any, *rest: Any) -> Any:
        self.seen = (func, types, *rest)
        return self


class _Other:
    """Stands for an object that is no tensor and has a `__torch_function__`."""

    @classmethod
    def __torch_function__(cls, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        return NotImplemented


@functools.cache
def stand_in(index: int, is_tensor: bool) -> type:
    """The class that the index-th overriding argument of a call gets while the binding is asked. No class twice, and
    none derived from another: torch tells them in the order in which it found them."""
    return type(f"StandIn{index}", (torch.Tensor if is_tensor else _Other,), {})
