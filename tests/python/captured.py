"""Compares captures with the expectations in tests/golden; `--renew` rewrites the expectations.

Each version of CPython and torch has its own folder (`tests/golden/cp311-torch2.13`), because captures
depend on the bytecode and on torch's Python code. On a version without a folder nothing is compared.
"""

from __future__ import annotations

import contextlib
import fcntl
import platform
import re
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import torch

import stator
from stator import _C

ROOT = Path(__file__).resolve().parents[2]
VERSION = "cp{}-torch{}".format(
    "".join(platform.python_version_tuple()[:2]), ".".join(torch.__version__.split("+")[0].split(".")[:2])
)
FOLDER = ROOT / "tests" / "golden" / VERSION
HINT = "if this is meant, `make golden` rewrites the files in tests/golden: review the diff, then commit it"

Record = dict[str, Any]


@contextlib.contextmanager
def watched() -> Iterator[list[Record]]:
    """The records of all captures in the block, in order."""
    records: list[Record] = []

    def listen(record: Record) -> None:
        records.append(record)
        if before is not None:
            before(record)

    before = _C.set_capture_listener(listen)
    try:
        yield records
    finally:
        _C.set_capture_listener(before)


def summary(records: list[Record]) -> str:
    """The number of graphs and operators, and graph breaks by reason. Without `varying`: how often captures stop at an
    object that is another one in each call depends on when the collector frees the earlier ones."""
    graphs = sum(record["graph"] is not None for record in records)
    text = f"graphs {graphs} ops {sum(record['ops'] for record in records)}"
    breaks = Counter(record["break_reason"]["id"] for record in records if record["break_reason"])
    return text + "".join(f" {name}*{count}" for name, count in sorted(breaks.items()) if name != "varying")


class _File:
    """The parts of a golden file by name. Several workers of one test run may renew them at the same time."""

    def __init__(self, name: str):
        self.path = FOLDER / name

    def parts(self) -> dict[str, str]:
        return self.parse(self.path.read_text(encoding="utf-8")) if self.path.exists() else {}

    def parse(self, text: str) -> dict[str, str]:
        raise NotImplementedError

    def format(self, name: str, part: str) -> str:
        raise NotImplementedError

    def put(self, name: str, part: str) -> None:
        self._write({name: part}, set())

    def check_names(self, names: set[str], renew: bool) -> None:
        """Checks that every part belongs to a program; `renew` removes the others."""
        gone = set(self.parts()) - names
        if renew:
            return self._write({}, gone)
        assert not gone, f"{self.path.relative_to(ROOT)} tells of programs that are gone: {sorted(gone)}; {HINT}"
        return None

    def _write(self, fresh: dict[str, str], gone: set[str]) -> None:
        self.path.parent.mkdir(parents=True, exist_ok=True)
        with self.path.open("a+", encoding="utf-8") as file:
            fcntl.flock(file, fcntl.LOCK_EX)
            parts = self.parts() | fresh
            file.truncate(0)
            file.write("".join(self.format(name, parts[name]) for name in sorted(parts) if name not in gone))


class Table(_File):
    """A table with a line for each program: its name and a summary of its captures."""

    def __init__(self, name: str):
        super().__init__(f"{name}.captured")

    def parse(self, text: str) -> dict[str, str]:
        return dict(line.split(": ", 1) for line in text.splitlines())

    def format(self, name: str, part: str) -> str:
        return f"{name}: {part}\n"

    def check(self, name: str, records: list[Record], renew: bool) -> None:
        """Compares the captures of one program with its line, or renews the line. Alternatives are separated by ` or `:
        how a set of strings can be rebuilt depends on the hashes of the process."""
        found, expected = summary(records), self.parts().get(name, "no line")
        if found in expected.split(" or "):
            return
        if renew:
            self.put(name, found)
        elif FOLDER.exists():
            raise AssertionError(f"captured: {found}; {self.path.relative_to(ROOT)} says: {expected}; {HINT}")


class Golden(_File):
    """A file with a section for each program of a topic: the text of its captures."""

    def __init__(self, topic: str):
        super().__init__(f"{topic}.txt")

    def parse(self, text: str) -> dict[str, str]:
        return {part.split(":", 1)[0]: f"==== {part}" for part in text.split("==== ")[1:]}

    def format(self, name: str, part: str) -> str:
        return part


# ---- text


ADDRESS = re.compile(r"\b0x[0-9a-f]{6,}\b")
LIBRARY = re.compile(r"(/[\w.+-]+)+/lib/python3\.\d+/(site-packages/)?")
NEEDED = re.compile(r"  \(needed at ([^\s:]+):(\d+)\)")
PLACE = re.compile(r'"([^"\s]+)":(\d+)')
OWN_PLACE = re.compile(r'("python/stator/[^"\s]+"):\d+')


class Writer:
    """Formats the captures of one program. Lines count from the program's first one, so that programs above it may
    change; addresses, absolute paths and lines of Stator's own sources are omitted."""

    def __init__(self, file: str, first_line: int, brief: bool):
        self.file, self.first_line, self.brief = file, first_line, brief

    def line(self, text: str) -> str:
        text = NEEDED.sub(lambda match: f"  (line +{self._offset(match)})" if match[1] == self.file else "", text)
        text = PLACE.sub(lambda match: f"+{self._offset(match)}" if match[1] == self.file else match[0], text)
        text = OWN_PLACE.sub(r"\1", LIBRARY.sub("", text).replace(f"{ROOT}/", ""))
        return ADDRESS.sub("0x...", text).rstrip()

    def _offset(self, match: re.Match[str]) -> int:
        return int(match[2]) - self.first_line

    def capture(self, record: Record) -> list[str]:
        """Formats function, graph, guards and plan, and the graph break that ended the capture."""
        lines = [f"-- {record['compile_id']} {record['function']}"]
        if record["recompile_reason"]:
            lines.append(f"again because {record['recompile_reason']}")
        if record["graph"] is not None:
            lines += str(record["graph"]).splitlines()
        if self.brief:
            lines.append(f"guards: {len(record['guards'])}")
        else:
            lines += ["guards:", *(f"  {guard}" for guard in record["guards"])]
        if record["plan"] is not None:
            lines += ["plan:", *(f"  {step}" for step in record["plan"])]
        if reason := record["break_reason"]:
            lines.append(f"break: {reason['text']} [{reason['id']}] in {reason.get('function')}")
        return [self.line(line) for text in lines for line in text.splitlines()]


def golden_text(name: str, fn: Any, calls: list[tuple], writer: Writer) -> str:
    """The captures of these calls of `fn`, as a section of a golden file."""
    stator.reset()
    with watched() as records:
        compiled = stator.compile(fn)
        for args in calls:
            with contextlib.suppress(Exception):
                compiled(*args)
    lines = [line for record in records for line in writer.capture(record)]
    return "\n".join([f"==== {name}: {summary(records)}", *lines]) + "\n"
