"""The trace that runs on this thread."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

import torch

from .casts import Running


@dataclass(eq=False)
class Recording:
    """A trace that runs. `tracer` records the operators."""

    tracer: Any
    options: Any
    table: dict[Any, Any] = field(default_factory=dict)  # decompositions in use
    calls: list[Any] = field(default_factory=list)  # nodes that only Python can make: `stator::traced_call` by number
    kept: list[range] = field(default_factory=list)  # nodes whose results do not replace the tensors they return
    decomposed: list[Any] = field(default_factory=list)  # operators whose decompositions run, outermost first
    marks_casts: bool = False  # nodes of low precision are marked for compilers (casts.py)
    env: Any = None  # of the symbols, if a fake kernel asked for a size (dynamic_sizes.py)
    states: Any = None  # what the program does to the state of the random numbers (random_states.py)

    def __post_init__(self) -> None:
        if self.marks_casts:
            self.decomposed = Running(self.tracer)


class _Thread(threading.local):
    def __init__(self) -> None:
        self.stack: list[Recording | None] = []


_thread = _Thread()


def current_tracer() -> Recording | None:
    """The innermost trace of this thread; None if there is none, or it is paused."""
    return _thread.stack[-1] if _thread.stack else None


@contextlib.contextmanager
def running(recording: Recording | None) -> Iterator[None]:
    _thread.stack.append(recording)
    try:
        yield
    finally:
        _thread.stack.pop()


@contextlib.contextmanager
def disable_tracing() -> Iterator[Recording | None]:
    """In this block operators are not recorded. In the real mode, tensors that it makes are constants of the trace.
    Gives the trace; None if there is none."""
    recording = current_tracer()
    if recording is None:
        yield None
        return
    previous = recording.tracer.pause(True)
    try:
        with running(None):
            yield recording
    finally:
        recording.tracer.pause(previous)


@contextlib.contextmanager
def unseen() -> Iterator[None]:
    """In this block, operators are neither recorded nor computed on the fakes of the trace of this thread."""
    if current_tracer() is None:
        yield
        return
    keys = [torch._C._parse_dispatch_key(name) for name in ("Fake", "DeferredInit")]
    hooks = torch._C.DispatchKeySet(keys[0]) | torch._C.DispatchKeySet(keys[1])
    with disable_tracing(), torch._C._ExcludeDispatchKeyGuard(hooks):
        yield


@contextlib.contextmanager
def keep_first_values() -> Iterator[None]:
    """In this block an operator that returns a tensor which it wrote to gives the tensor no new node: later operators
    take the node that the tensor had."""
    recording = current_tracer()
    if recording is None:
        yield
        return
    start = recording.tracer.position()
    try:
        yield
    finally:
        recording.kept.append(range(start, recording.tracer.position()))


@contextlib.contextmanager
def decompose(decomposition_table: Mapping[Any, Callable[..., Any]] | None) -> Iterator[Mapping[Any, Any] | None]:
    """In this block the trace of this thread has another decomposition table; None is an empty one. Gives the table."""
    recording = current_tracer()
    if recording is None:
        raise AssertionError("decompose() needs a trace that runs on this thread")
    earlier = recording.table
    use_table(recording, decomposition_table or {})
    try:
        yield decomposition_table
    finally:
        use_table(recording, earlier)


def handle_sym_dispatch(func: Callable[..., Any], args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> Any:
    """`func(*args)` on symbolic numbers of the trace of this thread. The result is a number of the trace as well."""
    if current_tracer() is None:
        raise AssertionError("handle_sym_dispatch() needs a trace that runs on this thread")
    if kwargs:
        raise AssertionError("functions of symbolic numbers take no keyword arguments")
    return func(*args)


def use_table(recording: Recording, table: Mapping[Any, Callable[..., Any]]) -> None:
    recording.table = dict(table)
    recording.tracer.set_table(recording.table, recording.decomposed)


def get_isolated_graph_module(
    func: Any,
    args: tuple[Any, ...],
    kwargs: dict[str, Any] | None = None,
    tracing_mode: str = "real",
    decomposition_table: Mapping[Any, Callable[..., Any]] | None = None,
) -> Any:
    """The module of one call, traced while the trace around it is paused."""
    from .entry import make_fx, wrapper_and_args_for_make_fx

    wrapped, flat = wrapper_and_args_for_make_fx(func, args, kwargs or {})
    with disable_tracing():
        return make_fx(wrapped, decomposition_table, tracing_mode)(flat)
