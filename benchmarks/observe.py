"""What observation costs: a phase and a counter while nothing listens; captures while events or a trace are recorded,
and without; steady calls; the memory of a million events."""

from __future__ import annotations

import os
import statistics
import subprocess
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch

import stator

from . import models
from .measure import Row, Table, single_threaded

ROOT = Path(__file__).resolve().parent.parent
_EVENTS = 1_000_000


def _capture_ms(model: Any, inputs: dict[str, Any]) -> float:
    stator.reset()
    compiled = stator.compile(model)
    start = time.perf_counter()
    compiled(**inputs)
    return (time.perf_counter() - start) * 1000


def _call_ns(function: Callable[..., Any]) -> float:
    x = torch.ones(3)
    start = time.perf_counter()
    for _ in range(1000):
        function(x)
    return (time.perf_counter() - start) * 1e6


def _native_ns() -> list[float]:
    """Nanoseconds of an outermost phase, of one inside of another, of a counter, and of what a steady call records."""
    library = ROOT / "python" / "stator"
    with tempfile.TemporaryDirectory() as folder:
        program = str(Path(folder) / "observe")
        options = ["-O2", "-std=c++20", f"-I{ROOT / 'src'}", f"-I{Path(torch.__file__).parent / 'include'}"]
        libraries = [f"-L{library}", "-lstator_core", f"-Wl,-rpath,{library}"]
        libraries += [f"-Wl,-rpath-link,{Path(torch.__file__).parent / 'lib'}"]
        source = str(ROOT / "benchmarks" / "observe.cpp")
        subprocess.run([os.environ.get("CXX", "c++"), *options, source, "-o", program, *libraries], check=True)
        paths = {**os.environ, "LD_LIBRARY_PATH": str(Path(torch.__file__).parent / "lib")}
        done = subprocess.run([program], check=True, capture_output=True, text=True, env=paths)
    return [float(text) for text in done.stdout.split()]


def _memory() -> int:
    return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")


def _events_row() -> Row:
    with stator.events.recording():
        before = _memory()
        for number in range(_EVENTS):
            stator.events.instant("benchmark", {"number": number})
        grown = (_memory() - before) >> 20
    stator.events.clear()
    return Row(f"memory of {_EVENTS:,} events", f"{grown} MiB", target="<= 64 MiB", ok=grown <= 64)


def _in_turns(repeats: int, sides: dict[str, Callable[[], float]]) -> dict[str, list[float]]:
    """The sides take turns, so that what else the machine does meets them alike."""
    seen: dict[str, list[float]] = {name: [] for name in sides}
    for _ in range(repeats):
        for name, measure in sides.items():
            seen[name].append(measure())
    return seen


def _ratio(side: list[float], other: list[float]) -> float:
    """The median of the ratios of neighbouring runs: a busy machine slows both."""
    return statistics.median(a / b for a, b in zip(side, other, strict=True))


@single_threaded
def run(quick: bool = False) -> list[Table]:
    repeats = 5 if quick else 25
    phase, inner, counter, call = _native_ns()
    rows = [
        Row("a phase", f"{phase:.0f} ns", target="< 100 ns", ok=phase < 100),
        Row("a phase inside of another", f"{inner:.0f} ns", target="< 100 ns", ok=inner < 100),
        Row("a counter", f"{counter:.1f} ns", target="< 5 ns", ok=counter < 5),
        Row("what a steady call records", f"{call:.0f} ns", target="<= 20 ns", ok=call <= 20),
    ]
    case = next(case for case in models.ALL if "GPT" in case.name)
    with torch.no_grad(), tempfile.TemporaryDirectory() as directory:
        model, inputs = case.build().eval(), case.inputs(0)

        def with_events() -> float:
            with stator.events.recording():
                return _capture_ms(model, inputs)

        def with_trace() -> float:
            stator.trace.start(directory)
            try:
                return _capture_ms(model, inputs)
            finally:
                stator.trace.stop()

        sides = {
            "nothing listens": lambda: _capture_ms(model, inputs),
            "events are recorded": with_events,
            "a trace is written": with_trace,
        }
        captures = _in_turns(2 * repeats, sides)
        for name, ms in captures.items():
            ratio = _ratio(ms, captures["nothing listens"])
            ok = ratio <= 1.03 if name == "events are recorded" else None
            target = "<= 1.03x" if ok is not None else ""
            rows.append(Row(f"first call of {case.name}: {name}", f"{min(ms):.2f} ms", "", f"{ratio:.3f}x", target, ok))
        stator.events.clear()
        compiled = stator.compile(lambda x: x + 1)
        compiled(torch.ones(3))

        def call_with_events() -> float:
            with stator.events.recording():
                return _call_ns(compiled)

        calls = _in_turns(8 * repeats, {"plain": lambda: _call_ns(compiled), "events": call_with_events})
        lost = statistics.median(a - b for a, b in zip(calls["events"], calls["plain"], strict=True))
        rows.append(Row("steady call", f"{min(calls['plain']):.0f} ns"))
        rows.append(Row("what it loses while events are recorded", f"{lost:.0f} ns", target="<= 20 ns", ok=lost <= 20))
        rows.append(_events_row())
    stator.reset()
    return [Table("What observation costs", rows)]
