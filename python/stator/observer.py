"""What hears of compilations: one object for the extension, which tells the parts of Stator that asked for it. While
nothing asks, the extension calls no Python code."""

from __future__ import annotations

import logging
import os
import threading
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
        # Compilations that began and did not end yet, with their thread. Only one thread compiles at a time, and
        # compilations may be nested.
        self._running: list[tuple[int, Compilation, list[Listener]]] = []

    def started(self, compile_id: str, function: str, file: str, line: int, reason: str) -> None:
        compilation = Compilation(compile_id, function, file, line, reason)
        listeners = list(_listeners.values())
        self._running.append((threading.get_ident(), compilation, listeners))
        for listener in listeners:
            try:
                listener.started(compilation)
            except BaseException:  # SystemExit too: a listener ends neither a compilation nor the program
                _log.exception("%s failed at the start of a compilation", type(listener).__name__)

    def ended(self, record: dict[str, Any], capture: dict[str, Any] | None) -> None:
        found = [i for i, (_, running, _) in enumerate(self._running) if running.compile_id == record["compile_id"]]
        if not found:
            return  # it began before anyone listened
        _, compilation, listeners = self._running[found[-1]]
        del self._running[found[-1] :]
        record = metrics.complete(record)
        for listener in reversed(listeners):
            try:
                listener.ended(compilation, record, capture)
            except BaseException:
                _log.exception("%s failed at the end of a compilation", type(listener).__name__)
        self.rest()

    def rest(self) -> None:
        """Ends the calls of the extension if nothing listens and nothing waits for an end."""
        if not _listeners and not self._running:
            _C.set_observer(None)

    def keep_own_thread(self) -> None:
        """In the child of a fork, compilations of other threads do not go on."""
        self._running = [row for row in self._running if row[0] == threading.get_ident()]


_observer = _Observer()
os.register_at_fork(after_in_child=_observer.keep_own_thread)


def request(name: str, listener: Listener) -> None:
    """Adds a listener, or replaces the one of this name."""
    _listeners[name] = listener
    _C.set_observer(_observer)


def withdraw(name: str) -> None:
    """Removes the listener of this name. One that was told of a start is still told of the end."""
    _listeners.pop(name, None)
    _observer.rest()
