"""The structured trace: what each compilation was, one JSON record a line, for other programs and for the report.

    STATOR_TRACE=directory python train.py          # or stator.trace.start("directory")
    for record in stator.trace.read("directory"): ...
    python -m stator report directory -o report.html

Each process writes a file of its own. A line is one JSON object:

    {"v": 1, "kind": "header", ...}                 first: versions, process, command line
    {"v": 1, "kind": "string", "id": 3, "text": "/home/me/train.py"}
    {"v": 1, "kind": "graph", "compile_id": "0/0", "time_us": ..., "payload": "...", "md5": "...", ...}

Names of files are written once, as a `string` record, and by number elsewhere (`{"$s": 3}`); `read` puts them back.
docs/observability.md has the kinds, `schema()` the JSON schema of a line. Reading runs no code. A line that was cut off
is left out, with a warning.
"""

from __future__ import annotations

import atexit
import contextlib
import hashlib
import itertools
import os
import re
import resource
import sys
import threading
import time
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch

from . import _C, metrics, observer, places, show, strict_json
from .trace_records import RESERVED, VERSION, files_of, read, schema
from .trace_torch import to_torch

__all__ = ["artifact", "files_of", "read", "schema", "start", "stop", "to_torch"]

# The last line that a reason names: a guard of several facts names several.
_NEEDED = re.compile(r".*\(needed at (.*):(\d+)\)$", re.DOTALL)

_writer: Writer | None = None


class Writer:
    """Writes one file. If writing fails it warns once, and writes no more."""

    def __init__(self, directory: Path):
        self._directory = directory.absolute()  # the child of a fork may open it from another working directory
        self._open()

    def _open(self) -> None:
        self._directory.mkdir(parents=True, exist_ok=True)
        self.path, self._file = self._fresh(self._directory)
        # Recursive: a collection while it is held may compile something.
        self._lock = threading.RLock()
        self._strings: dict[str, int] = {}
        self._is_forked = False
        self.overhead_us = 0
        self.write("header", **_header())

    def forked(self) -> None:
        """In the child of a fork: the first record opens a file of its own."""
        self._is_forked, self._file, self._lock = True, None, threading.RLock()

    @staticmethod
    def _fresh(directory: Path) -> tuple[Path, Any]:
        """A file that no other process has, even if they have one number on two machines."""
        name = f"stator_trace_{time.strftime('%Y%m%d_%H%M%S')}_{os.getpid()}"
        for number in itertools.count():
            path = directory / (f"{name}.{number}.jsonl" if number else f"{name}.jsonl")
            with contextlib.suppress(FileExistsError):
                # Without a buffer: the child of a fork has no line of its parent that it could write again.
                return path, path.open("xb", buffering=0)
        raise AssertionError("never reached")

    def write(self, kind: str, compile_id: str | None = None, /, payload: str | None = None, **data: Any) -> None:
        if self._is_forked:
            self._is_forked = False
            try:
                self._open()
            except OSError as error:
                _warn_of_none(self._directory, error)
        if self._file is None:
            return
        started = time.perf_counter_ns()
        record: dict[str, Any] = {"v": VERSION, "kind": kind, "time_us": time.time_ns() // 1000}
        if compile_id is not None:
            record["compile_id"] = compile_id
        failed: OSError | None = None
        try:
            record.update({name: self._interned(value) for name, value in data.items()})
            if payload is not None:
                record["payload"] = payload
                record["md5"] = hashlib.md5(payload.encode(errors="surrogatepass"), usedforsecurity=False).hexdigest()
            self._put(record)
        except OSError as error:
            failed = error
        with self._lock:
            self.overhead_us += (time.perf_counter_ns() - started) // 1000
        if failed is not None:
            self._fail(failed)

    def _put(self, record: dict[str, Any]) -> None:
        # Made without the lock: the text of an object of the program may compile something, and wait for a thread that
        # compiles and waits for the lock.
        line = (strict_json.dumps(record, _plain) + "\n").encode()
        with self._lock:
            # One write for one line: a reader sees all of it, or a last line without its end.
            while line and self._file is not None:
                line = line[self._file.write(line) :]

    def _fail(self, error: OSError) -> None:
        with self._lock:
            file, self._file = self._file, None
        if file is None:
            return
        warnings.warn(f"the trace {self.path} ends here: {error}", RuntimeWarning, stacklevel=4)
        with contextlib.suppress(OSError):
            file.close()

    def _interned(self, value: Any) -> Any:
        if isinstance(value, str) and value.startswith(os.sep) and "\n" not in value:
            with self._lock:  # no thread writes a number before the record that says what it stands for
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
        if self._file is not None:
            self.write(
                "end_of_process",
                counters=_C.counters(),
                times=_totals(),
                calls=metrics.calls(),
                peak_memory_bytes=_peak_memory(),
                overhead_us=self.overhead_us,
            )
            with self._lock:
                file, self._file = self._file, None
            if file is not None:
                try:
                    file.close()
                except OSError as error:
                    warnings.warn(f"the trace {self.path} is not complete: {error}", RuntimeWarning, stacklevel=3)


def _totals() -> dict[str, float]:
    from .times import calculate_time_spent

    return calculate_time_spent()


def _peak_memory() -> dict[str, int]:
    """The most memory that the process had at a time, by device."""
    peak = {"process": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024}
    if torch.cuda.is_initialized():
        peak |= {f"cuda:{i}": torch.cuda.max_memory_allocated(i) for i in range(torch.cuda.device_count())}
    return peak


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
            self._write_recompile(name, record["recompile_reason"])
        if capture is not None:
            self._write_capture(name, capture)
        if "pass_log" in record:
            write("pass_log", name, passes=record["pass_log"])
        fields = {key: value for key, value in record.items() if key != "compile_id"}
        fields["structured_logging_overhead_us"] = self._writer.overhead_us - before
        write("metrics", name, **fields)

    def _write_recompile(self, name: str, reason: str) -> None:
        found = _NEEDED.match(reason)
        file, line = (found[1], int(found[2])) if found else (None, None)
        source = places.source_of(file, line) if file is not None and line is not None else ""
        self._writer.write("recompile", name, reason=reason, file=file, line=line, source=source)

    def _write_capture(self, name: str, capture: dict[str, Any]) -> None:
        write, graph = self._writer.write, capture["graph"]
        if graph is not None:
            names = graph.names()
            inputs = [{"name": names[value], "type": show.type_of(graph, value)} for value in graph.inputs]
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
    known = {names[given] for given in graph.inputs}
    for given in graph.inputs:
        made.append({"id": names[given], "op": "input", "type": show.type_of(graph, given), "from": []})
        producer[given] = names[given]
    locations = graph.locations()
    for number, (name, overload, args, kwargs, results, _, location) in enumerate(graph.nodes()):
        values = show.flat_values(results)
        ident = names[values[0]] if values else f"{name.rpartition(':')[2]}_{number}"
        read = [producer[value] for value in show.values_in([*args, *kwargs.values()]) if value in producer]
        file, _, line, *_ = locations[location]
        if ident in known:  # the node writes to a value that has a name
            ident = f"{ident}@{number}"
        known.add(ident)
        made.append(
            {
                "id": ident,
                "op": f"{name}.{overload}" if overload else name,
                "type": ", ".join(show.type_of(graph, value, number) for value in values),
                "from": list(dict.fromkeys(read)),
                "at": f"{places.short_path(file)}:{line}" if location else "",
            }
        )
        for value in values:
            producer[value] = ident
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
        _warn_of_none(directory, error)
        return None
    observer.request("trace", _Listener(_writer))
    return _writer.path


def _warn_of_none(directory: str | Path, error: OSError) -> None:
    warnings.warn(f"no trace is written to {directory}: {error}", RuntimeWarning, stacklevel=3)


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
    if clash := sorted(RESERVED & data.keys()):
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


def _start_from_environment() -> None:
    if directory := os.environ.get("STATOR_TRACE"):
        start(directory)


def _in_child() -> None:
    if _writer is not None:
        _writer.forked()


atexit.register(stop)
os.register_at_fork(after_in_child=_in_child)
