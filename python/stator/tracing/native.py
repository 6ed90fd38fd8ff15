"""Decompositions in C++ (`core/passes/decompositions`) for the tables of `make_fx`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

from .._C import _passes


class NativeDecomposition:
    """A decomposition in C++. In a trace of ours it runs without Python; other users of a table call `python`, torch's
    own one, and so does a trace for arguments that the native one does not cover."""

    _stator_native = True

    def __init__(self, operator: torch._ops.OpOverload, python: Callable[..., Any]) -> None:
        self.operator = operator
        self.python = python

    def __repr__(self) -> str:
        return f"NativeDecomposition({self.operator})"

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        return self.python(*args, **kwargs)


def core_aten_decompositions() -> dict[Any, Callable[..., Any]]:
    """The table `torch._decomp.core_aten_decompositions()`, with native decompositions where there are any. After a
    trace, `module.meta["decompositions"]` has how often native and Python ones were used, by operator."""
    table = dict(torch._decomp.core_aten_decompositions().items())
    names = set(_passes.native_decompositions())
    for operator, python in table.items():
        if isinstance(operator, torch._ops.OpOverload) and operator.name() in names:
            table[operator] = NativeDecomposition(operator, python)
    return table
