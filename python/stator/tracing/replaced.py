"""Functions of torch that are others while a trace runs: torch's own would read data, or would do outside of the trace
what the trace must see. Outside of traces, torch has its own ones."""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Callable, Iterator
from typing import Any

import torch

from ..fork_safe import ForkSafeLock
from .current import current_tracer
from .fake_modes import fake_mode_rows

_MISSING = object()

_lock = ForkSafeLock()
_users: list[object] = []  # the traces that run, of all threads
_rows: list[tuple[Any, str, Any]] = []  # (owner, name, what it is in a trace)
_originals: list[tuple[Any, str, Any]] = []  # (owner, name, what it was), while a trace runs


def replace_in_traces(owner: Any, name: str, original: Any, in_a_trace: Callable[..., Any]) -> None:
    """In a trace of its thread, `owner.name` is `in_a_trace`, and otherwise `original`."""

    def call(*args: Any, **kwargs: Any) -> Any:
        return (original if current_tracer() is None else in_a_trace)(*args, **kwargs)

    call.__name__ = call.__qualname__ = name
    _rows.append((owner, name, call))


class _FlexTorch:
    """What the module of `flex_attention` takes for `torch`: its function compiles the operator; a trace calls it."""

    def __getattr__(self, name: str) -> Any:
        return getattr(torch, name)

    @staticmethod
    def compile(function: Any, *args: Any, **kwargs: Any) -> Any:
        return torch.compile(function, *args, **kwargs) if current_tracer() is None else function


def _loaded() -> list[tuple[Any, str, Any]]:
    """Rows for modules of torch that are replaced only if they are loaded."""
    flex = sys.modules.get("torch.nn.attention.flex_attention")
    return _compilers() + fake_mode_rows() + ([(flex, "torch", _FlexTorch())] if flex is not None else [])


def _compilers() -> list[tuple[Any, str, Any]]:
    """Functions that torch compiles refuse to run in a trace, if its compiler is loaded."""
    frames: Any = sys.modules.get("torch._dynamo.eval_frame")
    name = "_maybe_set_eval_frame"
    if not hasattr(frames, name):
        return []
    original = getattr(frames, name)

    def set_eval_frame(callback: Any) -> Any:
        if callable(callback) and current_tracer() is not None:
            raise RuntimeError(
                "cannot be traced: the program calls a function that torch.compile compiles; it must call the function "
                "itself"
            )
        return original(callback)

    return [(frames, name, set_eval_frame)]


@contextlib.contextmanager
def replaced() -> Iterator[None]:
    """The first block replaces the functions, and the last one puts them back: blocks of several threads overlap."""
    user = object()
    with _lock:
        if not _users:
            for owner, name, made in (*_rows, *_loaded()):
                _originals.append((owner, name, vars(owner).get(name, _MISSING)))
                setattr(owner, name, made)
        _users.append(user)
    try:
        yield
    finally:
        with _lock:
            _users.remove(user)
            if not _users:
                for owner, name, original in _originals:
                    if original is _MISSING:
                        delattr(owner, name)
                    else:
                        setattr(owner, name, original)
                _originals.clear()
