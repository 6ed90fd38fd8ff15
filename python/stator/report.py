"""`stator.explain(fn)(*args)`: runs one call and reports how it was captured."""

from __future__ import annotations

import linecache
import warnings
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from . import _C
from .api import compile, reset
from .modes import innermost


@dataclass
class Break:
    """A graph break: the line of the user's program where a capture ended."""

    id: str
    text: str
    file: str
    line: int
    hint: str = ""
    stack: list[Any] = field(default_factory=list)

    def __str__(self) -> str:
        lines = [f"{self.file}:{self.line}: {self.text} [{self.id}]"]
        if source := linecache.getline(self.file, self.line).strip():
            lines.append(f"    {source}")
        if self.hint:
            lines.append(f"    try: {self.hint}")
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

    @classmethod
    def from_record(cls, record: dict[str, Any]) -> Capture:
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
            broke=_break_of(reason) if reason else None,
            recompile_reason=record.get("recompile_reason"),
        )

    def __str__(self) -> str:
        phases = ", ".join(f"{name} {ms:.2f} ms" for name, ms in self.phases.items())
        lines = [f"[{self.compile_id}] {self.function}  {self.file}:{self.line}"]
        if self.graph is None:
            lines.append("  ran as plain Python")
        else:
            lines.append(f"  {_count(self.ops, 'op')}, {_count(len(self.guards), 'guard')}")
        if phases:
            lines.append(f"  {phases}")
        if self.recompile_reason:
            lines.append(f"  captured again because {self.recompile_reason}")
        return "\n".join(lines)


def _break_of(reason: dict[str, Any]) -> Break:
    return Break(
        id=reason.get("id") or "",
        text=reason.get("text") or "",
        file=reason.get("file") or "",
        line=reason.get("line") or 0,
        hint=reason.get("hint") or "",
        stack=list(reason.get("stack") or ()),
    )


@dataclass
class ExplainOutput:
    """The report of one call. Prints as text; its parts are attributes."""

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
        return [capture.broke for capture in self.captures if capture.broke is not None]

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

    def __str__(self) -> str:
        total = self.compile_times.get("total")
        counts = [
            _count(self.graph_count, "graph"),
            _count(self.op_count, "op"),
            _count(self.graph_break_count, "break"),
            _count(len(self.guards), "guard"),
        ]
        lines = [f"{self.name}: {', '.join(counts)}" + (f", {total:.2f} ms" if total is not None else "")]
        for capture in self.captures:
            lines += ["", str(capture)]
            if capture.broke is not None:
                lines.append(_indent(f"break: {capture.broke}"))
            if capture.graph is not None:
                lines.append(_indent(str(capture.graph)))
            if capture.guards:
                lines += ["  guards:", *(f"    {guard}" for guard in capture.guards)]
        return "\n".join(lines)


def _count(number: int, noun: str) -> str:
    return f"{number} {noun}{'' if number == 1 else 's'}"


def _indent(text: str) -> str:
    return "\n".join("  " + line for line in text.splitlines())


def explain(fn: Any, *old_args: Any, backend: Any = None, **old_kwargs: Any) -> Any:
    """`explain(fn)(*args, **kwargs)` runs `fn` once, compiled, and returns an `ExplainOutput`.

    The cache is cleared before and after, so that the report does not depend on earlier calls.
    """

    def explained(*args: Any, **kwargs: Any) -> ExplainOutput:
        captures: list[Capture] = []
        compiled = compile(innermost(fn), backend=backend)
        reset()
        before = _C.set_capture_listener(lambda record: captures.append(Capture.from_record(record)))
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


def _name_of(fn: Callable[..., Any]) -> str:
    return getattr(fn, "__qualname__", None) or type(fn).__name__
