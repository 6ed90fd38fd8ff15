"""The trace that runs on this thread."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Iterator
from typing import Any


class _Thread(threading.local):
    def __init__(self) -> None:
        self.stack: list[Any] = []


_thread = _Thread()


def current_tracer() -> Any:
    """The innermost trace of this thread; None if there is none, or it is paused."""
    return _thread.stack[-1] if _thread.stack else None


@contextlib.contextmanager
def running(tracer: Any) -> Iterator[None]:
    _thread.stack.append(tracer)
    try:
        yield
    finally:
        _thread.stack.pop()


@contextlib.contextmanager
def disable_tracing() -> Iterator[Any]:
    """In this block operators are not recorded. In the real mode, tensors that it makes are constants of the trace.
    Gives the trace; None if there is none."""
    tracer = current_tracer()
    if tracer is None:
        yield None
        return
    previous = tracer.pause(True)
    try:
        with running(None):
            yield tracer
    finally:
        tracer.pause(previous)


def get_isolated_graph_module(
    func: Any, args: tuple[Any, ...], kwargs: dict[str, Any] | None = None, tracing_mode: str = "real"
) -> Any:
    """The module of one call, traced while the trace around it is paused."""
    from .entry import make_fx, wrapper_and_args_for_make_fx

    wrapped, flat = wrapper_and_args_for_make_fx(func, args, kwargs or {})
    with disable_tracing():
        return make_fx(wrapped, tracing_mode=tracing_mode)(flat)
