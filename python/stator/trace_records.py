"""The records of a trace file: which fields they have, and how they are read. Nothing here runs code of a trace."""

from __future__ import annotations

import json
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

VERSION = 1
# Fields that each record has; data of the program may not use these names.
RESERVED = frozenset({"v", "kind", "id", "text", "compile_id", "time_us", "payload", "md5"})

# The fields of each kind of record, by type; `?`: may be null; `compile_id`: the compilation that it belongs to.
# Records may have more fields than these. A `path` is a text, which stands in the file by its number.
KINDS: dict[str, dict[str, str]] = {
    "header": {
        "stator": "text",
        "torch": "text",
        "python": "text",
        "process": "int",
        "command": "list",
        "directory": "path",
        "rank": "int?",
    },
    "string": {"id": "int", "text": "text"},
    "start": {"compile_id": "text", "function": "text", "file": "path", "line": "int", "reason": "text?"},
    "recompile": {"compile_id": "text", "reason": "text", "file": "path?", "line": "int?", "source": "text"},
    "inputs": {"compile_id": "text", "inputs": "list"},
    "graph": {"compile_id": "text", "payload": "text", "text": "text", "ops": "int", "nodes": "nodes"},
    "guards": {"compile_id": "text", "payload": "text", "count": "int"},
    "plan": {"compile_id": "text", "payload": "text"},
    "break": {
        "compile_id": "text",
        "id": "text",
        "reason": "text",
        "hint": "text",
        "stack": "lines",
        "file": "path",
        "line": "int",
        "function": "text",
        "source": "text",
        "resumes": "bool",
    },
    "metrics": {
        "compile_id": "text",
        "log_format_version": "int",
        "structured_logging_overhead_us": "int",
        "start_time_us": "int",
        "duration_us": "int",
        "capture_us": "int",
        "guards_us": "int",
        "plan_us": "int",
        "backend_us": "int",
        "guard_count": "int?",
        "guard_latency_us": "number?",
        "graph_op_count": "int?",
        "cache_size": "int?",
        "param_bytes": "int",
        "fail_type": "text?",
        "fail_reason": "text?",
        "spans": "spans",
    },
    "pass_log": {"compile_id": "text", "passes": "map"},
    "artifact": {"name": "text"},
    "end_of_process": {
        "counters": "groups",
        "times": "numbers",
        "calls": "calls",
        "peak_memory_bytes": "numbers",
        "overhead_us": "int",
    },
}

_TYPES: dict[str, tuple[type, ...]] = {
    "text": (str,),
    "path": (str,),
    "int": (int,),
    "number": (int, float),
    "bool": (bool,),
    "list": (list,),
    "map": (dict,),
}
_NODE = {"id": "text", "op": "text", "type": "text", "from": "list"}
_CALL = {
    "function": "text",
    "file": "path",
    "line": "int",
    "entries": "int",
    "hits": "int",
    "misses": "int",
    "guard_us": "number?",
}
_SPAN = {"name": "text", "start_us": "int", "duration_us": "int"}
# Lists of maps, by the fields of these.
_LISTS = {"nodes": _NODE, "spans": _SPAN, "calls": _CALL}
# Maps whose values are of these types.
_MAPS = {"numbers": "number", "groups": "numbers"}


def _is_of_type(value: Any, wanted: str) -> bool:
    if wanted.endswith("?"):
        return value is None or _is_of_type(value, wanted[:-1])
    if wanted in _LISTS:
        return isinstance(value, list) and all(
            isinstance(row, dict) and not _problem(row, _LISTS[wanted]) for row in value
        )
    if wanted in _MAPS:
        return isinstance(value, dict) and all(_is_of_type(item, _MAPS[wanted]) for item in value.values())
    if wanted == "lines":  # file, line, function
        return isinstance(value, list) and all(
            isinstance(row, list) and [type(part) for part in row] == [str, int, str] for row in value
        )
    return isinstance(value, _TYPES[wanted]) and (wanted == "bool" or not isinstance(value, bool))


def _problem(record: dict[str, Any], fields: dict[str, str]) -> str:
    for name, wanted in fields.items():
        if name not in record:
            return f"it has no {name!r}"
        if not _is_of_type(record[name], wanted):
            return f"{name!r} is not of type {wanted}"
    return ""


def problem_of(record: Any) -> str:
    """Why this is not a record of this version, with the texts of its paths; empty if it is one."""
    if not isinstance(record, dict) or not isinstance(record.get("kind"), str):
        return "it is not a record"
    fields = KINDS.get(record["kind"])
    if fields is None:
        return f"there is no kind {record['kind']!r}"
    stamp = {} if record["kind"] == "string" else {"time_us": "int"}
    payload = {"payload": "text", "md5": "text"} if "payload" in record else {}
    return _problem(record, {"v": "int", **stamp, **fields, **payload})


def schema() -> dict[str, Any]:
    """The JSON schema of one line of a trace file."""
    names = {
        "text": "string",
        "int": "integer",
        "number": "number",
        "bool": "boolean",
        "list": "array",
        "map": "object",
    }

    def of_type(wanted: str) -> dict[str, Any]:
        if wanted.endswith("?"):
            return {"anyOf": [of_type(wanted[:-1]), {"type": "null"}]}
        if wanted == "path":
            number = {"type": "object", "properties": {"$s": {"type": "integer"}}, "required": ["$s"]}
            return {"anyOf": [{"type": "string"}, number]}
        if wanted in _LISTS:
            return {"type": "array", "items": of_fields(_LISTS[wanted])}
        if wanted in _MAPS:
            return {"type": "object", "additionalProperties": of_type(_MAPS[wanted])}
        if wanted == "lines":
            parts = [of_type("path"), {"type": "integer"}, {"type": "string"}]
            return {"type": "array", "items": {"type": "array", "prefixItems": parts}}
        return {"type": names[wanted]}

    def of_fields(fields: dict[str, str]) -> dict[str, Any]:
        return {
            "type": "object",
            "properties": {name: of_type(wanted) for name, wanted in fields.items()},
            "required": list(fields),
        }

    def of_kind(kind: str, fields: dict[str, str]) -> dict[str, Any]:
        stamp = {} if kind == "string" else {"time_us": "int"}
        made = of_fields({"v": "int", **stamp, **fields})
        made["properties"] |= {"kind": {"const": kind}, "v": {"const": VERSION}}
        made["required"].append("kind")
        return {**made, "dependentRequired": {"payload": ["md5"]}}

    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "a line of a Stator trace",
        "oneOf": [of_kind(kind, fields) for kind, fields in KINDS.items()],
    }


def files_of(place: str | Path) -> list[Path]:
    """The files of a trace: one file, or all of a directory."""
    path = Path(place)
    return sorted(path.glob("stator_trace_*.jsonl")) if path.is_dir() else [path]


def read(place: str | Path) -> Iterator[dict[str, Any]]:
    """The records of a trace file, or of all trace files of a directory, in their order, with the texts of paths. A
    line that is not a record of the schema is left out, with a warning. ValueError for a file of another version."""
    for path in files_of(place):
        strings: dict[int, str] = {}
        with path.open(encoding="utf-8", errors="replace") as lines:
            for number, line in enumerate(lines, start=1):
                try:
                    record = _resolved(json.loads(line), strings)
                    problem = problem_of(record) if line.endswith("\n") else "it is cut off"
                except (ValueError, RecursionError) as error:
                    record, problem = None, str(error)
                if isinstance(record, dict) and record.get("v", VERSION) != VERSION:
                    raise ValueError(f"{path}:{number} has version {record['v']!r}; this reads version {VERSION}")
                if problem:
                    text = f"{path}:{number} is not a complete record, and is left out: {problem}"
                    warnings.warn(text, RuntimeWarning, stacklevel=2)
                elif record["kind"] == "string":
                    strings[record["id"]] = record["text"]
                else:
                    yield record


def _resolved(value: Any, strings: dict[int, str]) -> Any:
    if isinstance(value, dict):
        if list(value) == ["$s"]:
            return strings.get(value["$s"], "?") if isinstance(value["$s"], int) else "?"
        return {key: _resolved(item, strings) for key, item in value.items()}
    if isinstance(value, list):
        return [_resolved(item, strings) for item in value]
    return value
