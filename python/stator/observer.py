"""What hears of compilations: one object for the extension, which tells the parts of Stator that asked for it. While
nothing asks, the extension calls no Python code."""

from __future__ import annotations

import logging
from dataclasses import dataclass
from typing import Any, Protocol

from . import _C, metrics

_log = logging.getLogger("stator")


@dataclass(frozen=True)
class Compilation:
    """A compilation that begins. `reason`: why the function is compiled again, or empty."""

    compile_id: str
    function: str
    file: str
    line: int
    reason: str


class Listener(Protocol):
    def started(self, compilation: Compilation) -> None: ...
    def ended(self, compilation: Compilation, record: dict[str, Any], capture: dict[str, Any] | None) -> None: ...


_listeners: dict[str, Listener] = {}


class _Observer:
    def __init__(self) -> None:
        # Compilations that began and did not end yet. Only one thread compiles at a time; they may be nested.
        self._running: list[tuple[Compilation, list[Listener]]] = []

    def started(self, compile_id: str, function: str, file: str, line: int, reason: str) -> None:
        compilation = Compilation(compile_id, function, file, line, reason)
        listeners = list(_listeners.values())
        self._running.append((compilation, listeners))
        for listener in listeners:
            try:
                listener.started(compilation)
            except Exception:
                _log.exception("%s failed at the start of a compilation", type(listener).__name__)

    def ended(self, record: dict[str, Any], capture: dict[str, Any] | None) -> None:
        found = [i for i, (running, _) in enumerate(self._running) if running.compile_id == record["compile_id"]]
        if not found:
            return  # it began before anyone listened
        compilation, listeners = self._running[found[-1]]
        del self._running[found[-1] :]
        record = metrics.complete(record)
        for listener in reversed(listeners):
            try:
                listener.ended(compilation, record, capture)
            except Exception:
                _log.exception("%s failed at the end of a compilation", type(listener).__name__)


_observer = _Observer()


def request(name: str, listener: Listener) -> None:
    """Adds a listener, or replaces the one of this name."""
    _listeners[name] = listener
    _C.set_observer(_observer)


def withdraw(name: str) -> None:
    """Removes the listener of this name. One that was told of a start is still told of the end."""
    _listeners.pop(name, None)
    if not _listeners and not _observer._running:
        _C.set_observer(None)
