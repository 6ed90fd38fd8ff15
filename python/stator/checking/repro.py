"""`stator.repro(fn)(*args)`: makes a failure of a compiled program small, and writes a script that shows it.

    found = stator.repro(step, backend="mine")(x)
    print(found)                    # what fails, from which instruction and operator on
    found.write("smaller")          # smaller.py, and the files that it reads

Every run is made in a child process, so that a crash is found as well, and the program's own state stays as it is.
First the instruction is searched: the smallest `config.break_after` with which the program fails, then the capture.
Then the graph of that capture is tried as a program of its own, and its operators are removed as long as it fails.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from .. import metrics, places
from ..api import compile, reset
from ..modes import innermost
from ..progress import shown
from .failures import Checks, Failure, Limits, graph_failure, limited, program_failure
from .graphs import Collector, GraphCall, is_text, minimised, place_of
from .trials import in_child

# No program has more instructions in one capture.
_MOST_INSTRUCTIONS = 1 << 20


@dataclass
class SmallGraph:
    """A graph that fails by itself: its code as Python, inputs and constants."""

    code: str
    inputs: list[Any]
    constants: dict[str, Any]
    operators: int
    lines: list[places.Line]
    failure: Failure


@dataclass
class Repro:
    """What `stator.repro` found. `kind` is None if the program does not fail."""

    name: str
    kind: str | None = None
    what: str = ""
    limits: Limits = field(default_factory=Limits)
    function: str = ""
    file: str = ""
    line: int = 0
    graph: SmallGraph | None = None
    call: tuple[Any, Any, Any] | None = field(repr=False, default=None)
    checks: Checks = field(repr=False, default_factory=Checks)

    def __str__(self) -> str:
        if self.kind is None:
            return f"{self.name}: compiled and plain program agree"
        lines = [f"{self.name}: {self.kind}: {self.what}"]
        if self.limits.captures:
            lines.append(f"  starts in capture {self.limits.captures}, of {self.function}")
        if self.limits.break_after > 0:
            lines.append(f"  fails with config.break_after = {self.limits.break_after}, and not with less")
        elif self.limits.break_after < 0:
            lines.append("  fails also if every instruction runs by itself: no graph is the cause")
        if self.line:
            lines.append(f"  at {places.short_path(self.file)}:{self.line}")
            if source := places.source_of(self.file, self.line):
                lines.append(f"    {source}")
        if self.graph is not None:
            count = f"{self.graph.operators} operator{'s' if self.graph.operators != 1 else ''}"
            lines.append(f"  a graph of {count} fails by itself:")
            lines += [f"    {line}" for line in self.graph.code.strip().splitlines()[1:]]
        return "\n".join(lines)

    def write(self, path: str | Path) -> Path:
        """Writes a script that shows the failure in a fresh process, and the files that it reads, beside it."""
        from .scripts import write

        return write(self, Path(path))


def repro(
    fn: Any, *, tol: float = 1e-4, slower_than: float | None = None, seconds: float = 60.0, **settings: Any
) -> Callable[..., Repro]:
    """`repro(fn)(*args, **kwargs)` finds the smallest part of a program that fails when it is compiled, and returns
    a `Repro`. A failure is a result, argument, module state or gradient that differs from the plain
    program's; an error that the plain program does not raise; the end of the process; a run that does not end.

    tol: results may differ by `tol + tol * |result|`; those of a graph also by twice the plain ones' rounding error.
    slower_than: milliseconds; a capture that takes longer is a failure as well.
    seconds: how long one run may take.
    settings: arguments of `stator.compile`.
    """
    checks = Checks(settings, tol, seconds, slower_than)
    target = innermost(fn)
    name = getattr(target, "__qualname__", None) or type(target).__name__

    def search(*args: Any, **kwargs: Any) -> Repro:
        found = Repro(name, call=(target, args, kwargs), checks=checks)
        failure = program_failure(target, args, kwargs, checks)
        if failure is None:
            return found
        found.kind, found.what = failure.kind, failure.what
        _Search(found, failure).run()
        return found

    return search


class _Search:
    def __init__(self, found: Repro, failure: Failure):
        self._found = found
        self._failure = failure
        assert found.call is not None
        self._call = found.call

    def run(self) -> None:
        with shown(f"the instruction at which {self._found.name} fails is searched"):
            after = self._first_instruction()
            captures = self._first_capture(after) if after >= 0 else 0
        self._found.limits = Limits(after, captures)
        if after >= 0:
            with shown(f"the operator at which {self._found.name} fails is searched"):
                self._locate()

    def _fails(self, limits: Limits) -> bool:
        return self._failure.is_like(program_failure(*self._call, self._found.checks, limits))

    def _first_instruction(self) -> int:
        """The smallest `break_after` with which the program fails; 0: only without a limit; -1: also with none."""
        if self._fails(Limits(-1)):
            return -1
        low, high, most = 0, 1, self._instructions()
        while not self._fails(Limits(high)):
            if high > most:
                return 0
            low, high = high, high * 2
        while low + 1 < high:
            middle = (low + high) // 2
            low, high = (low, middle) if self._fails(Limits(middle)) else (middle, high)
        return high

    def _instructions(self) -> int:
        """An upper bound of the instructions in one capture of the program."""

        def count() -> int:
            fn, args, kwargs = self._call
            reset()
            with limited(Limits()):
                compile(fn, **self._found.checks.settings)(*args, **kwargs)
            return max(record["ir_count"] for record in metrics.records())

        trial = in_child(count, self._found.checks.seconds)
        return _MOST_INSTRUCTIONS if trial.ended is not None else int(trial.value)

    def _first_capture(self, after: int) -> int:
        """The number of the first capture after which all others may break at every instruction."""
        low, high = 0, 1
        while not self._fails(Limits(after, high)):
            low, high = high, high * 2
            if high > _MOST_INSTRUCTIONS:
                return 0
        while low + 1 < high:
            middle = (low + high) // 2
            low, high = (low, middle) if self._fails(Limits(after, middle)) else (middle, high)
        return high

    def _locate(self) -> None:
        """In a child: the place of the capture, and the smallest graph that fails by itself."""
        checks, limits = self._found.checks, self._found.limits
        trial = in_child(lambda: _look(self._call, checks, limits, self._failure), 100 * checks.seconds)
        if trial.ended is not None:
            return  # the capture itself is the cause
        place, graph = trial.value
        if place is not None:
            self._found.function, self._found.file, self._found.line = place
        if graph is not None:
            self._found.graph = graph
            if graph.lines:
                file, line, function = graph.lines[-1]
                self._found.function, self._found.file, self._found.line = function, file, line


def _look(call: Any, checks: Checks, limits: Limits, failure: Failure) -> tuple[Any, SmallGraph | None]:
    fn, args, kwargs = call
    collector = Collector()
    records: list[dict[str, Any]] = []
    settings = {key: value for key, value in checks.settings.items() if key not in ("backend", "mode", "options")}
    reset()
    with limited(limits, records.append):
        try:
            compile(fn, backend=collector, **settings)(*args, **kwargs)
        except Exception:
            pass  # the graphs that were made before are what is needed
    chosen = records[limits.captures - 1] if 0 < limits.captures <= len(records) else None
    place = None
    if chosen is not None:
        stop = (chosen["break_reason"] or {}).get("stack") or [(chosen["file"], chosen["line"], chosen["function"])]
        file, line, _ = stop[places.user_index(stop)]
        place = chosen["function"], file, line
    for graph in reversed(collector.calls):  # the last capture is the one at which the failure starts
        if (small := _small_graph(graph, checks, failure)) is not None:
            return place, small
    return place, None


def _small_graph(call: GraphCall, checks: Checks, failure: Failure) -> SmallGraph | None:
    def fails(candidate: GraphCall) -> bool:
        return failure.is_like(graph_failure(candidate, checks))

    if not is_text(call.module) or not call.operators or not fails(call):
        return None
    small = minimised(call, fails)
    seen = graph_failure(small, checks)
    lines = [place for node in small.operators if (place := place_of(node)) is not None]
    constants = {
        str(node.target): getattr(small.module, str(node.target))
        for node in small.module.graph.nodes
        if node.op == "get_attr"
    }
    return SmallGraph(small.module.code, small.inputs, constants, len(small.operators), lines, seen or failure)
