"""`stator.profile`: how much of a program's work runs in captured graphs.

    with stator.profile() as profile:
        step(x)
    print(profile.results())                #  1 graphs  1 graph calls    3/   4 =  75% ops  50% time
    print(profile.table())                  # the same by graph

STATOR_PRINT_MISSING=1 also prints each operator that ran outside of graphs, with the program's lines.

Counts only operators that the program called, on any thread, each together with the operators it calls. Ranges,
bookkeeping and what runs inside a compilation are left out. It uses torch's profiler. Blocks of one thread can be
nested: the outer one also counts what runs in the inner one. A second thread cannot open a block while one is open.
Torch records for one profiler at a time: inside a block of `torch.profiler` this one is right, and the outer one gets
nothing.
"""

from __future__ import annotations

import os
import threading
from dataclasses import dataclass, field
from typing import Any

import torch

from . import _C, places
from .fork_safe import ForkSafeLock
from .once import print_once
from .times import table

# The prefix of the profiler's ranges for runs of graphs.
_REGION = "Stator: "
# A compilation: the operators inside run on fakes.
_COMPILATION = "Stator: frame"
_MISSING = "STATOR_PRINT_MISSING"


@dataclass
class ProfileMetrics:
    """Time in microseconds, and counts of operators, fusions (operators after a graph's first) and graph calls."""

    microseconds: float = 0.0
    operators: float = 0
    fusions: float = 0
    graphs: float = 0

    def __iadd__(self, other: ProfileMetrics) -> ProfileMetrics:
        assert isinstance(other, ProfileMetrics), f"metrics and {type(other).__name__} cannot be added"
        self.microseconds += other.microseconds
        self.operators += other.operators
        self.fusions += other.fusions
        self.graphs += other.graphs
        return self

    def __add__(self, other: ProfileMetrics) -> ProfileMetrics:
        made = ProfileMetrics(self.microseconds, self.operators, self.fusions, self.graphs)
        made += other
        return made

    def __truediv__(self, other: ProfileMetrics | int) -> ProfileMetrics:
        if isinstance(other, int):
            other = ProfileMetrics(other, other, other, other)
        return ProfileMetrics(
            self.microseconds / max(1, other.microseconds),
            self.operators / max(1, other.operators),
            self.fusions / max(1, other.fusions),
            self.graphs / max(1, other.graphs),
        )

    def __str__(self) -> str:
        """For a ratio: the shares of operators and of time."""
        return f"{self.operators:4.0%} ops {self.microseconds:4.0%} time"

    def tocsv(self) -> list[float]:
        return [self.operators, self.microseconds]


@dataclass
class ProfileResult:
    """What ran in captured graphs, and what ran in total. `unique_graphs`: how many graphs were captured."""

    captured: ProfileMetrics | None = None
    total: ProfileMetrics | None = None
    unique_graphs: int = 0

    def __post_init__(self) -> None:
        self.captured = self.captured or ProfileMetrics()
        self.total = self.total or ProfileMetrics()
        self.unique_graphs = self.unique_graphs or 0

    def __iadd__(self, other: ProfileResult) -> ProfileResult:
        assert self.captured is not None and self.total is not None
        assert other.captured is not None and other.total is not None
        self.captured += other.captured
        self.total += other.total
        self.unique_graphs += other.unique_graphs
        return self

    def percent(self) -> ProfileMetrics:
        assert self.captured is not None and self.total is not None
        return self.captured / self.total

    def __str__(self) -> str:
        assert self.captured is not None and self.total is not None
        calls, captured, total = self.captured.graphs, self.captured.operators, self.total.operators
        return f"{self.unique_graphs:2} graphs {calls:2.0f} graph calls {captured:4.0f}/{total:4.0f} = {self.percent()}"

    def tocsv(self) -> list[float]:
        assert self.captured is not None and self.total is not None
        counts = [self.unique_graphs, self.captured.graphs, self.captured.operators, self.total.operators]
        return [*counts, self.percent().operators, self.percent().microseconds]


@dataclass
class GraphRow:
    """The calls of one graph."""

    name: str
    calls: int = 0
    operators: int = 0
    microseconds: float = 0.0


@dataclass
class _Counts:
    captured: ProfileMetrics = field(default_factory=ProfileMetrics)
    total: ProfileMetrics = field(default_factory=ProfileMetrics)
    graphs: dict[str, GraphRow] = field(default_factory=dict)
    missing: list[Any] = field(default_factory=list)


# The open blocks, the innermost last, and the thread that opened them.
_open: list[profile] = []
_owner = 0
_lock = ForkSafeLock()


class profile:
    """A context manager that measures what its block runs; see the module."""

    def __init__(self) -> None:
        self._shows_missing = os.environ.get(_MISSING) == "1"
        self._profiler: Any = None
        # What was recorded: a list for each stretch of time in which this block was the innermost one, or for a block
        # inside of it.
        self._recorded: list[list[Any]] = []
        self._first = 0  # of the lists, since this block was entered
        self._graphs_before = 0
        self._unique = 0
        self._counts: _Counts | None = None

    def __enter__(self) -> profile:
        global _owner
        with _lock:
            if _open and _owner != threading.get_ident():
                raise RuntimeError("a block of stator.profile() is open on another thread")
            if self in _open:
                raise RuntimeError("this block of stator.profile() is open already")
            around = _open[-1] if _open else None
            _open.append(self)
            _owner = threading.get_ident()
        if around is not None:
            around._pause()
        self._counts, self._first = None, len(self._recorded)
        self._graphs_before = _C.count_of("captures.graphs")
        self._resume()
        return self

    def __exit__(self, *error: Any) -> None:
        self._pause()
        self._unique += _C.count_of("captures.graphs") - self._graphs_before
        with _lock:
            _open.remove(self)
            around = _open[-1] if _open else None
        if around is not None:
            around._recorded += self._recorded[self._first :]
            around._resume()

    def _resume(self) -> None:
        # The profiler adds stacks to its events only if both options are set.
        config = torch._C._profiler._ExperimentalConfig(verbose=self._shows_missing, profile_all_threads=True)
        self._profiler = torch.profiler.profile(
            activities=[torch.profiler.ProfilerActivity.CPU],
            with_stack=self._shows_missing,
            experimental_config=config,
        )
        self._profiler.__enter__()

    def _pause(self) -> None:
        self._profiler.__exit__(None, None, None)
        self._recorded.append(list(self._profiler.events() or ()))
        self._profiler = None

    def results(self) -> ProfileResult:
        """What was measured. The number of unique graphs starts at 0 again."""
        counts = self._counted()
        if self._shows_missing:
            for event in counts.missing:
                _print_missing(event)
        unique, self._unique = self._unique, 0
        return ProfileResult(counts.captured, counts.total, unique)

    def graphs(self) -> list[GraphRow]:
        """The graphs that ran, those that took longest first."""
        return sorted(self._counted().graphs.values(), key=lambda row: -row.microseconds)

    def missing(self) -> dict[str, int]:
        """How often each operator ran outside of graphs, the most frequent first."""
        names: dict[str, int] = {}
        for event in self._counted().missing:
            names[event.name] = names.get(event.name, 0) + 1
        return dict(sorted(names.items(), key=lambda row: -row[1]))

    def table(self) -> str:
        """The graphs as a table, and the operators that ran outside of them."""
        rows = [[row.name, str(row.calls), str(row.operators), f"{row.microseconds:.0f}"] for row in self.graphs()]
        text = table(["graph", "calls", "operators", "us"], rows)
        missing = ", ".join(f"{name} {count}" for name, count in self.missing().items())
        return f"{text}\noutside of graphs: {missing or 'nothing'}"

    def _counted(self) -> _Counts:
        if self._counts is None:
            self._counts = _count(self._recorded)
        return self._counts


def _is_operator(event: Any) -> bool:
    return "::" in event.name and not event.name.startswith(("profiler::", "stator::"))


def _is_region(event: Any) -> bool:
    """Whether the event is a run of a captured graph, and not a phase of a capture."""
    return event.name.startswith(_REGION) and event.name[len(_REGION) :].partition("/")[0].lstrip("!").isdigit()


def _count(recorded: list[list[Any]]) -> _Counts:
    counts = _Counts()
    for events in recorded:
        by_thread: dict[int, list[Any]] = {}
        for event in events:
            by_thread.setdefault(event.thread, []).append(event)
        for own in by_thread.values():
            _count_thread(sorted(own, key=lambda event: (event.time_range.start, -event.time_range.end)), counts)
    counts.captured.fusions = max(0, counts.captured.operators - counts.captured.graphs)
    counts.total.fusions = max(0, counts.total.operators - 1)
    counts.total.graphs = counts.captured.graphs
    return counts


def _count_thread(events: list[Any], counts: _Counts) -> None:
    region, region_end, op_end = None, -1.0, -1.0
    for event in events:
        start, end = event.time_range.start, event.time_range.end
        if _is_region(event):
            # A region inside of another one is a part of it.
            if start >= region_end:
                name = event.name[len(_REGION) :]
                region = counts.graphs.setdefault(name, GraphRow(name))
                region.calls += 1
                counts.captured.graphs += 1
            region_end = max(region_end, end)
            continue
        if event.name == _COMPILATION:
            op_end = max(op_end, end)
            continue
        if not _is_operator(event) or start < op_end:
            continue
        op_end = end
        spent = end - start
        counts.total += ProfileMetrics(spent, 1)
        if end <= region_end and region is not None:
            counts.captured += ProfileMetrics(spent, 1)
            region.operators += 1
            region.microseconds += spent
        else:
            counts.missing.append(event)


def _print_missing(event: Any) -> None:
    stack = [line for line in (event.stack or ()) if _is_of_user(line)]
    if stack:
        print_once("MISSING", event.name, " >> ".join(reversed(stack[:3])))


def _is_of_user(line: str) -> bool:
    """Whether a line of the profiler's stack, `file(12): function`, is one of the program."""
    file = line.partition("(")[0]
    return not line.startswith(("<built-in", "torch/")) and places.is_of_user(os.path.abspath(file))
