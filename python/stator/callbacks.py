"""`stator.callbacks`: functions that are called at the start and at the end of compilations.

    @stator.callbacks.on_start
    def pause_watchdog(args): ...           # args.trigger, args.compile_id

Nested and concurrent compilations count as one: start callbacks run before the first, end callbacks after the last, and
also if a compilation fails. An error that a callback raises is logged, and the program goes on; so are SystemExit and
KeyboardInterrupt at the compilation of a frame. Ctrl-C does not interrupt a callback: it is raised afterwards.
"""

from __future__ import annotations

import contextlib
import enum
import logging
import os
import threading
from collections import Counter
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

from . import observer
from .fork_safe import ForkSafeLock

_log = logging.getLogger("stator")


class Trigger(enum.Enum):
    """What is compiled."""

    FRAME = "frame"
    LAZY_BACKWARD = "lazy backward"
    AUTOTUNE = "autotune"
    GRAPH_RECORDING = "graph recording"


class CallbackArgs(NamedTuple):
    trigger: Trigger
    compile_id: str


Callback = Callable[[CallbackArgs], Any]

_start: list[Callback] = []
_end: list[Callback] = []
_lock = ForkSafeLock()
# Compilations that began and did not end, by thread.
_running: Counter[int] = Counter()


def on_start(callback: Callback) -> Callback:
    """Adds a callback for the start. Usable as a decorator."""
    _start.append(callback)
    observer.request("callbacks", _listener)
    return callback


def on_end(callback: Callback) -> Callback:
    """Adds a callback for the end. Usable as a decorator."""
    _end.append(callback)
    observer.request("callbacks", _listener)
    return callback


def remove(callback: Callback) -> None:
    """Removes a callback. ValueError if it was not added."""
    known = [callbacks for callbacks in (_start, _end) if callback in callbacks]
    if not known:
        raise ValueError(f"{callback!r} is not a callback of compilations")
    for callbacks in known:
        callbacks.remove(callback)
    if not _start and not _end:
        observer.withdraw("callbacks")


def clear() -> None:
    """Removes all callbacks. RuntimeError while a compilation runs, since its end would not be told."""
    with _lock:
        if _running:
            raise RuntimeError("callbacks cannot be cleared while a compilation runs")
        _start.clear()
        _end.clear()
    observer.withdraw("callbacks")


@contextlib.contextmanager
def compiling(trigger: Trigger, compile_id: str) -> Iterator[None]:
    """For backends: the block compiles something by itself, as a backward pass on its first run."""
    args = CallbackArgs(trigger, compile_id)
    _began(args)
    try:
        yield
    finally:
        _ended(args)


def _began(args: CallbackArgs) -> None:
    with _lock:
        is_first = not _running
        _running[threading.get_ident()] += 1
    if is_first:
        _call(_start, args)


def _ended(args: CallbackArgs) -> None:
    thread = threading.get_ident()
    with _lock:
        _running[thread] -= 1
        if not _running[thread]:
            del _running[thread]
        is_last = not _running
    if is_last:
        _call(_end, args)


def _keep_own_thread() -> None:
    """In the child of a fork, compilations of other threads do not go on."""
    thread = threading.get_ident()
    for other in [other for other in _running if other != thread]:
        del _running[other]


os.register_at_fork(after_in_child=_keep_own_thread)


def _call(callbacks: list[Callback], args: CallbackArgs) -> None:
    raised: BaseException | None = None
    for callback in list(callbacks):
        try:
            callback(args)
        except Exception:
            _log.exception("the compile callback %r failed", callback)
        except BaseException as error:
            raised = raised or error
    if raised is not None:
        raise raised


class _Listener:
    def started(self, compilation: observer.Compilation) -> None:
        _began(CallbackArgs(Trigger.FRAME, compilation.compile_id))

    def ended(self, compilation: observer.Compilation, record: dict[str, Any], capture: dict[str, Any] | None) -> None:
        _ended(CallbackArgs(Trigger.FRAME, compilation.compile_id))


_listener = _Listener()
