"""Functions that are known to belong into a graph: asking for a graph break inside of one does nothing."""

from __future__ import annotations

import functools
import weakref
from collections.abc import Callable
from typing import Any, TypeVar

from .errors import InvalidTarget

F = TypeVar("F", bound=Callable[..., Any])

# Read by the extension.
addresses: set[int] = set()


def allow_in_graph(fn: Any) -> Any:
    """Marks a callable, or each of a list: what it computes belongs into the graph, whatever it says of graph breaks.

    `torch.compiler.allow_in_graph` is heeded likewise.
    """
    if isinstance(fn, (list, tuple)):
        return [allow_in_graph(each) for each in fn]
    if not callable(fn):
        raise InvalidTarget(f"{type(fn).__name__} cannot be called: {fn!r}", hint="mark a function")
    address = id(fn)
    if address not in addresses:
        addresses.add(address)
        weakref.finalize(fn, addresses.discard, address)
    return fn


def nonstrict_trace(fn: F) -> F:
    """A function that is the marked form of `fn`, which stays as it is."""
    if not callable(fn):
        raise InvalidTarget(f"{type(fn).__name__} cannot be called: {fn!r}", hint="mark a function")

    @functools.wraps(fn)
    def call(*args: Any, **kwargs: Any) -> Any:
        return fn(*args, **kwargs)

    allow_in_graph(call)
    return call  # type: ignore[return-value]
