"""How a category's file registers its programs, and makes their arguments.

A file is executed again for every run, so arguments, globals and classes at its top level are always new.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

import torch


@dataclass
class Call:
    """One call of a program. `before(target)` runs first: it may change a flag, or call eval() of a model."""

    args: tuple
    kwargs: dict[str, Any] = field(default_factory=dict)
    before: Callable[[Any], Any] | None = None


@dataclass
class Program:
    name: str
    make: Callable[[], Any]  # returns the callable to compile
    calls: list[Call]


def call(*args: Any, before: Callable[[Any], Any] | None = None, **kwargs: Any) -> Call:
    return Call(args, kwargs, before)


def program(*calls: Any) -> Callable[[Any], Any]:
    """Registers the function below, to be called with each of `calls`: a `call(...)`, a tuple of arguments, or the
    one argument itself."""

    def register(fn: Any) -> Any:
        _add(fn.__name__, lambda: fn, calls)
        return fn

    return register


def factory(*calls: Any) -> Callable[[Any], Any]:
    """Like `program`, for a function that makes the callable: a closure, a method, a module."""

    def register(make: Any) -> Any:
        _add(make.__name__, make, calls)
        return make

    return register


_collected: dict[str, Program] = {}
_numbers = torch.Generator()


def _add(name: str, make: Callable[[], Any], calls: tuple) -> None:
    assert name not in _collected, f"two programs are called {name}"
    assert len(calls) >= 2, f"{name}: several calls are wanted"
    _collected[name] = Program(name, make, [_call_of(item) for item in calls])


def _call_of(item: Any) -> Call:
    if isinstance(item, Call):
        return item
    return Call(item if isinstance(item, tuple) else (item,))


@contextlib.contextmanager
def collecting() -> Iterator[dict[str, Program]]:
    """Collects the programs that a file registers while it is executed; arguments are the same each time."""
    global _collected
    before, _collected = _collected, {}
    _numbers.manual_seed(0)
    try:
        yield _collected
    finally:
        _collected = before


def f(*shape: int, grad: bool = False, dtype: torch.dtype = torch.float32) -> torch.Tensor:
    """Floats between -2 and 2."""
    values = torch.rand(shape, generator=_numbers) * 4 - 2
    return values.to(dtype).requires_grad_(grad)


def p(*shape: int, grad: bool = False) -> torch.Tensor:
    """Floats between 0.5 and 2: positive, for logarithms and divisors."""
    return (torch.rand(shape, generator=_numbers) * 1.5 + 0.5).requires_grad_(grad)


def i(*shape: int, high: int = 5) -> torch.Tensor:
    """Integers from 0 to `high` - 1."""
    return torch.randint(0, high, shape, generator=_numbers)


def b(*shape: int) -> torch.Tensor:
    """Booleans, some of each."""
    return torch.rand(shape, generator=_numbers) > 0.5
