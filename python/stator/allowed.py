"""Calls of functions that are allowed in graphs, as nodes.

Such a function is captured like any other. If it cannot be captured, it becomes a node that calls it. By marking it,
its author asserts that it may be called on fakes, and again if a graph fails.
"""

from __future__ import annotations

import weakref
from collections.abc import Callable
from typing import Any

import torch

from . import _C
from .functions import Slot, fill


def _kind(tensor: torch.Tensor) -> tuple[Any, ...]:
    return tensor.size(), tensor.stride(), tensor.dtype, tensor.device, tensor.requires_grad


def _memory(tensors: list[torch.Tensor]) -> list[int]:
    return [tensor.untyped_storage()._cdata for tensor in tensors]


class _Tensors(list[torch.Tensor]):
    """Distinct tensors in the order in which they were first found."""

    def slots(self, value: Any) -> Any:
        """The value with `Slot`s in place of its tensors."""
        if isinstance(value, torch.Tensor):
            return Slot(self.place(value))
        if type(value) in (tuple, list):
            return type(value)(self.slots(item) for item in value)
        if type(value) is dict:
            return {key: self.slots(item) for key, item in value.items()}
        return value

    def place(self, tensor: torch.Tensor) -> int:
        for index, known in enumerate(self):
            if known is tensor:
                return index
        self.append(tensor)
        return len(self) - 1


def _is_same(one: Any, other: Any) -> bool:
    """Whether two results, with slots in place of their tensors, are interchangeable."""
    if one is other:
        return True
    if type(one) is not type(other):
        return False
    if type(one) is Slot:
        return bool(one.index == other.index)
    if type(one) in (tuple, list):
        return len(one) == len(other) and all(map(_is_same, one, other))
    if type(one) is dict:
        return list(one) == list(other) and all(map(_is_same, one.values(), other.values()))
    return bool(one == other)


class AllowedCall:
    """One call of a function, with `Slot`s in place of the tensors. A graph does not keep the function alive."""

    def __init__(self, function: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        self.function = weakref.ref(function)
        self.name = getattr(function, "__qualname__", type(function).__name__)
        self.fakes = _Tensors()
        self.given = self.fakes.slots((args, kwargs))
        self.made: Any = None
        self.kinds: list[tuple[Any, ...]] = []

    def trace(self) -> tuple[Any, tuple[torch.Tensor, ...], tuple[torch.Tensor, ...]]:
        """Calls the function on the fakes it was made with. Returns the result, the node's inputs and its outputs."""
        given, self.fakes = self.fakes, _Tensors()
        versions = [tensor._version for tensor in given]
        result, made = self.run(tuple(given)), _Tensors()
        if [tensor._version for tensor in given] != versions:
            raise RuntimeError(f"{self.name} writes to its arguments")
        self.made = made.slots(result)
        self.kinds = [_kind(tensor) for tensor in made]
        old, new = (_memory(tensors) for tensors in (given, made))
        if len({*old, *new}) < len(set(old)) + len(new) or not all(map(_C._fake.is_fake, made)):
            raise RuntimeError(f"{self.name} returns memory that is not new, or the same memory twice")
        return result, tuple(given), tuple(made)

    def run(self, tensors: tuple[torch.Tensor, ...]) -> Any:
        function = self.function()
        if function is None:
            raise ReferenceError(f"{self.name}, which a graph calls, was freed")
        args, kwargs = fill(self.given, tensors)
        result = function(*args, **kwargs)
        if not _is_same(_Tensors(tensors).slots((args, kwargs)), self.given):
            raise RuntimeError(f"{self.name} is allowed in graphs, but changes a container that it is given")
        return result

    def __call__(self, *tensors: torch.Tensor) -> tuple[torch.Tensor, ...]:
        made = _Tensors()
        slots = made.slots(self.run(tensors))
        # A backend that traces the graph calls it on tensors of its own classes.
        is_traced = any(type(tensor) not in (torch.Tensor, torch.nn.Parameter) for tensor in tensors)
        if not _is_same(slots, self.made) or (not is_traced and [_kind(tensor) for tensor in made] != self.kinds):
            raise RuntimeError(
                f"{self.name} is allowed in graphs, but returned another kind of result than when it was captured"
            )
        return tuple(made)

    def __str__(self) -> str:
        return str(self.name)
