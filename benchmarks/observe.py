"""What observation costs: a phase and a counter while nothing listens; captures while events or a trace are recorded,
while nothing listens, and with a library whose store of observations is compiled out; steady calls; the memory of a
million events."""

from __future__ import annotations

import contextlib
import gc
import os
import random
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import torch

import stator

from . import models
from .measure import Row, Table, single_threaded

ROOT = Path(__file__).resolve().parent.parent
_EVENTS = 1_000_000
_CASE = next(case.name for case in models.ALL if "GPT" in case.name)


def _case() -> tuple[Any, dict[str, Any]]:
    case = next(case for case in models.ALL if case.name == _CASE)
    return case.build().eval(), case.inputs(0)


def _capture_ms(model: Any, inputs: dict[str, Any], clock: Callable[[], float] = time.perf_counter) -> float:
    stator.reset()
    compiled = stator.compile(model)
    start = clock()
    compiled(**inputs)
    return (clock() - start) * 1000


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
    """The sides take turns in a random order, so that what else the machine does meets them alike. Each starts without
    the garbage of the one before."""
    seen: dict[str, list[float]] = {name: [] for name in sides}
    order, dice = list(sides), random.Random(0)
    for _ in range(repeats):
        dice.shuffle(order)
        for name in order:
            gc.collect()
            seen[name].append(sides[name]())
    return seen


# ---- captures with recording compiled out

_RECORDS, _DOES_NOT = "recording, nothing listens", "recording compiled out"


def _library_without_recording() -> Path | None:
    """Builds the library; None where there is no build folder."""
    build = Path(os.environ.get("STATOR_BUILD", ROOT / "build"))
    if not (build / "build.ninja").exists():
        return None
    subprocess.run(["ninja", "-C", str(build), "stator_core_unrecorded"], check=True, stdout=subprocess.DEVNULL)
    return build / "unrecorded"


def _serve() -> None:
    """A process that measures a capture for each line that it reads."""
    print(stator._C.count("benchmark.probe"), flush=True)  # 0 where recording is compiled out
    torch.set_num_threads(1)
    model, inputs = _case()
    with torch.no_grad():
        for _ in sys.stdin:
            gc.collect()
            # Time of the processor: two processes that take turns are interrupted at different times.
            print(_capture_ms(model, inputs, time.process_time), flush=True)


@contextlib.contextmanager
def _served(library: Path | None) -> Iterator[Callable[[], float]]:
    """Measures captures in another process; `library`: the folder of the one that it loads in place of Stator's."""
    own = {} if library is None else {"LD_LIBRARY_PATH": str(library)}
    process = subprocess.Popen(
        [sys.executable, "-m", "benchmarks.observe"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": f"{ROOT / 'python'}:{ROOT}", **own},
    )
    assert process.stdin is not None and process.stdout is not None
    asks, answers = process.stdin, process.stdout

    def measure() -> float:
        asks.write("\n")
        asks.flush()
        return float(answers.readline())

    try:
        if int(answers.readline()) != (library is None):
            raise RuntimeError("the process loaded the wrong library")
        yield measure
    finally:
        asks.close()
        process.wait()


def _recording_rows(repeats: int) -> list[Row]:
    library = _library_without_recording()
    if library is None:
        return []
    with _served(None) as with_it, _served(library) as without:
        for measure in (with_it, without):  # the first captures warm up the process
            measure(), measure()
        seen = _in_turns(repeats, {_DOES_NOT: without, _RECORDS: with_it})
    ratio = _ratio(seen[_RECORDS], seen[_DOES_NOT])
    name = f"first call of {_CASE}"
    return [
        Row(f"{name}: {_DOES_NOT}", f"{min(seen[_DOES_NOT]):.2f} ms"),
        Row(f"{name}: {_RECORDS}", f"{min(seen[_RECORDS]):.2f} ms", "", f"{ratio:.3f}x", "<= 1.03x", ratio <= 1.03),
    ]


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
    rows += _recording_rows(8 * repeats)
    with torch.no_grad(), tempfile.TemporaryDirectory() as directory:
        model, inputs = _case()

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
            rows.append(Row(f"first call of {_CASE}: {name}", f"{min(ms):.2f} ms", "", f"{ratio:.3f}x", target, ok))
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


if __name__ == "__main__":
    _serve()
