"""`stator.explain(fn)(*args)`: runs one call and reports how it was captured."""

from __future__ import annotations

import sys
import warnings
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

from . import _C, places
from .api import compile, reset
from .modes import innermost

# What fits on one screen: graphs, breaks, and kinds of operators of one graph.
_MOST_GRAPHS, _MOST_BREAKS, _MOST_KINDS = 8, 6, 12


@dataclass
class Break:
    """A graph break. `file` and `line`: the user's own line; `stack`: all lines from the outermost captured frame to
    the one that could not be captured; `count`: how many captures ended there."""

    id: str
    text: str
    file: str
    line: int
    hint: str = ""
    stack: list[places.Line] = field(default_factory=list)
    count: int = 1

    @property
    def chain(self) -> list[places.Line]:
        """The lines of libraries between the user's line and the one that could not be captured."""
        return self.stack[places.user_index(self.stack) + 1 :] if self.stack else []

    @property
    def place(self) -> tuple[Any, ...]:
        """Equal for breaks of one kind at one line."""
        return self.id, tuple(self.stack[-1]) if self.stack else (self.file, self.line)

    def __str__(self) -> str:
        index = places.user_index(self.stack)
        where = places.show(self.stack[index]) if self.stack else f"{places.short_path(self.file)}:{self.line}"
        lines = [where + (f"  ({self.count} captures)" if self.count > 1 else "")]
        if source := places.source_of(self.file, self.line):
            lines.append(f"    {source}")
        lines.append(f"  {self.text} [{self.id}]")
        if self.chain:
            lines.append(f"  through: {' > '.join(map(places.show, self.chain))}")
        if self.hint:
            lines.append(f"  try: {self.hint}")
        return "\n".join(lines)


@dataclass
class Capture:
    """One captured frame: its graph if it has one, and the break that ended it, if any."""

    compile_id: str
    function: str
    file: str
    line: int
    graph: Any
    ops: int
    guards: list[str]
    phases: dict[str, float]
    broke: Break | None = None
    recompile_reason: str | None = None
    changed: list[str] = field(default_factory=list)
    """Sizes and numbers that became symbolic in this capture, since they changed: "n: 3, now 4"."""
    specialised: list[str] = field(default_factory=list)
    """Sizes and ints that are constants although they change or were meant to be symbols: why, and where."""

    @classmethod
    def from_record(cls, record: dict[str, Any], callers: list[places.Line]) -> Capture:
        """`callers`: the lines of the program that led to the captured frame, if the capture began inside the call."""
        reason = record.get("break_reason")
        return cls(
            compile_id=record.get("compile_id") or "",
            function=record.get("function") or "",
            file=record.get("file") or "",
            line=record.get("line") or 0,
            graph=record.get("graph"),
            ops=record.get("ops") or 0,
            guards=list(record.get("guards") or ()),
            phases=dict(record.get("phases") or {}),
            broke=_break_of(reason, callers) if reason else None,
            recompile_reason=record.get("recompile_reason"),
            changed=list(record.get("changed") or ()),
            specialised=list(record.get("specialised") or ()),
        )

    @property
    def operators(self) -> dict[str, int]:
        """How often the graph has each operator, the most frequent first."""
        if self.graph is None:
            return {}
        return dict(Counter(node[0].removeprefix("aten::") for node in self.graph.nodes()).most_common())

    @property
    def lines(self) -> tuple[int, int] | None:
        """The first and the last line of the function that have operators in the graph."""
        locations = self.graph.locations() if self.graph is not None else []
        found = [line for file, name, line, *_ in locations if (file, name) == (self.file, self.function)]
        found = [line for line in found if line != self.line]
        return (min(found), max(found)) if found else None

    def __str__(self) -> str:
        lines = [f"{self.function}  {places.short_path(self.file)}:{self.line}"]
        if self.lines is not None:
            first, last = self.lines
            lines[0] += f", line {first}" if first == last else f", lines {first}-{last}"
        if self.graph is None:
            lines.append("  no operators")
        else:
            kinds = [name if n == 1 else f"{name} {n}" for name, n in self.operators.items()]
            if len(kinds) > _MOST_KINDS:
                kinds[_MOST_KINDS:] = [f"{len(kinds) - _MOST_KINDS} more kinds"]
            lines.append(f"  {_count(self.ops, 'op')}: {', '.join(kinds)}")
        if self.recompile_reason:
            lines.append(f"  captured again because {self.recompile_reason}")
        lines += [f"  symbolic from now on: {text}" for text in self.changed]
        lines += [f"  specialised: {text}" for text in self.specialised]
        return "\n".join(lines)

    def details(self) -> str:
        """Everything about the capture: times, break, graph with its locations, guards."""
        phases = ", ".join(f"{name} {ms:.2f} ms" for name, ms in self.phases.items())
        lines = [f"[{self.compile_id}] {self}", *([f"  {phases}"] if phases else [])]
        if self.broke is not None:
            lines.append(_indent(f"break: {self.broke}"))
        if self.graph is not None:
            lines.append(_indent(str(self.graph)))
        if self.guards:
            lines += [f"  {_count(len(self.guards), 'guard')}:", *(f"    {guard}" for guard in self.guards)]
        return "\n".join(lines)


def _break_of(reason: dict[str, Any], callers: list[places.Line]) -> Break:
    stack = list(reason.get("stack") or ())
    stack = callers + stack
    file, line = stack[places.user_index(stack)][:2] if stack else ("", 0)
    return Break(
        id=reason.get("id") or "",
        text=reason.get("text") or "",
        file=file,
        line=line,
        hint=reason.get("hint") or "",
        stack=stack,
    )


@dataclass
class ExplainOutput:
    """The report of one call. Prints as a summary; `details()` has everything; its parts are attributes."""

    name: str
    captures: list[Capture]
    result: Any = field(repr=False, default=None)

    @property
    def graphs(self) -> list[Any]:
        return [capture.graph for capture in self.captures if capture.graph is not None]

    @property
    def graph_count(self) -> int:
        return len(self.graphs)

    @property
    def break_reasons(self) -> list[Break]:
        """Each break once, however many captures ended there."""
        found: dict[tuple[Any, ...], Break] = {}
        for capture in self.captures:
            if capture.broke is None:
                continue
            known = found.setdefault(capture.broke.place, capture.broke)
            known.count = 1 if known is capture.broke else known.count + 1
        return list(found.values())

    @property
    def graph_break_count(self) -> int:
        return len(self.break_reasons)

    @property
    def ops_per_graph(self) -> list[int]:
        return [capture.ops for capture in self.captures if capture.graph is not None]

    @property
    def op_count(self) -> int:
        return sum(self.ops_per_graph)

    @property
    def guards(self) -> list[str]:
        return [guard for capture in self.captures for guard in capture.guards]

    @property
    def compile_times(self) -> dict[str, float]:
        """Milliseconds by phase, summed over all captures."""
        total: dict[str, float] = {}
        for capture in self.captures:
            for name, ms in capture.phases.items():
                total[name] = total.get(name, 0.0) + ms
        return total

    def _summary(self) -> str:
        total = self.compile_times.get("total")
        counts = [
            _count(self.graph_count, "graph"),
            _count(self.op_count, "op"),
            _count(self.graph_break_count, "break"),
            _count(len(self.guards), "guard"),
        ]
        return f"{self.name}: {', '.join(counts)}" + (f", {total:.2f} ms" if total is not None else "")

    def __str__(self) -> str:
        lines = [self._summary()]
        with_graph = [capture for capture in self.captures if capture.graph is not None]
        lines += _listed("graph", with_graph, _MOST_GRAPHS)
        lines += _listed("break", self.break_reasons, _MOST_BREAKS)
        if self.captures:
            lines += ["", "details() has the graphs with their lines, and the guards."]
        return "\n".join(lines)

    def details(self) -> str:
        """The summary, and everything about each capture: times, break, graph with its locations, guards."""
        return "\n\n".join([self._summary(), *(capture.details() for capture in self.captures)])


def _listed(what: str, items: list[Any], most: int) -> list[str]:
    lines = []
    for number, item in enumerate(items[:most], start=1):
        lines += ["", f"{what} {number}: {item}"]
    if len(items) > most:
        lines += ["", f"and {_count(len(items) - most, f'more {what}')}"]
    return lines


def _count(number: int, noun: str) -> str:
    return f"{number} {noun}{'' if number == 1 else 's'}"


def _indent(text: str) -> str:
    return "\n".join("  " + line for line in text.splitlines())


def explain(
    fn: Any, *old_args: Any, backend: Any = None, after: Iterable[Sequence[Any]] = (), **old_kwargs: Any
) -> Any:
    """`explain(fn)(*args, **kwargs)` runs `fn` once, compiled, and returns an `ExplainOutput`.

    `after`: the arguments of calls that are made first, and not reported: then the report says why the explained call
    is captured again, which sizes and numbers become symbolic, and which are specialised on.

    Printed, it fits on a screen: each graph with its function and operators, each break with the line of the program
    and what to do. The cache is cleared before and after, so that the report does not depend on earlier calls.
    """

    def explained(*args: Any, **kwargs: Any) -> ExplainOutput:
        captures: list[Capture] = []
        compiled = compile(innermost(fn), backend=backend)
        reset()
        for earlier in after:
            compiled(*earlier)
        before = _C.set_capture_listener(
            lambda record: captures.append(Capture.from_record(record, _callers(record, explained.__code__)))
        )
        try:
            result = compiled(*args, **kwargs)
        finally:
            _C.set_capture_listener(before)
            reset()
        return ExplainOutput(_name_of(fn), captures, result)

    if old_args or old_kwargs:
        warnings.warn("explain(fn, *args) is deprecated; write explain(fn)(*args)", FutureWarning, stacklevel=2)
        return explained(*old_args, **old_kwargs)
    return explained


def _callers(record: dict[str, Any], outermost: Any) -> list[places.Line]:
    """The lines of the frames that run between the call that is explained and the captured frame. A capture that begins
    after a break, or in a function that a break called, does not report them itself."""
    lines: list[places.Line] = []
    frame = sys._getframe(2)
    while frame is not None and frame.f_code is not outermost:
        code = frame.f_code
        lines.insert(0, (code.co_filename, frame.f_lineno, code.co_qualname))
        frame = frame.f_back  # type: ignore[assignment]
    stack = (record.get("break_reason") or {}).get("stack") or ()
    # The captured frame itself may run already.
    if lines and stack and (lines[-1][0], lines[-1][2]) == (stack[0][0], stack[0][2]):
        lines.pop()
    return lines if frame is not None else []


def _name_of(fn: Callable[..., Any]) -> str:
    return getattr(fn, "__qualname__", None) or type(fn).__name__
