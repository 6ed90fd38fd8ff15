#!/usr/bin/env python3
"""The layer rule: which folder of src/ may include which other folders, and limits on files and heavy headers.

An include is written from the root of src/ (`"core/graph/graph.h"`). A folder may always include itself and
`core/base`. New folders get a row in ALLOWED; the table itself must be free of cycles.
"""

from __future__ import annotations

import argparse
import re
import sys
from pathlib import Path

MAX_LINES = 1000

CORE = [
    "core/base",
    "core/observe",
    "core/ops",
    "core/shapes",
    "core/graph",
    "core/fake",
    "core/tracer",
    "core/passes",
    "core/backend",
]
CAPTURE = [
    "capture/pycompat",
    "capture/tensors",
    "capture/values",
    "capture/guards",
    "capture/call",
    "capture/cache",
    "capture/frame",
]
# Folders of the interpreter, lowest first: the state of an attempt; the operations of the language, declared; their
# implementations by topic. A topic declares in `protocol` what a lower topic needs of it.
TOPICS = ["torch", "containers", "operators", "iteration", "attributes", "classes", "calls", "objects", "frames"]
# Leaves: no topic includes them, nor does one the other.
LEAVES = ["models", "opcodes", "assembly"]
INTERPRETER = [f"capture/interpreter/{name}" for name in ("state", "protocol", *TOPICS, *LEAVES)]

BELOW_INTERPRETER = ["capture/pycompat", "capture/tensors", "capture/values", "capture/guards", "capture/call", *CORE]

ALLOWED: dict[str, list[str]] = {
    "core/base": [],
    "core/observe": [],
    "core/ops": [],
    "core/shapes": ["core/observe"],
    "core/graph": ["core/shapes", "core/observe"],
    "core/fake": ["core/ops", "core/shapes", "core/observe"],
    "core/tracer": ["core/graph", "core/fake", "core/ops", "core/shapes", "core/observe"],
    "core/passes": ["core/tracer", "core/graph", "core/fake", "core/ops", "core/shapes", "core/observe"],
    "core/backend": ["core/graph", "core/ops", "core/shapes", "core/observe"],
    "capture/pycompat": [],
    "capture/tensors": [],
    "capture/values": ["capture/pycompat", "core/shapes", "core/fake", "core/graph", "core/tracer", "core/observe"],
    "capture/guards": [
        "capture/pycompat",
        "capture/tensors",
        "capture/values",
        "core/graph",
        "core/shapes",
        "core/observe",
    ],
    "capture/call": ["capture/pycompat", "capture/tensors", "capture/values", "capture/guards", *CORE],
    "capture/cache": ["capture/pycompat", "capture/tensors", "capture/values", "capture/guards", "capture/call", *CORE],
    **{folder: [*BELOW_INTERPRETER, *INTERPRETER[: min(i, 2 + len(TOPICS))]] for i, folder in enumerate(INTERPRETER)},
    "capture/frame": ["capture/pycompat", "capture/call", "capture/cache", "core/observe"],
    "compile": [*CORE, *CAPTURE, *INTERPRETER],
    "bindings": [*CORE, *CAPTURE, *INTERPRETER, "compile"],
}

# Headers that pull most of torch into a translation unit.
HEAVY = {"torch/extension.h", "torch/torch.h", "torch/all.h", "ATen/ATen.h"}
PYTHON_HEADERS = re.compile(r"^(Python|frameobject|structmember|pybind11/.*|.*python_.*|torch/csrc/utils/pybind)\.h$")
VERSION_CHECK = re.compile(r"\bPY_(VERSION_HEX|MINOR_VERSION|MAJOR_VERSION)\b")
INCLUDE = re.compile(r'^\s*#\s*include\s*(["<])([^">]+)[">]')


def folder_of(path: str) -> str | None:
    """The row of ALLOWED that a path below src/ belongs to: the longest matching prefix."""
    fits = [name for name in ALLOWED if path.startswith(name + "/")]
    return max(fits, key=len) if fits else None


def find_cycle() -> list[str] | None:
    done: set[str] = set()

    def visit(name: str, trail: list[str]) -> list[str] | None:
        if name in trail:
            return [*trail[trail.index(name) :], name]
        if name in done:
            return None
        for other in ALLOWED[name]:
            if cycle := visit(other, [*trail, name]):
                return cycle
        done.add(name)
        return None

    for name in ALLOWED:
        if cycle := visit(name, []):
            return cycle
    return None


def check_file(src: Path, path: Path) -> list[str]:
    relative = path.relative_to(src).as_posix()
    folder = folder_of(relative)
    if folder is None:
        return [f"{relative}: no layer has this folder; give it a row in tools/check_includes.py"]
    problems = []
    lines = path.read_text().splitlines()
    if len(lines) > MAX_LINES:
        problems.append(f"{relative}: {len(lines)} lines, more than {MAX_LINES}")
    for number, line in enumerate(lines, 1):
        here = f"{relative}:{number}"
        if VERSION_CHECK.search(line) and folder != "capture/pycompat":
            problems.append(f"{here}: CPython version conditional outside capture/pycompat")
        match = INCLUDE.match(line)
        if not match:
            continue
        quoted, target = match.group(1) == '"', match.group(2)
        if target in HEAVY:
            problems.append(f"{here}: <{target}> is too heavy; include the few headers that are used")
        if folder.startswith("core/") and PYTHON_HEADERS.match(target):
            problems.append(f"{here}: core includes Python ({target})")
        other = folder_of(target)
        if quoted and other is None:
            if (path.parent / target).exists():
                problems.append(f'{here}: write "{(path.parent / target).resolve().relative_to(src.resolve())}"')
            continue
        if other is None or other == folder or other == "core/base":
            continue
        if other not in ALLOWED[folder]:
            problems.append(f"{here}: {folder} may not include {other} ({target})")
    return problems


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--root", type=Path, default=Path(__file__).resolve().parent.parent)
    root: Path = parser.parse_args().root
    problems = []
    if cycle := find_cycle():
        problems.append("the layer table has a cycle: " + " -> ".join(cycle))
    src = root / "src"
    sources = sorted(p for p in src.rglob("*") if p.suffix in {".h", ".c", ".cpp", ".def"})
    for path in sources:
        problems += check_file(src, path)
    for top in ("python", "tests", "benchmarks", "tools", "examples"):
        for path in (root / top).rglob("*"):
            if path.suffix in {".py", ".cpp", ".h", ".c"} and len(path.read_text().splitlines()) > MAX_LINES:
                problems.append(f"{path.relative_to(root)}: more than {MAX_LINES} lines")
    for problem in problems:
        print(problem)
    print(f"check_includes: {len(sources)} files, {len(problems)} problems")
    return bool(problems)


if __name__ == "__main__":
    sys.exit(main())
