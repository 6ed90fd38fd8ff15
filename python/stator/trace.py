"""The structured trace: what each compilation was, one JSON record a line, for other programs and for the report.

    STATOR_TRACE=directory python train.py          # or stator.trace.start("directory")
    for record in stator.trace.read("directory"): ...
    python -m stator report directory -o report.html

Each process writes a file of its own. A line is one JSON object:

    {"v": 1, "kind": "header", ...}                 first: versions, process, command line
    {"v": 1, "kind": "string", "id": 3, "text": "/home/me/train.py"}
    {"v": 1, "kind": "graph", "compile_id": "0/0", "time_us": ..., "payload": "...", "md5": "...", ...}

Names of files are written once, as a `string` record, and by number elsewhere (`{"$s": 3}`); `read` puts them back.
docs/observability.md has the kinds. Reading runs no code. A last line that was cut off is left out, with a warning.
"""

from __future__ import annotations

import atexit
import hashlib
import json
import logging
import os
import sys
import threading
import time
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import torch

from . import _C, observer, places, show

_log = logging.getLogger("stator")
VERSION = 1
_RESERVED = {"v", "kind", "id", "text", "compile_id", "time_us", "payload", "md5"}

_writer: Writer | None = None


class Writer:
    """Writes one file. If writing fails it warns once, and writes no more."""

    def __init__(self, directory: Path):
        self.directory = directory
        directory.mkdir(parents=True, exist_ok=True)
        stamp = time.strftime("%Y%m%d_%H%M%S")
        self.process = os.getpid()
        self.path = self._fresh(directory, f"stator_trace_{stamp}_{self.process}")
        self._file: Any = self.path.open("x", encoding="utf-8")
        self._lock = threading.Lock()
        self._strings: dict[str, int] = {}
        self.overhead_us = 0
        self.write("header", **_header())

    @staticmethod
    def _fresh(directory: Path, name: str) -> Path:
        path, number = directory / f"{name}.jsonl", 0
        while path.exists():
            number += 1
            path = directory / f"{name}.{number}.jsonl"
        return path

    def write(self, kind: str, compile_id: str | None = None, payload: str | None = None, **data: Any) -> None:
        if self._file is None or os.getpid() != self.process:  # a child of a fork writes nothing to its parent's file
            return
        started = time.perf_counter_ns()
        record: dict[str, Any] = {"v": VERSION, "kind": kind, "time_us": time.time_ns() // 1000}
        if compile_id is not None:
            record["compile_id"] = compile_id
        with self._lock:
            try:
                record.update({name: self._interned(value) for name, value in data.items()})
                if payload is not None:
                    record["payload"] = payload
                    record["md5"] = hashlib.md5(payload.encode(), usedforsecurity=False).hexdigest()
                self._put(record)
            except OSError as error:
                self._fail(error)
        self.overhead_us += (time.perf_counter_ns() - started) // 1000

    def _put(self, record: dict[str, Any]) -> None:
        # One write for one line: a reader sees all of it, or a last line without its end.
        self._file.write(json.dumps(record, default=_plain) + "\n")
        self._file.flush()

    def _fail(self, error: OSError) -> None:
        file, self._file = self._file, None
        warnings.warn(f"the trace {self.path} ends here: {error}", RuntimeWarning, stacklevel=4)
        try:
            file.close()
        except OSError:
            pass

    def _interned(self, value: Any) -> Any:
        if isinstance(value, str) and value.startswith(os.sep) and "\n" not in value:
            if value not in self._strings:
                self._strings[value] = len(self._strings)
                self._put({"v": VERSION, "kind": "string", "id": self._strings[value], "text": value})
            return {"$s": self._strings[value]}
        if isinstance(value, (list, tuple)):
            return [self._interned(item) for item in value]
        if isinstance(value, dict):
            return {key: self._interned(item) for key, item in value.items()}
        return value

    def close(self) -> None:
        if self._file is not None and os.getpid() == self.process:
            self.write("end_of_process", counters=_C.counters(), times=_totals(), overhead_us=self.overhead_us)
            file, self._file = self._file, None
            if file is not None:
                try:
                    file.close()
                except OSError as error:
                    warnings.warn(f"the trace {self.path} is not complete: {error}", RuntimeWarning, stacklevel=3)


def _totals() -> dict[str, float]:
    from .times import calculate_time_spent

    return calculate_time_spent()


def _plain(value: Any) -> Any:
    return sorted(value, key=str) if isinstance(value, (set, frozenset)) else str(value)


def _header() -> dict[str, Any]:
    from . import __version__

    return {
        "stator": __version__,
        "torch": torch.__version__,
        "python": sys.version,
        "process": os.getpid(),
        "command": sys.argv,
        "directory": os.getcwd(),
        "rank": torch.distributed.get_rank() if _is_distributed() else None,
    }


def _is_distributed() -> bool:
    return torch.distributed.is_available() and torch.distributed.is_initialized()


# ---- what is written


class _Listener:
    def __init__(self, writer: Writer):
        self._writer = writer

    def started(self, compilation: observer.Compilation) -> None:
        self._writer.write(
            "start",
            compilation.compile_id,
            function=compilation.function,
            file=compilation.file,
            line=compilation.line,
            reason=compilation.reason or None,
        )

    def ended(self, compilation: observer.Compilation, record: dict[str, Any], capture: dict[str, Any] | None) -> None:
        write, name = self._writer.write, compilation.compile_id
        before = self._writer.overhead_us
        if record["recompile_reason"]:
            write("recompile", name, reason=record["recompile_reason"])
        if capture is not None:
            self._write_capture(name, capture)
        if "pass_log" in record:
            write("pass_log", name, passes=record["pass_log"])
        fields = {key: value for key, value in record.items() if key != "compile_id"}
        fields["structured_logging_overhead_us"] = self._writer.overhead_us - before
        write("metrics", name, **fields)

    def _write_capture(self, name: str, capture: dict[str, Any]) -> None:
        write, graph = self._writer.write, capture["graph"]
        if graph is not None:
            inputs = [{"name": graph.names()[value], "type": show.type_of(graph, value)} for value in graph.inputs]
            write("inputs", name, inputs=inputs)
            write(
                "graph",
                name,
                show.graph_code(graph, show.header(capture)),
                text=str(graph),
                ops=capture["ops"],
                nodes=_nodes(graph),
            )
        write("guards", name, "\n".join(capture["guards"]), count=len(capture["guards"]))
        if capture["plan"] is not None:
            write("plan", name, show.plan_code(capture))
        if reason := capture["break_reason"]:
            stack = [list(line) for line in reason["stack"]]
            index = places.user_index(stack)
            user = stack[index] if stack else [capture["file"], capture["line"], capture["function"]]
            write(
                "break",
                name,
                id=reason["id"],
                reason=reason["text"],
                hint=reason["hint"],
                stack=stack,
                file=user[0],
                line=user[1],
                function=user[2],
                source=places.source_of(user[0], user[1]),
                resumes=capture["resumes"],
            )


def _nodes(graph: _C.Graph) -> list[dict[str, Any]]:
    """The graph for drawing: inputs, operators and output with their edges."""
    names = graph.names()
    made: list[dict[str, Any]] = []
    producer: dict[int, str] = {}
    for given in graph.inputs:
        made.append({"id": names[given], "op": "input", "type": show.type_of(graph, given), "from": []})
        producer[given] = names[given]
    locations = graph.locations()
    for number, (name, overload, args, kwargs, results, _, location) in enumerate(graph.nodes()):
        values = show.flat_values(results)
        ident = names[values[0]] if values else f"{name.rpartition(':')[2]}_{number}"
        read = [producer[value] for value in show.values_in([*args, *kwargs.values()]) if value in producer]
        file, _, line, *_ = locations[location]
        made.append(
            {
                "id": f"{ident}@{number}" if ident in producer.values() else ident,
                "op": f"{name}.{overload}" if overload else name,
                "type": ", ".join(show.type_of(graph, value, number) for value in values),
                "from": list(dict.fromkeys(read)),
                "at": f"{places.short_path(file)}:{line}" if location else "",
            }
        )
        for value in values:
            producer[value] = made[-1]["id"]
    read = [producer[value] for value in graph.outputs if value in producer]
    made.append({"id": "output", "op": "output", "type": "", "from": list(dict.fromkeys(read))})
    return made


def start(directory: str | Path) -> Path | None:
    """Writes the trace of this process to a file in `directory` from now on, and returns its path. Warns, and returns
    None, if that is not possible."""
    global _writer
    stop()
    try:
        _writer = Writer(Path(directory))
    except OSError as error:
        warnings.warn(f"no trace is written to {directory}: {error}", RuntimeWarning, stacklevel=2)
        return None
    observer.request("trace", _Listener(_writer))
    return _writer.path


def stop() -> None:
    """Ends the trace."""
    global _writer
    writer, _writer = _writer, None
    observer.withdraw("trace")
    if writer is not None:
        writer.close()


def artifact(name: str, payload: str | Callable[[], str | list[str]], **data: Any) -> None:
    """Adds a record of the program's own. `payload`, if it is callable, is called only while a trace is written; a list
    has one item a line."""
    if clash := sorted(_RESERVED & data.keys()):
        raise ValueError(f"the names {', '.join(map(repr, clash))} are reserved in records of a trace")
    writer = _writer
    if writer is None:
        return
    text = payload() if callable(payload) else payload
    record = _C.open_record()
    if record is None:
        data["stack"] = [list(line) for line in places.running(2)]
    compile_id = record[0] if record is not None else None
    writer.write("artifact", compile_id, "\n".join(text) if isinstance(text, list) else text, name=name, **data)


# ---- reading


def files_of(place: str | Path) -> list[Path]:
    """The files of a trace: one file, or all of a directory."""
    path = Path(place)
    return sorted(path.glob("stator_trace_*.jsonl")) if path.is_dir() else [path]


def read(place: str | Path) -> Iterator[dict[str, Any]]:
    """The records of a trace file, or of all trace files of a directory, in their order. `file` names of records are
    texts again. ValueError for a file of another version; a broken line is left out, with a warning."""
    for path in files_of(place):
        strings: dict[int, str] = {}
        with path.open(encoding="utf-8", errors="replace") as lines:
            for number, line in enumerate(lines, start=1):
                record = _parsed(path, number, line)
                if record is None:
                    continue
                if record.get("v") != VERSION:
                    raise ValueError(f"{path}:{number} has version {record.get('v')!r}; this reads version {VERSION}")
                if record["kind"] == "string":
                    strings[record["id"]] = record["text"]
                    continue
                yield _resolved(record, strings)


def _parsed(path: Path, number: int, line: str) -> dict[str, Any] | None:
    try:
        record = json.loads(line)
        if not line.endswith("\n") or not isinstance(record, dict) or "kind" not in record:
            raise ValueError
    except ValueError:
        warnings.warn(f"{path}:{number} is no whole record, and is left out", RuntimeWarning, stacklevel=4)
        return None
    return record


def _resolved(value: Any, strings: dict[int, str]) -> Any:
    if isinstance(value, dict):
        if list(value) == ["$s"]:
            return strings.get(value["$s"], "?")
        return {key: _resolved(item, strings) for key, item in value.items()}
    if isinstance(value, list):
        return [_resolved(item, strings) for item in value]
    return value


# Records of this trace, and those of torch's trace that say the same.
_TORCH_KINDS = {
    "start": "dynamo_start",
    "graph": "dynamo_output_graph",
    "guards": "dynamo_guards",
    "metrics": "compilation_metrics",
    "artifact": "artifact",
}


def to_torch(place: str | Path, file: str | Path) -> int:
    """Writes the records that torch's structured trace has too in its form, which tools like tlparse read; returns how
    many."""
    lines: list[str] = []
    numbers: dict[str, int] = {}
    for record in read(place):
        kind = _TORCH_KINDS.get(record["kind"])
        if kind is None:
            continue
        stamp = time.strftime("%m%d %H:%M:%S", time.localtime(record["time_us"] / 1e6))
        frame, _, attempt = (record.get("compile_id") or "0/0").rpartition("/")
        head: dict[str, Any] = {kind: _torch_data(kind, record, numbers, lines)}
        if "compile_id" in record:
            head |= {"frame_id": int(frame.rpartition("/")[2]), "frame_compile_id": int(attempt), "attempt": 0}
        payload = record.get("payload")
        if payload is not None:
            head["has_payload"] = record["md5"]
        prefix = f"V{stamp}.{record['time_us'] % 1_000_000:06d} 0 stator/trace.py:1]"
        lines.append(f"{prefix} {json.dumps(head)}")
        lines += [f"\t{line}" for line in (payload or "").split("\n")] if payload is not None else []
    from .files import write_whole

    write_whole(Path(file), "".join(f"{line}\n" for line in lines))
    return sum(not line.startswith("\t") for line in lines)


def _torch_data(kind: str, record: dict[str, Any], numbers: dict[str, int], lines: list[str]) -> Any:
    if kind == "dynamo_start":
        file = record["file"]
        if file not in numbers:
            numbers[file] = len(numbers)
            stamp = time.strftime("%m%d %H:%M:%S", time.localtime(record["time_us"] / 1e6))
            lines.append(f"V{stamp}.000000 0 stator/trace.py:1] {json.dumps({'str': [file, numbers[file]]})}")
        return {"stack": [{"line": record["line"], "name": record["function"], "filename": numbers[file]}]}
    if kind == "compilation_metrics":
        hidden = {"v", "kind", "time_us", "payload", "md5"}
        return {key: value for key, value in record.items() if key not in hidden}
    if kind == "dynamo_output_graph":
        return {"sizes": {node["id"]: node["type"] for node in record["nodes"]}}
    return {"name": record["name"], "encoding": "string"} if kind == "artifact" else {}


def _start_from_environment() -> None:
    if directory := os.environ.get("STATOR_TRACE"):
        start(directory)


atexit.register(stop)
