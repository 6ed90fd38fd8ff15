"""`stator.metrics`: the records of compilations, and what programs and backends add to them.

    stator.metrics.records()                    # the newest 64, as dicts; docs/observability.md has the schema
    stator.metrics.context().set("loss_scale", 8)       # inside a compilation: a field of its record

A record is made by the extension for each compilation, also for one that fails.
"""

from __future__ import annotations

import contextlib
import functools
import logging
import platform
import re
import sys
import threading
import time
import traceback
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import torch

from . import _C, places
from .metrics_context import MetricsContext, RuntimeMetricsContext, decoded
from .trace_records import RESERVED

_log = logging.getLogger("stator")

# How many characters of a user-context hook's text are kept.
_MAX_CONTEXT = 256

# ---- records


def records() -> list[dict[str, Any]]:
    """The records of the newest compilations, the oldest first."""
    return [complete(record) for record in _C.records()] + list(_runtime_records)


def set_limit(limit: int) -> None:
    """Keeps this many records (64 at first). The oldest are dropped."""
    _C.set_record_limit(limit)


def clear() -> None:
    """Drops all records."""
    _C.clear_records()
    _runtime_records.clear()


def calls() -> list[dict[str, Any]]:
    """The functions that were called since the last reset, in the order of their first captures: how often a capture
    served the call or a continuation (`hits`), and how often none did (`misses`). `guard_us`: the mean time to find
    the capture, guards included, measured in one call of 256."""
    return [
        {
            "function": code.co_qualname,
            "file": code.co_filename,
            "line": code.co_firstlineno,
            "entries": entries,
            "hits": hits,
            "misses": misses,
            "guard_us": timed_ns / timed / 1000 if timed else None,
        }
        for code, entries, hits, misses, timed, timed_ns in _C.lookups()
    ]


def frame_count() -> int:
    """How many compilations began since the last `reset_frame_count`."""
    return _C.frame_count()


def reset_frame_count() -> None:
    """Numbers compilations from 1 again, and drops the times of phases. Counters stay."""
    _C.reset_frame_count()


def complete(record: dict[str, Any]) -> dict[str, Any]:
    """Completes a record of the extension with the versions of this process and the fields that Python code added."""
    extra = {name: decoded(text) for name, text in record.pop("extra").items()}
    return {**record, **_versions(), "feature_usage": extra.pop("feature_usage", {}), **extra}


def _own_version() -> str:
    from . import __version__

    return __version__


@functools.cache
def _versions() -> dict[str, Any]:
    return {
        "python_version": sys.version,
        "pytorch_version": torch.__version__,
        "stator_version": _own_version(),
        "cuda_version": torch.version.cuda,
        "platform": platform.platform(),
    }


_runtime_records: list[dict[str, Any]] = []


def error_place(error: BaseException) -> tuple[str, int, str]:
    """For the extension: the innermost line of the program in the error's traceback, and the traceback as text."""
    lines = [(frame.filename, frame.lineno or 0, frame.name) for frame in traceback.extract_tb(error.__traceback__)]
    stack = getattr(error, "stack", None) or []
    lines += [tuple(line) for line in stack if len(line) == 3]
    text = "".join(traceback.format_exception(error))
    if not lines:
        return "", 0, text
    file, line, _ = lines[places.user_index(lines)]
    return file, line, text


# Fields that older readers know in seconds or milliseconds: name -> (field, divisor, kind).
_DERIVED: dict[str, tuple[str, int, type]] = {
    "start_time": ("start_time_us", 1_000_000, float),
    "entire_frame_compile_time_s": ("duration_us", 1_000_000, float),
    "backend_compile_time_s": ("backend_us", 1_000_000, float),
    "time_before_restart_s": ("before_restart_us", 1_000_000, float),
    "structured_logging_overhead_s": ("logging_us", 1_000_000, float),
    "guard_build_time_ms": ("guards_us", 1_000, int),
}


def fields() -> list[str]:
    """The names of all fields of a record."""
    return [*_FIELDS, *_versions(), "feature_usage"]


def create(values: dict[str, Any]) -> dict[str, Any]:
    """A record from values by name: fields that are missing are None, and those in other units are derived from the
    ones in microseconds unless they are given. Sets of texts become one sorted text with commas. TypeError for a name
    that is not a field."""
    known = {*fields(), *_DERIVED}
    if unknown := sorted(set(values) - known):
        raise TypeError(f"a record has no field {', '.join(map(repr, unknown))}")
    made: dict[str, Any] = {name: values.get(name) for name in fields()}
    made["compile_id"] = None if values.get("compile_id") is None else str(values["compile_id"])
    for name in ("restart_reasons", "recompile_user_contexts", "compliant_custom_ops", "non_compliant_ops"):
        made[name] = _joined(made[name])
    for name, (field, divisor, kind) in _DERIVED.items():
        from_us = made[field]
        made[name] = values.get(name)
        if made[name] is None and from_us is not None:
            made[name] = from_us / divisor if kind is float else from_us // divisor
    return made


def _joined(value: Any) -> str | None:
    if value is None:
        return None
    try:
        return ",".join(sorted(value)) if isinstance(value, (set, frozenset, list, tuple)) else "<unknown>"
    except TypeError:
        return "<unknown>"


_FIELDS = [
    "compile_id",
    "frame_key",
    "co_name",
    "co_qualname",
    "co_filename",
    "co_firstlineno",
    "backend",
    "stack_trace",
    "cache_size",
    "accumulated_cache_size",
    "guard_count",
    "shape_guard_count",
    "guard_latency_us",
    "recompile_reason",
    "recompile_user_contexts",
    "graph_op_count",
    "graph_node_count",
    "graph_input_count",
    "graph_node_shapes",
    "num_graph_breaks",
    "break_id",
    "break_reason",
    "break_filename",
    "break_lineno",
    "ir_count",
    "has_guarded_code",
    "is_forward",
    "param_count",
    "param_numel",
    "param_bytes",
    "compliant_custom_ops",
    "non_compliant_ops",
    "float_inputs",
    "symbolic_sizes",
    "fixed_numbers",
    "start_time_us",
    "end_time_us",
    "duration_us",
    "capture_us",
    "guards_us",
    "plan_us",
    "backend_us",
    "before_restart_us",
    "logging_us",
    "cpu_instructions",
    "spans",
    "spans_dropped",
    "fail_type",
    "fail_reason",
    "fail_user_frame_filename",
    "fail_user_frame_lineno",
    "exception_stack_trace",
    "attempts",
    "restart_reasons",
    "is_runtime",
    "log_format_version",
    "stator_config",
]


# ---- what is added to a record


def _record_runtime(start: int, end: int, fields: dict[str, Any], kind: Any, error: Any) -> None:
    row = {"start_time_us": start // 1000, "end_time_us": end // 1000, **fields}
    _runtime_records.append({"is_runtime": True, **row})
    del _runtime_records[: -max(_C.record_limit(), 1)]


class _Thread(threading.local):
    def __init__(self) -> None:
        self.context = MetricsContext(reserved=RESERVED.union(_FIELDS))
        self.runtime = RuntimeMetricsContext(_record_runtime)
        self.columns = 0  # open blocks that have a column


_thread = _Thread()


def context() -> MetricsContext:
    """The metrics context of this thread: what is written to it inside a compilation is in the compilation's record."""
    return _thread.context


def runtime() -> RuntimeMetricsContext:
    """The run-time metrics context of this thread."""
    return _thread.runtime


def column_clock(event: str, column: str, is_backward: bool | None) -> Callable[[], None]:
    """Starts a clock for `stator.timed`. The returned function stops it and adds the time to the column."""
    in_compilation = _C.open_record() is not None
    if in_compilation:
        context().check_name(column)
    start = time.perf_counter_ns()
    _thread.columns += 1

    def stop() -> None:
        _thread.columns -= 1
        spent = (time.perf_counter_ns() - start) // 1000
        columns = [column, "duration_us"] if _thread.columns == 0 and column != "duration_us" else [column]
        if not in_compilation:
            extra = (
                {"compile_id": None, "is_runtime": True, "is_forward": not is_backward} if len(columns) > 1 else None
            )
            for name in columns:
                runtime().increment(name, spent, extra)
        elif context().in_progress():
            context().increment(column, spent)

    return stop


def set_feature_use(feature: str, used: bool) -> None:
    """Notes in the record of the running compilation that a feature was used; does nothing if none runs."""
    if context().in_progress():
        context().set_key_value("feature_usage", feature, used)


def log_pass(name: str, summary: Any) -> None:
    """Adds the summary of a graph pass to the record of the running compilation; does nothing if none runs."""
    if context().in_progress():
        context().set_key_value("pass_log", name, summary)


# ---- user contexts

_context_hooks: list[Callable[[], str]] = []


def register_user_context(hook: Callable[[], str]) -> Callable[[], None]:
    """At the start of each compilation, calls `hook` for a text about what a compiler cannot see (the epoch, say). The
    record has it, cut to 256 characters, in `recompile_user_contexts`. Returns a function that removes the hook. An
    error of the hook is logged."""
    from . import observer

    _context_hooks.append(hook)
    observer.request("user contexts", _UserContexts())

    def remove() -> None:
        if hook in _context_hooks:
            _context_hooks.remove(hook)
        if not _context_hooks:
            observer.withdraw("user contexts")

    return remove


def reset_user_contexts() -> None:
    """Removes all such hooks."""
    from . import observer

    _context_hooks.clear()
    observer.withdraw("user contexts")


class _UserContexts:
    def started(self, compilation: Any) -> None:
        for hook in list(_context_hooks):
            with _logged(hook):
                _C.add_user_context(str(hook())[:_MAX_CONTEXT])

    def ended(self, compilation: Any, record: dict[str, Any], capture: dict[str, Any] | None) -> None:
        pass


@contextlib.contextmanager
def _logged(hook: Any) -> Iterator[None]:
    try:
        yield
    except Exception:
        _log.exception("the user-context hook %r failed", hook)


# ---- compile ids


class CompileId(NamedTuple):
    """The id of a compilation: the number of the frame, and of its compilation. `autograd`: that of the compiled
    backward pass that it belongs to; `attempt`: above 0 where a compilation was repeated. Its text is
    `!autograd/frame/number_n`."""

    frame: int
    number: int
    autograd: int | None = None
    attempt: int = 0

    def __str__(self) -> str:
        within = f"!{self.autograd}/" if self.autograd is not None else ""
        again = f"_{self.attempt}" if self.attempt else ""
        return f"{within}{self.frame}/{self.number}{again}"

    @classmethod
    def parse(cls, text: str) -> CompileId:
        """Parses the text of an id. ValueError if it is not one."""
        found = re.fullmatch(r"(?:!(\d+)/)?(\d+)/(\d+)(?:_(\d+))?", text, re.ASCII)
        if found is None:
            raise ValueError(f"{text!r} is not a compile id")
        autograd, frame, number, attempt = found.groups()
        return cls(int(frame), int(number), None if autograd is None else int(autograd), int(attempt or 0))
