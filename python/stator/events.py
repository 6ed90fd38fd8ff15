"""`stator.events`: what happens, as events of the Chrome trace format.

    with stator.events.recording():
        step(x)
    stator.events.export("trace.json")          # opens in Perfetto and in chrome://tracing

While events are recorded, each phase of a compilation gives a begin and an end event. Programs and backends add their
own (`begin`, `end`, `instant`), and data to those that are open (`add_data`). The newest 65,536 events are kept.

Data has a level. EVENT: it is in the event. COMPILE: also in `compile_events()`, for the event and those around it that
were begun with `sink=True`. METRICS: also in the record of the compilation; only for the outermost event.
"""

from __future__ import annotations

import contextlib
import enum
import json
import logging
import os
import threading
import time
import uuid
from collections import deque
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, TypeVar

import torch

from . import _C, metrics, strict_json

_log = logging.getLogger("stator")
T = TypeVar("T")

# The event of a whole compilation, which the extension begins and ends.
FRAME = "frame"


class Level(enum.IntEnum):
    EVENT = 1
    COMPILE = 2
    METRICS = 3


class Span:
    """An event that was begun. Its data belongs to it, not to its name: spans of one name may be nested."""

    def __init__(self, name: str, data: dict[str, Any], sink: bool, compile_id: str):
        self.name = name
        self.data = data
        self.sink = sink
        self.compile_id = compile_id
        self.start_ns = time.time_ns()
        self.range: Any = None


class _Frame(Span):
    """The event of the compilation that runs on this thread. The extension keeps its data."""

    def __init__(self, compile_id: str, text: str):
        super().__init__(FRAME, json.loads(text) if text else {}, True, compile_id)


class _Stack(threading.local):
    def __init__(self) -> None:
        self.spans: list[Span] = []


_stack = _Stack()


def _open_spans() -> list[Span]:
    record = _C.open_record()
    frame: list[Span] = [_Frame(record[0], record[2])] if record is not None else []
    return frame + _stack.spans


def stack() -> list[str]:
    """The names of the events that are open on this thread, the outermost first."""
    return [span.name for span in _open_spans()]


def outermost() -> str | None:
    """The name of the outermost event that is open on this thread."""
    spans = _open_spans()
    return spans[0].name if spans else None


# ---- recording

_run_id: str | None = None


def run_id() -> str:
    """The id of this run: made on first use, logged at level INFO. STATOR_RUN_PREFIX gives it a prefix."""
    global _run_id
    if _run_id is None:
        prefix = os.environ.get("STATOR_RUN_PREFIX", "")
        _run_id = f"{prefix}-{uuid.uuid4()}" if prefix else str(uuid.uuid4())
        _log.info("the events of this run have the id %s", _run_id)
    return _run_id


def active() -> bool:
    """Whether the log of events exists: something was recorded, or asked for its id."""
    return _run_id is not None


def start() -> None:
    """Records events from now on, until `stop` was called as often as `start`."""
    run_id()
    _C.request_events(True)


def stop() -> None:
    _C.request_events(False)


@contextlib.contextmanager
def recording() -> Iterator[None]:
    """Records events while the block runs."""
    start()
    try:
        yield
    finally:
        stop()


def clear() -> None:
    """Drops all events that were recorded."""
    _C.clear_events()
    _compile_events.clear()


def reset() -> None:
    """Drops the events of this thread that were begun and never ended."""
    for span in reversed(_stack.spans):
        _close_range(span)
    _stack.spans.clear()


@contextlib.contextmanager
def restored() -> Iterator[None]:
    """When the block ends, restores the events that were open on this thread at its start; drops those begun inside."""
    before = list(_stack.spans)
    try:
        yield
    finally:
        for span in reversed(_stack.spans):
            if span not in before:
                _close_range(span)
        _stack.spans[:] = before


def begin(
    name: str,
    data: dict[str, Any] | None = None,
    *,
    time_ns: int = -1,
    sink: bool = False,
    compile_id: str | None = None,
) -> Span:
    """Begins an event on this thread. `time_ns`: since 1970; -1: now. `compile_id`: by default, that of the running
    compilation."""
    span = Span(name, dict(data or {}), sink, compile_id or current_compile_id() or "None")
    if time_ns >= 0:
        span.start_ns = time_ns
    _stack.spans.append(span)
    _write(name, "B", span, time_ns)
    if torch.autograd.profiler._is_profiler_enabled:
        span.range = torch.autograd.profiler.record_function(f"Stator: {name}", _short(span.data))
        span.range.__enter__()
    return span


def end(span: Span | str, data: dict[str, Any] | None = None, *, time_ns: int = -1) -> None:
    """Ends an event; by name: the innermost of that name. Those inside that are still open are dropped, with a warning.
    An event that is not open is ignored, with a warning."""
    spans = _stack.spans
    found = [i for i, known in enumerate(spans) if known is span or known.name == span]
    if not found:
        name = span if isinstance(span, str) else span.name
        _log.warning("the event %r ends, but is not open; open are %s", name, stack())
        return
    at = found[-1]
    if dropped := spans[at + 1 :]:
        _log.warning("the event %r ends before %s", spans[at].name, [inner.name for inner in dropped])
    ended = spans[at]
    ended.data.update(data or {})
    for inner in reversed(spans[at:]):
        _close_range(inner)
    del spans[at:]
    for inner in reversed(dropped):  # so that begins and ends are balanced
        _write(inner.name, "E", inner, time_ns)
    _write(ended.name, "E", ended, time_ns)
    if ended.sink:
        _add_compile_event(ended)


@contextlib.contextmanager
def span(name: str, data: dict[str, Any] | None = None, *, sink: bool = False) -> Iterator[Span]:
    """An event that lasts as long as the block."""
    made = begin(name, data, sink=sink)
    try:
        yield made
    finally:
        end(made)


def instant(name: str, data: dict[str, Any] | None = None, *, time_ns: int = -1, level: Level = Level.EVENT) -> None:
    """An event without a duration."""
    if level == Level.METRICS:
        raise RuntimeError(f"the instant event {name!r} cannot have the metrics level: it belongs to no compilation")
    made = Span(name, dict(data or {}), level == Level.COMPILE, current_compile_id() or "None")
    _write(name, "i", made, time_ns)
    if made.sink:
        _add_compile_event(made)


def signpost(category: str, name: str, parameters: dict[str, Any] | None = None) -> None:
    """Records a rare fact: an instant event. Also calls the listeners that `on_signpost` added."""
    instant(f"{category}: {name}", parameters)
    for listener in list(_signpost_listeners):
        try:
            listener(category, name, dict(parameters or {}))
        except Exception:
            _log.exception("the signpost listener %r failed", listener)


_signpost_listeners: list[Callable[[str, str, dict[str, Any]], Any]] = []


def on_signpost(listener: Callable[[str, str, dict[str, Any]], Any]) -> Callable[[], None]:
    """Calls `listener(category, name, parameters)` for each signpost. Returns a function that removes it."""
    _signpost_listeners.append(listener)
    return lambda: _signpost_listeners.remove(listener)


def current_compile_id() -> str | None:
    """The id of the compilation that runs on this thread."""
    record = _C.open_record()
    return record[0] if record is not None else None


# ---- data of open events


def add_data(event: str, level: Level = Level.EVENT, overwrite: bool = False, /, **data: Any) -> None:
    """Adds data to the innermost open event of this name. RuntimeError if there is none, or the level forbids it."""
    span = _checked(event, level)
    if not overwrite and (known := sorted(set(span.data) & set(data))) and level == Level.METRICS:
        raise RuntimeError(f"the event {event!r} already has {', '.join(map(repr, known))}")
    if level == Level.METRICS:
        metrics.context().update(data, overwrite)
    span.data.update(data)
    _store(span)


def increment(event: str, key: str, by: int = 1, level: Level = Level.EVENT) -> None:
    """Adds to a number in the data of an open event; a number that is missing counts as 0."""
    span = _checked(event, level)
    if level == Level.METRICS:
        metrics.context().increment(key, by)
    span.data[key] = span.data.get(key, 0) + by
    _store(span)


def add_to_set(event: str, key: str, value: str, level: Level = Level.EVENT) -> None:
    """Adds to a set in the data of an open event."""
    span = _checked(event, level)
    if level == Level.METRICS:
        metrics.context().add_to_set(key, value)
    span.data[key] = sorted({*span.data.get(key, ()), value})
    _store(span)


def add_toplevel(level: Level = Level.METRICS, overwrite: bool = False, /, **data: Any) -> None:
    """`add_data` to the outermost event of this thread."""
    add_data(_needed_outermost(), level, overwrite, **data)


def increment_toplevel(key: str, by: int = 1, level: Level = Level.METRICS) -> None:
    increment(_needed_outermost(), key, by, level)


def add_to_set_toplevel(key: str, value: str, level: Level = Level.METRICS) -> None:
    add_to_set(_needed_outermost(), key, value, level)


def compilation_metric(overwrite: bool = False, /, **data: Any) -> None:
    """Adds data to the outermost event and to the record of the compilation."""
    add_toplevel(Level.METRICS, overwrite, **data)


def try_(function: Callable[..., T], *args: Any, **kwargs: Any) -> T | None:
    """Calls a function of this module if the log of events exists and a compilation is recorded; else None."""
    if not active() or not metrics.context().in_progress():
        return None
    return function(*args, **kwargs)


def try_add_compile_data(event: str, **data: Any) -> None:
    """`add_data` at the level COMPILE; data for an event that is not open is dropped."""
    if active() and event in stack():
        add_data(event, Level.COMPILE, **data)


def _needed_outermost() -> str:
    name = outermost()
    if name is None:
        raise RuntimeError("no event is open on this thread")
    return name


def _checked(event: str, level: Level) -> Span:
    spans = _open_spans()
    found = [span for span in spans if span.name == event]
    if not found:
        raise RuntimeError(f"the event {event!r} is not open; open are {[span.name for span in spans]}")
    span = found[-1]
    if level == Level.COMPILE and not span.sink:
        raise RuntimeError(f"the event {event!r} takes data of this level only if it was begun with sink=True")
    if level == Level.METRICS:
        if span is not spans[0]:
            raise RuntimeError(f"the event {event!r} is not the toplevel event, which is {spans[0].name!r}")
        if not metrics.context().in_progress():
            raise RuntimeError(f"No metrics context is open for the event {event!r}")
    return span


def _store(span: Span) -> None:
    if isinstance(span, _Frame):
        _C.set_event_args(json.dumps(span.data, default=_plain))


# ---- what was recorded

_compile_events: deque[dict[str, Any]] = deque(maxlen=4096)


def compile_events() -> list[dict[str, Any]]:
    """The ended events that were begun with `sink=True`, each with the run's id, the events around it and its start."""
    return list(_compile_events)


def _add_compile_event(span: Span) -> None:
    around = [outer.name for outer in _open_spans() if outer.sink]
    _compile_events.append(
        {
            "name": span.name,
            "run_id": run_id(),
            "stack": around,
            "start_time_us": span.start_ns // 1000,
            "compile_id": span.compile_id,
            "data": dict(span.data),
        }
    )


def _write(name: str, kind: str, span: Span, time_ns: int) -> None:
    if _C.records_events():
        compile_id = "" if span.compile_id == "None" else span.compile_id
        _C.add_event(name, kind, json.dumps(span.data, default=_plain), time_ns, compile_id)


def _plain(value: Any) -> Any:
    return sorted(value, key=str) if isinstance(value, (set, frozenset)) else str(value)


def _short(data: dict[str, Any]) -> str | None:
    return json.dumps(data, default=_plain)[:256] if data else None


def _close_range(span: Span) -> None:
    if span.range is not None:
        span.range.__exit__(None, None, None)
        span.range = None


def recorded() -> list[dict[str, Any]]:
    """All events that were recorded, in the form of a Chrome trace: times in microseconds since 1970."""
    rows, _ = _C.events()
    return _balanced([_as_json(row) for row in rows])


def _as_json(row: tuple[str, str, int, str, str, int, int]) -> dict[str, Any]:
    name, kind, time_ns, args, compile_id, thread, process = row
    data = json.loads(args) if args else {}
    event = {
        "name": name,
        "ph": kind,
        "ts": time_ns / 1000,
        "cat": "stator",
        "pid": process,
        "tid": thread,
        "args": {"compile_id": compile_id or "None", **data},
    }
    if kind == "i":
        event["s"] = "p"
    return event


def _balanced(events: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Drops ends whose begins were dropped, and adds missing ends: what is open ends with the last event."""
    open_by_thread: dict[tuple[int, int], list[dict[str, Any]]] = {}
    kept = []
    for event in events:
        begun = open_by_thread.setdefault((event["pid"], event["tid"]), [])
        if event["ph"] == "B":
            begun.append(event)
        elif event["ph"] == "E":
            if not any(known["name"] == event["name"] for known in begun):
                continue
            while begun[-1]["name"] != event["name"]:
                kept.append(_end_of(begun.pop(), event["ts"]))
            started = begun.pop()
            event["args"] = {**started["args"], **event["args"]}
        kept.append(event)
    last = events[-1]["ts"] if events else 0
    for begun in open_by_thread.values():
        kept += [_end_of(event, last) for event in reversed(begun)]
    return kept


def _end_of(event: dict[str, Any], time: float) -> dict[str, Any]:
    return {**event, "ph": "E", "ts": time}


def export(file: str | Path, *, merge: str | Path | None = None) -> int:
    """Writes all recorded events to a file that Perfetto opens; returns how many. `merge`: a trace that
    `torch.profiler` exported, whose events are added; ValueError if it is none."""
    events = recorded()
    _, dropped = _C.events()
    trace: dict[str, Any] = {"traceEvents": events, "displayTimeUnit": "ms"}
    if merge is not None:
        other = _read_trace(Path(merge))
        base = other.get("baseTimeNanoseconds", 0) / 1000
        for event in events:
            event["ts"] -= base
        trace = {**other, "traceEvents": [*other.get("traceEvents", ()), *events]}
    trace["otherData"] = {"run_id": run_id(), "dropped_events": dropped, "version": 1}
    from .files import write_whole

    write_whole(Path(file), strict_json.dumps(trace, _plain))
    return len(events)


def _read_trace(file: Path) -> dict[str, Any]:
    """A Chrome trace: an object, or the list of its events. ValueError for any other file."""
    try:
        trace = json.loads(file.read_text(encoding="utf-8"))
    except ValueError as error:
        raise ValueError(f"{file} is not a trace of Chrome's format: {error}") from error
    if isinstance(trace, list):
        trace = {"traceEvents": trace}
    fields = trace if isinstance(trace, dict) else {"traceEvents": None}
    if not isinstance(fields.get("traceEvents", []), list):
        raise ValueError(f"{file} is not a trace of Chrome's format: it has no list of events")
    if not isinstance(fields.get("baseTimeNanoseconds", 0), (int, float)):
        raise ValueError(f"{file} is not a trace of Chrome's format: its base time is not a number")
    return fields
