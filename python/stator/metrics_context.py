"""The contexts of `stator.metrics`: what programs and backends add to the record of a compilation."""

from __future__ import annotations

import heapq
import json
import logging
import os
import time
import traceback
from collections.abc import Callable, Iterator
from typing import Any

from . import _C

_log = logging.getLogger("stator")
_OWN_FOLDER = os.path.join(os.path.dirname(__file__), "")

# How many entries of `add_top_n` are kept.
TOP_N = 25

OnExit = Callable[[int, int, dict[str, Any], type[BaseException] | None, BaseException | None], None]


class TopN:
    """The largest entries by value, at most `TOP_N`. Iterating gives (key, value), the largest first."""

    def __init__(self, entries: dict[str, float] | None = None):
        self._entries = dict(entries or {})

    def add(self, key: str, value: float) -> None:
        self._entries[key] = value
        if len(self._entries) > TOP_N:
            del self._entries[min(self._entries, key=lambda name: self._entries[name])]

    def __len__(self) -> int:
        return len(self._entries)

    def __iter__(self) -> Iterator[tuple[str, float]]:
        return iter(heapq.nlargest(TOP_N, self._entries.items(), key=lambda entry: entry[1]))


def _encoded(value: Any) -> str:
    return json.dumps(value, default=_as_json)


def _as_json(value: Any) -> Any:
    if isinstance(value, (set, frozenset)):
        return {"$set": sorted(value, key=str)}
    if isinstance(value, TopN):
        return {"$top": dict(value)}
    return f"<{type(value).__name__} is not JSON serializable>"


def decoded(text: str) -> Any:
    value = json.loads(text)
    if isinstance(value, dict) and list(value) == ["$set"]:
        return set(value["$set"])
    if isinstance(value, dict) and list(value) == ["$top"]:
        return TopN(value["$top"])
    return value


class MetricsContext:
    """Fields that are gathered while a scope is open: that of a compilation, or a `with` block of this object.

    Blocks nest. The outermost one starts with no fields; when it ends, `on_exit(start_ns, end_ns, fields, error type,
    error)` is called once, and an error that it raises is logged. One object belongs to one thread. `reserved`: names
    that the record of a compilation uses for itself; ValueError for a field of such a name there.
    """

    def __init__(self, on_exit: OnExit | None = None, reserved: frozenset[str] = frozenset()):
        self._on_exit = on_exit
        self._reserved = reserved
        self._level = 0
        self._start_ns = 0
        self._fields: dict[str, Any] = {}
        self._places: dict[str, str] = {}

    def __enter__(self) -> MetricsContext:
        if self._level == 0:
            self._fields, self._places = {}, {}
            self._start_ns = time.time_ns()
        self._level += 1
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: object) -> None:
        self._level -= 1
        if self._level or self._on_exit is None:
            return
        try:
            self._on_exit(self._start_ns, time.time_ns(), dict(self._fields), kind, error)
        except Exception:
            _log.exception("the fields of a metrics context could not be recorded")

    def in_progress(self) -> bool:
        """Whether a scope is open on this thread."""
        return self._level > 0 or _C.open_record() is not None

    def _read(self, name: str) -> Any:
        """The value of a field; `_NONE` if it has none. RuntimeError outside of a scope."""
        if self._level:
            return self._fields.get(name, _NONE)
        record = _C.open_record()
        if record is None:
            raise RuntimeError(f"cannot write {name!r} outside of a metrics context")
        return decoded(record[1][name]) if name in record[1] else _NONE

    def check_name(self, name: str) -> None:
        """ValueError if a field that is written now cannot have this name."""
        if self._level == 0 and name in self._reserved:
            raise ValueError(f"the name {name!r} is reserved in records of compilations")

    def _write(self, name: str, value: Any) -> None:
        self.check_name(name)
        if self._level:
            self._fields[name] = value
        else:
            _C.extend_record(name, _encoded(value))

    def set(self, name: str, value: Any, overwrite: bool = False) -> None:
        """Sets a field once. RuntimeError if it has a value, unless `overwrite` is set."""
        before = self._read(name)
        if before is not _NONE and not overwrite:
            where = self._places.get(name, "  unknown")
            raise RuntimeError(f"the metric {name!r} is already set; it was set here:\n{where}")
        self._write(name, value)
        frames = [frame for frame in traceback.extract_stack(limit=30) if not frame.filename.startswith(_OWN_FOLDER)]
        self._places[name] = "".join(traceback.format_list(frames[-5:]))

    def update(self, values: dict[str, Any], overwrite: bool = False) -> None:
        """Sets several fields, or none if one of them is set already, or its name is reserved."""
        for name in values:
            self.check_name(name)
        if not overwrite and (known := [name for name in values if self._read(name) is not _NONE]):
            raise RuntimeError(f"the metrics {', '.join(map(repr, known))} are already set")
        for name, value in values.items():
            self.set(name, value, overwrite=True)

    def update_outer(self, values: dict[str, Any]) -> None:
        """The same, in the outermost block only; inner ones do nothing."""
        if self._level == 0 and _C.open_record() is None:
            raise RuntimeError(f"cannot write {', '.join(map(repr, values))} outside of a metrics context")
        if self._level <= 1:
            self.update(values)

    def increment(self, name: str, by: int = 1) -> None:
        before = self._read(name)
        self._write(name, (0 if before is _NONE else before) + by)

    def add_to_set(self, name: str, value: str) -> None:
        before = self._read(name)
        self._write(name, (set() if before is _NONE else before) | {value})

    def set_key_value(self, name: str, key: str, value: Any) -> None:
        """Sets one key of a field that is a map."""
        before = self._read(name)
        self._write(name, {**({} if before is _NONE else before), key: value})

    def add_top_n(self, name: str, key: str, value: float) -> None:
        """Adds an entry to a field that keeps the largest ones. Does nothing outside of a scope."""
        if not self.in_progress():
            return
        before = self._read(name)
        top = TopN() if before is _NONE else before
        top.add(key, value)
        self._write(name, top)


_NONE = object()


class RuntimeMetricsContext:
    """Fields of work that is not a compilation. It begins with the first increment; `finish` records and empties it."""

    def __init__(self, on_exit: OnExit | None = None):
        self._on_exit = on_exit
        self._start_ns = 0
        self._fields: dict[str, Any] = {}

    def increment(self, name: str, by: int, extra: dict[str, Any] | None = None) -> None:
        """`extra`: fields to set, if they are not None and not set yet."""
        if not self._fields:
            self._start_ns = time.time_ns()
        self._fields[name] = self._fields.get(name, 0) + by
        for key, value in (extra or {}).items():
            if value is not None:
                self._fields.setdefault(key, value)

    def finish(self) -> None:
        if not self._fields:
            return
        fields, self._fields = self._fields, {}
        try:
            if self._on_exit is not None:
                self._on_exit(self._start_ns, time.time_ns(), fields, None, None)
        except Exception:
            _log.exception("the fields of a run-time metrics context could not be recorded")
