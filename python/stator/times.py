"""How long compilations took, by phase.

    with stator.timed("tokenize"): ...          # a phase of the program's own, beside those of Stator
    print(stator.compile_times())               # a table
    names, values = stator.compile_times("csv")

docs/observability.md lists Stator's own phases.
"""

from __future__ import annotations

import atexit
import contextlib
import logging
import os
from collections.abc import Iterator
from typing import Any

from . import _C

_log = logging.getLogger("stator")
_TITLE = "Stator compilation times:"
# The phases that are a whole compilation.
_WHOLE = ("frame", "backward")


def durations() -> dict[str, list[float]]:
    """Seconds by phase, in the order in which phases were first seen."""
    rows = sorted(_C.phase_times().items(), key=lambda row: row[1][0])
    return {name: [ns / 1e9 for ns in times] for name, (_, _, count, _, times) in rows if count}


def gauges() -> dict[str, dict[str, float]]:
    """For each phase: how often it is open now, how often it ended, and the seconds that took."""
    rows = _C.phase_times().items()
    return {name: {"active": row[1], "count": row[2], "seconds": row[3] / 1e9} for name, row in rows}


def compile_times(repr: str = "str", aggregate: bool = False) -> Any:
    """The times of all phases: "str" gives a table, "csv" a pair of lists (names, values); None for any other form.

    aggregate: the sum of each phase instead of all its durations. At most the newest 4096 durations are kept.
    """
    rows = durations()
    if repr == "csv":
        return list(rows), [_values(times, aggregate, 6) for times in rows.values()]
    if repr != "str":
        return None
    return f"{_TITLE}\n" + table(
        ["Function", "Runtimes (s)"], [[name, _values(times, aggregate, 4)] for name, times in rows.items()]
    )


def _values(times: list[float], aggregate: bool, digits: int) -> str:
    return ", ".join(f"{seconds:.{digits}f}" for seconds in ([sum(times)] if aggregate else times))


def table(header: list[str], rows: list[list[str]]) -> str:
    """Text in aligned columns, with a line below the header."""
    columns = [[str(cell) for cell in column] for column in zip(header, *rows, strict=True)]
    widths = [max(map(len, column)) for column in columns]
    lines = [header, ["-" * width for width in widths], *rows]
    return "\n".join(
        "  ".join(str(cell).ljust(width) for cell, width in zip(line, widths, strict=True)).rstrip() for line in lines
    )


def calculate_time_spent() -> dict[str, float]:
    """Seconds by phase, summed, and `total_wall_time`: that of all compilations."""
    spent = {name: sum(times) for name, times in durations().items()}
    return {**spent, "total_wall_time": sum(spent.get(name, 0) for name in _WHOLE)}


def print_time_report() -> None:
    print("TIMING:", " ".join(f"{name}:{round(seconds, 5)}" for name, seconds in calculate_time_spent().items()))


def to_int_ms(seconds: float | None) -> int | None:
    """Whole milliseconds, truncated; None stays None."""
    return None if seconds is None else int(seconds * 1000)


def to_int_us(seconds: float | None) -> int | None:
    """Whole microseconds, truncated; None stays None."""
    return None if seconds is None else int(seconds * 1_000_000)


@contextlib.contextmanager
def timed(
    key: str,
    phase_name: str | None = None,
    *,
    metadata: dict[str, Any] | None = None,
    column: str | None = None,
    is_backward: bool | None = None,
) -> Iterator[None]:
    """Times a block. Its duration is added to the times of `key`, also if the block raises.

    phase_name: the name of the event; then the event's data has `fn_name`: the key.
    metadata: data of the event.
    column: a field of the metrics, whose name ends in `_us`, to which the block's microseconds are added: in the record
        of the compilation that runs on this thread; else in the run-time record (`stator.metrics.runtime()`). The
        outermost such block also adds to `duration_us`.
    """
    from . import events, metrics

    if column is not None and not column.endswith("_us"):
        raise AssertionError(f"the column {column!r} does not end in _us")
    event = phase_name or key
    data = dict(metadata or {})
    if phase_name is not None:
        data["fn_name"] = key
    if is_backward is not None:
        data["is_backward"] = is_backward
    span = events.begin(event, data) if _C.records_events() else None
    clock = metrics.column_clock(event, column, is_backward) if column is not None else None
    phase = _C.begin_phase(key)
    try:
        yield
    finally:
        _C.end_phase(phase)
        if clock is not None:
            clock()
        if span is not None:
            events.end(span)


def _report_at_exit(process: int) -> None:
    if os.getpid() != process or not _log.isEnabledFor(logging.INFO):
        return
    with contextlib.suppress(Exception):  # the interpreter shuts down: streams may be gone
        if frames := _C.frames():
            _log.info("captured frames:\n%s", "\n".join(f"  {frame}" for frame in frames))
        _log.info("%s", compile_times(aggregate=True))


atexit.register(_report_at_exit, os.getpid())
