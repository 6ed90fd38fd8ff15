"""A trace in the form of torch's structured trace, which tools like tlparse read."""

from __future__ import annotations

import hashlib
import json
import re
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from . import strict_json
from .files import write_whole
from .trace_records import read


def to_torch(place: str | Path, file: str | Path) -> int:
    """Writes the records that torch's structured trace has too in its form; returns how many."""
    form = _TorchForm()
    for record in read(place):
        for name, data, payload in _counterparts(record):
            form.add(record, name, data, payload)
    write_whole(Path(file), "".join(f"{line}\n" for line in form.lines))
    return form.count


class _TorchForm:
    def __init__(self) -> None:
        self.lines: list[str] = []
        self.count = 0
        self._numbers: dict[str, int] = {}  # of names of files

    def add(self, record: dict[str, Any], name: str, data: Any, payload: str | None) -> None:
        head: dict[str, Any] = {name: self._numbered(record, data)}
        if numbers := re.search(r"(\d+)/(\d+)$", record.get("compile_id", "")):
            head |= {"frame_id": int(numbers[1]), "frame_compile_id": int(numbers[2]), "attempt": 0}
        if payload is not None:
            head["has_payload"] = hashlib.md5(
                payload.encode(errors="backslashreplace"), usedforsecurity=False
            ).hexdigest()
        self._put(record, head)
        if payload is not None:
            self.lines += [f"\t{line}" for line in payload.split("\n")]

    def _numbered(self, record: dict[str, Any], data: Any) -> Any:
        """With the numbers of files in place of their names."""
        for frame in data.get("stack", ()):
            file = frame["filename"]
            if file not in self._numbers:
                self._numbers[file] = len(self._numbers)
                self._put(record, {"str": [file, self._numbers[file]]})
            frame["filename"] = self._numbers[file]
        return data

    def _put(self, record: dict[str, Any], head: dict[str, Any]) -> None:
        stamp = time.strftime("%m%d %H:%M:%S", time.localtime(record["time_us"] / 1e6))
        self.lines.append(
            f"V{stamp}.{record['time_us'] % 1_000_000:06d} 0 stator/trace.py:1] {strict_json.dumps(head)}"
        )
        self.count += 1


def _counterparts(record: dict[str, Any]) -> Iterator[tuple[str, dict[str, Any], str | None]]:
    """Name, data and payload of torch's records that say the same."""
    kind, payload = record["kind"], record.get("payload")
    if kind == "start":
        line = {"line": record["line"], "name": record["function"], "filename": record["file"], "loc": ""}
        yield "dynamo_start", {"stack": [line]}, None
    elif kind == "graph":
        yield "dynamo_output_graph", {"sizes": {node["id"]: node["type"] for node in record["nodes"]}}, payload
    elif kind == "guards":
        guards = [{"code": guard} for guard in (payload or "").splitlines()]
        yield "dynamo_guards", {}, json.dumps(guards, indent=2)
    elif kind == "recompile":
        yield "artifact", {"name": "recompile_reasons", "encoding": "json"}, json.dumps(record["reason"])
    elif kind == "break":
        lines = [f"{file}:{line}, in {function}" for file, line, function in record["stack"]]
        text = "\n".join([*lines, record["source"], record["reason"], record["hint"]])
        yield "artifact", {"name": "dynamo_graph_break_reason", "encoding": "string"}, text
    elif kind == "artifact":
        yield "artifact", {"name": record["name"], "encoding": "string"}, payload
    elif kind == "metrics":
        for event in _events(record):
            yield "chromium_event", {}, strict_json.dumps(event)
        hidden = {"v", "kind", "time_us", "spans"}
        yield "compilation_metrics", {key: value for key, value in record.items() if key not in hidden}, None


def _events(record: dict[str, Any]) -> list[dict[str, Any]]:
    """The phases of a compilation as events of a Chrome trace."""
    args = {"compile_id": record["compile_id"]}
    return [
        {
            "name": span["name"],
            "ph": "X",
            "ts": record["start_time_us"] + span["start_us"],
            "dur": span["duration_us"],
            "cat": "stator",
            "pid": 0,
            "tid": 0,
            "args": args,
        }
        for span in record["spans"]
    ]
