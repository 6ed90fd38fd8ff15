"""`python -m stator report`: one self-contained page of a trace. Reading a trace runs no code, and all that the page
shows is text: nothing of a trace is markup or script."""

from __future__ import annotations

import re
from collections import Counter
from pathlib import Path
from typing import Any

from . import strict_json, trace
from .files import write_whole

# So many operators are listed.
_MOST_OPS = 60
# So many functions.
_MOST_CALLS = 100


def write_report(place: str | Path, file: str | Path) -> int:
    """Writes the page of a trace; returns the number of compilations. ValueError if there is no trace."""
    data = collect(place)
    # What is shown of one compilation at a time is apart: the browser parses it when it is opened.
    parts = [{name: frame.pop(name) for name in _PARTS if name in frame} for frame in data["frames"]]
    page = (Path(__file__).parent / "report.html").read_text(encoding="utf-8")
    before, between, after = re.split(r"/\*DATA\*/null|<!--PARTS-->", page)
    kept = "".join(
        f'<script type="application/json" id="part{number}">{_json(part)}</script>\n'
        for number, part in enumerate(parts)
    )
    write_whole(Path(file), before + kept + between + _json(data) + after)
    return len(data["frames"])


_PARTS = ("code", "nodes", "guards", "plan")


def _json(value: Any) -> str:
    """For a script element: `</` and `<!--` mean something there, whatever text they are in."""
    return strict_json.dumps(value).replace("<", "\\u003c")


def collect(place: str | Path) -> dict[str, Any]:
    """What the page shows: the compilations of a trace, problems, counters, operators."""
    frames: dict[str, dict[str, Any]] = {}
    header: dict[str, Any] = {}
    counters: Counter[str] = Counter()
    phases: Counter[str] = Counter()
    memory: dict[str, int] = {}
    calls: list[dict[str, Any]] = []
    number, ended = -1, 0
    if not trace.files_of(place) or not Path(place).exists():
        raise ValueError(f"there is no trace in {place}")
    for record in trace.read(place):
        kind = record["kind"]
        if kind == "header":
            header, number = record, number + 1
            continue
        if kind == "end_of_process":
            ended += 1
            for group, rows in record["counters"].items():
                counters.update({f"{group}.{name}": count for name, count in rows.items()})
            calls += record["calls"]
            memory |= {name: max(size, memory.get(name, 0)) for name, size in record["peak_memory_bytes"].items()}
        if "compile_id" not in record:
            continue
        frame = frames.setdefault(f"{number}:{record['compile_id']}", {"id": record["compile_id"], "process": number})
        _add(frame, kind, record)
        if kind == "metrics":
            phases.update(_own_times(record["spans"]))
    rows = [frame for frame in frames.values() if "function" in frame]
    operators = Counter(node["op"] for frame in rows for node in frame.get("nodes", ()) if "::" in node["op"])
    return {
        "header": {key: header.get(key) for key in ("stator", "torch", "python", "command")},
        "frames": rows,
        # Processes whose trace has no end: they were killed, still run, or met a full disk.
        "unfinished": number + 1 - ended,
        "problems": problems(rows),
        "counters": dict(counters),
        "phases": phases.most_common(),
        "calls": sorted(calls, key=lambda row: -row["hits"])[:_MOST_CALLS],
        "memory": memory,
        "operators": operators.most_common(_MOST_OPS),
    }


_METRICS = (
    *("start_time_us", "duration_us", "capture_us", "guards_us", "plan_us", "backend_us"),
    *("guard_count", "guard_latency_us", "graph_op_count", "cache_size", "param_bytes"),
    *("fail_type", "fail_reason"),
)


def _add(frame: dict[str, Any], kind: str, record: dict[str, Any]) -> None:
    if kind == "start":
        frame |= {key: record[key] for key in ("function", "file", "line", "reason")}
    elif kind == "recompile":
        frame["again"] = {key: record[key] for key in ("file", "line", "source")}
    elif kind == "graph":
        frame |= {"code": record["payload"], "nodes": record["nodes"]}
    elif kind in ("guards", "plan"):
        frame[kind] = record["payload"]
    elif kind == "break":
        frame["break"] = {key: record[key] for key in ("id", "reason", "hint", "file", "line", "source")}
    elif kind == "metrics":
        frame |= {key: record.get(key) for key in _METRICS}


def _own_times(spans: list[dict[str, Any]]) -> Counter[str]:
    """Microseconds by phase, each without the phases inside of it. Spans are in the order of their ends."""
    own: Counter[str] = Counter()
    inside: list[tuple[int, int]] = []  # start and duration of the phases that are inside of one that ends later
    for span in spans:
        spent = span["duration_us"]
        while inside and inside[-1][0] >= span["start_us"]:
            spent -= inside.pop()[1]
        own[span["name"]] += max(0, spent)
        inside.append((span["start_us"], span["duration_us"]))
    return own


def problems(frames: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """What costs time, the worst first: each with the program's line, what was seen, and what to do."""
    found: list[dict[str, Any]] = []
    breaks: dict[tuple[Any, ...], list[dict[str, Any]]] = {}
    recompiles: dict[tuple[Any, ...], list[dict[str, Any]]] = {}
    for frame in frames:
        if stop := frame.get("break"):
            breaks.setdefault((stop["file"], stop["line"], stop["id"]), []).append(frame)
        if frame.get("reason"):
            recompiles.setdefault((frame["file"], frame["line"], _what(frame["reason"])), []).append(frame)
    for (file, line, _), rows in breaks.items():
        stop = rows[0]["break"]
        found.append(_problem("graph break", file, line, rows, stop["reason"], stop["hint"], stop["source"]))
    for (file, line, what), rows in recompiles.items():
        place = rows[-1].get("again") or {}
        at, number = (place["file"], place["line"]) if place.get("file") else (file, line)
        hint = (
            "each new object is captured again: make the objects equal in structure, or keep them between calls"
            if "same object" in what
            else "keep this the same from call to call, or make a changing number a tensor"
        )
        found.append(_problem("recompilation", at, number, rows, rows[-1]["reason"], hint, place.get("source", "")))
    return sorted(found, key=lambda row: -row["us"])


def _what(reason: str) -> str:
    """The part of a reason that is equal for recompilations of one kind: without numbers, ids and texts."""
    return re.sub(r"'[^']*'|[-+]?\d+(\.\d+)?(e[-+]?\d+)?", "#", reason.partition("(needed")[0])


def _problem(
    kind: str, file: str, line: int, rows: list[dict[str, Any]], text: str, hint: str, source: str
) -> dict[str, Any]:
    return {
        "kind": kind,
        "file": file,
        "line": line,
        "count": len(rows),
        "functions": sorted({row["function"] for row in rows}),
        "us": sum(row.get("duration_us") or 0 for row in rows),
        "text": text,
        "hint": hint,
        "source": source,
        "ids": [row["id"] for row in rows],
    }
